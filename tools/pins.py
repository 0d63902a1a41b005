"""What nixpkgs has at the pins that torchsmith ships: asked of Nix, written into probed/pins.toml.

    python -m tools.pins --nixpkgs 6a030d5=TREE --nixpkgs fe5e41d=TREE ...     writes the file
    python -m tools.pins --check --nixpkgs 6a030d5=TREE ...                    fails if it would change

A tree is a checkout or an unpacked tarball of that revision. Entries whose tree is not given stay as they
are, and one that says the same as before keeps its day and version of Nix: the file stays the same.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.load import DATA, PROBED
from torchsmith.cli.nix_options import read_trees
from torchsmith.core.toml_edit import table_text
from torchsmith.nix.probe import probe
from torchsmith.nix.tool import Nix, find_nix

HEAD = """# nixpkgs revisions that recipes import, as Nix was asked about them. Do not edit:
# python -m tools.pins --nixpkgs REV=TREE writes this file.

"""


def text_of(entries: Mapping[str, Any]) -> str:
    """The file for these entries, by pin."""
    return HEAD + table_text(entries)


def asked(nix: Nix, kept: Mapping[str, Any], trees: Mapping[str, Path]) -> dict[str, Any]:
    """The entries with those of the trees as Nix answers now."""
    entries = dict(kept)
    for rev, tree in trees.items():
        before = kept.get(rev[:7], {})
        facts = {"rev": rev, **probe(nix, tree, builtin_catalog())}
        same = {**facts, "source": ""} == {**before, "source": ""}
        entries[rev[:7]] = facts | ({"source": before["source"]} if same else {})
    return entries


def main(words: Sequence[str]) -> int:
    """Write the file, or say that it would change."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nixpkgs", action="append", required=True, metavar="REV=TREE")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(words)
    path = DATA / PROBED
    before = path.read_text() if path.exists() else ""
    after = text_of(asked(find_nix(), tomllib.loads(before), read_trees(options.nixpkgs)))
    if options.check:
        print(f"{PROBED} is what Nix answers" if before == after else f"{PROBED} would change")
        return int(before != after)
    path.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
