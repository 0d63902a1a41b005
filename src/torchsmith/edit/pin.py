"""Moving a line to another nixpkgs or torch release: facts and recipes in one step, or not at all."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from torchsmith.catalog import TORCH, Catalog, Line, LineBuild, Pin, builtin_catalog
from torchsmith.catalog.check import SOURCE
from torchsmith.core.files import read_text
from torchsmith.core.problem import CannotBuild, Conflict, Empty, Incomplete, Invalid, Refused
from torchsmith.core.toml import nodes, parsed, place
from torchsmith.core.toml_write import table_text
from torchsmith.core.words import some_of
from torchsmith.edit.impact import Effect, effects, write_recipes
from torchsmith.edit.proposal import Proposal
from torchsmith.matrix.cells import find_line
from torchsmith.nix.evaluate import Evaluate
from torchsmith.nix.fetch import nixpkgs_address, tarball_hash
from torchsmith.nix.probe import probe
from torchsmith.nix.tool import find_nix
from torchsmith.workspace.change import Adoption, Change, ChangeKind
from torchsmith.workspace.checkout import recipes_in
from torchsmith.workspace.journal import writing
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.reconcile import reconcile
from torchsmith.workspace.run import carry_out as write_changes
from torchsmith.workspace.wanted import wanted_repos

BEGIN, END = "# torchsmith pin: begin (written by the verb; edit above or below)", "# torchsmith pin: end"
FROM_SOURCE = (SOURCE, "torch-version")
VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
REVISION = re.compile(r"[0-9a-f]{40}")
HASH = re.compile(r"[0-9a-z]{52}|[0-9a-f]{64}|sha256-[0-9A-Za-z+/]{43}=")  # as Nix spells it
FactTable = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Move:
    """Where a line goes: another nixpkgs, another torch, or both. Empty means as it was."""

    line: str
    rev: str = ""
    sha256: str = ""
    torch: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)  # of other packages, by name
    hashes: Mapping[str, str] = field(default_factory=dict)  # of the nixpkgs that it has, by the pin's name
    probed: Mapping[str, Any] = field(default_factory=dict)  # what a tree of the revision was asked


def pairs_of(words: Sequence[str], **named: str) -> dict[str, str]:
    """Releases by package, as a person gives them: NAME=VERSION, or by an option of their own."""
    pairs = dict(word.partition("=")[::2] for word in words)
    for name, version in pairs.items():
        if not name or not version:
            raise Invalid(f"--pair {name} says no release", hint="such as --pair torchvision=0.25.0")
    return {name: version for name, version in (named | pairs).items() if version}


def propose(workspace: Path | None, move: Move, *, adopt: bool = False) -> Proposal:
    """Work a move out; nothing is written."""
    opened = open_workspace(workspace)
    root = opened.home
    line = find_line(opened.catalog, move.line)
    if not any(cell.line == line.name for cell in opened.matrix.cells):
        raise Empty(f"no cell of this workspace is of line {line.name}")
    used = {str(cell.variant.cuda or "cpu") for cell in opened.matrix.cells if cell.line == line.name}
    facts = _facts(line, move, opened.catalog, used)
    edits = [laid_over(root, f"catalog/{name}.toml", table) for name, table in facts.items()]
    texts = {one.path: one.after for one in edits if one.after is not None}
    after = opened.with_texts(texts)
    repos = wanted_repos(after)
    return Proposal(
        workspace=opened,
        after=after,
        edits=tuple(one for one in edits if one.kind != "keep"),
        repos=tuple(repos),
        changes=tuple(reconcile(after, repos, adopt=Adoption(adopt))),
        to_learn=tuple(to_learn(after.catalog.lines[line.name], after.catalog, used)),
    )


def learnt(workspace: Path | None, move: Move, tarball: str = "") -> Move:
    """The move with the hashes of its tarballs, as a download has them; `tarball`: of a mirror."""
    if move.sha256:
        raise Conflict("--learn and --sha256 say the same thing twice", hint="give one of them")
    if move.rev and not REVISION.fullmatch(move.rev):
        raise Incomplete("--learn needs the whole revision", hint="--rev with 40 digits")
    revisions = {"": move.rev} if move.rev else _without_hash(workspace, move.line)
    if not revisions:
        raise Empty(f"the hashes of line {move.line} are known", hint="nothing to learn")
    if tarball and len(revisions) > 1:
        count = len(revisions)
        raise Conflict(f"line {move.line} has {count} nixpkgs, and --tarball is one", hint="leave it out")
    nix = find_nix()
    told = {name: tarball_hash(nix, tarball or nixpkgs_address(rev)) for name, rev in revisions.items()}
    return replace(move, sha256=told[""]) if move.rev else replace(move, hashes=told)


def probed(move: Move, trees: Mapping[str, Path], catalog: Catalog) -> Move:
    """The move with what a tree of its revision has, where one is given and the catalog does not know it."""
    known = any(move.rev in (pin.rev, pin.name) for pin in catalog.pins.values())
    tree = trees.get(move.rev) or trees.get("default")
    if not move.rev or known or tree is None:
        return move
    return replace(move, probed=probe(find_nix(), tree, catalog))


def _without_hash(workspace: Path | None, line: str) -> dict[str, str]:
    """The nixpkgs that cells of a line import and whose hash nobody states: revisions by the pin's name."""
    opened = open_workspace(workspace)
    found = find_line(opened.catalog, line)
    builds = [found.build_for(cell.variant.cuda) for cell in opened.matrix.cells if cell.line == found.name]
    pins = [opened.catalog.pins[build.pin] for build in builds if build and build.pin]
    return {pin.name: pin.rev for pin in pins if not pin.sha256}


def _facts(line: Line, move: Move, catalog: Catalog, used: set[str]) -> dict[str, FactTable]:
    """The entries of the catalog that say the move."""
    entry: FactTable = {}
    facts: dict[str, FactTable] = {"lines": {line.name: entry}}
    if move.hashes:
        facts["pins"] = {pin: {"sha256": sha256} for pin, sha256 in move.hashes.items()}
    if move.rev:
        every = line.every_build
        old = {build.pin for name, build in every.items() if name in used and build.pin}
        if not old:
            raise Empty(f"line {line.name} imports no nixpkgs that could be moved")
        pin, made = pin_of(min(old), move, catalog)
        ours = builtin_catalog().lines.get(line.name)
        shipped = ours.every_build if ours else {}
        moved = {name: build for name, build in every.items() if build.pin in old}
        builds = {name: _build(build, pin, catalog, shipped.get(name)) for name, build in moved.items()}
        if made:
            facts["pins"] = {pin: made}
        if pin not in catalog.pins and move.probed:
            native = move.probed.get("torch") == (move.torch or line.torch)
            builds = {
                name: one | {"fixes": needed_fixes(moved[name], move.probed, catalog, native=native)}
                for name, one in builds.items()
                if name == "cpu" or name in move.probed.get("cudas", ())
            }
            if lacking := sorted(used - builds.keys()):
                raise CannotBuild(f"nixpkgs {pin} has no CUDA {', '.join(lacking)}")
        if pin not in catalog.pins:
            facts |= fixes_follow(old, pin, catalog)
        elif lacking := [name for name in builds if name in used and not _has(catalog.pins[pin], name)]:
            raise CannotBuild(f"nixpkgs {pin} has no CUDA {', '.join(lacking)}")
        if pin in catalog.pins:
            builds = {name: one for name, one in builds.items() if _has(catalog.pins[pin], name)}
        entry |= {"cpu": builds.pop("cpu")} if "cpu" in builds else {}
        entry |= {"cuda": builds} if builds else {}
    if move.torch:
        entry |= release_of(line, move, catalog)
        bring_source(entry, line, move, catalog)
    if not entry and not move.hashes:
        raise Empty("nothing to move", hint="give --rev, --torch, --learn, or several")
    return {name: table for name, table in facts.items() if table and any(table.values())}


def _has(pin: Pin, cuda: str) -> bool:
    return cuda == "cpu" or cuda in map(str, pin.cudas)


def _build(build: LineBuild, pin: str, catalog: Catalog, shipped: LineBuild | None) -> FactTable:
    """A build at another pin; fixes that a known pin does not need stay behind, those that it needs as
    torchsmith ships the line come back."""
    if pin not in catalog.pins:
        return {"pin": pin}
    bound = {name: catalog.fixes[name].pins for name in (*(shipped.fixes if shipped else ()), *build.fixes)}
    kept = {*build.fixes} | {name for name, pins in bound.items() if pin in pins}
    fixes = [name for name, pins in bound.items() if name in kept and (not pins or pin in pins)]
    return {"pin": pin, "fixes": fixes} if fixes != list(build.fixes) else {"pin": pin}


def needed_fixes(build: LineBuild, probed: Mapping[str, Any], catalog: Catalog, *, native: bool) -> list[str]:
    """Fixes at a nixpkgs that was asked: where its own torch is the release, none that replace its source,
    and in its present shape none of torch's at all."""
    gone = {*FROM_SOURCE, "find-cuda-toolkit-stub"} if native else set()
    if native and probed.get("torch_shape") == "structured":
        gone |= {name for name in build.fixes if catalog.fixes[name].packages}
    return [name for name in build.fixes if name not in gone]


def fixes_follow(old: set[str], pin: str, catalog: Catalog) -> dict[str, FactTable]:
    """A pin that nobody looked at is taken to need what the old one needs."""
    bound = {fix.name: fix for fix in catalog.fixes.values() if old & set(fix.pins)}
    return {"fixes": {name: {"pins": [*fix.pins, pin]} for name, fix in bound.items()}} if bound else {}


def pin_of(old: str, move: Move, catalog: Catalog) -> tuple[str, FactTable]:
    """The pin's name, and its entry where the catalog has none or lacks the hash."""
    if move.sha256 and not HASH.fullmatch(move.sha256):
        raise Invalid(f"{move.sha256!r} is no sha256", hint="as nix-prefetch-url --unpack prints it")
    known = next((pin for pin in catalog.pins.values() if move.rev in (pin.rev, pin.name)), None)
    if known is not None:
        return known.name, {"sha256": move.sha256} if move.sha256 else {}
    if not REVISION.fullmatch(move.rev):
        hint = f"give 40 digits, or one of {', '.join(catalog.pins)}"
        raise Invalid(f"{move.rev!r} is no revision", hint=hint)
    if move.probed:
        return move.rev[:7], {"rev": move.rev, "sha256": move.sha256, **move.probed}
    return move.rev[:7], _new_pin(catalog.pins[old], move)


def _new_pin(old: Pin, move: Move) -> FactTable:
    """A revision that nobody looked at: taken to have what the old one has, and marked so."""
    made: FactTable = {
        "rev": move.rev,
        "sha256": move.sha256,
        "torch": old.torch,
        **old.versions,
        "cudas": [*map(str, old.cudas)],
        "pythons": [*map(str, old.pythons)],
        "source": f"taken to be as {old.name}",
        "unproved": "nobody evaluated it: --eval does",
    }
    optional = {"default_cuda": old.default_cuda, "default_python": old.default_python, "min_sm": old.min_sm}
    if old.limits:
        made["limits"] = msgspec.to_builtins(old.limits, enc_hook=str)
    return made | {name: str(value) for name, value in optional.items() if value is not None}


def release_of(line: Line, move: Move, catalog: Catalog) -> FactTable:
    """Another torch with its pairs and hashes, as far as the catalog or the person knows them."""
    if not VERSION.fullmatch(move.torch):
        raise Invalid(f"{move.torch!r} is not a torch release", hint="such as 2.10.1")
    known = next((one for one in catalog.lines.values() if one.torch == move.torch), None)
    own = [package for package in catalog.packages.values() if line.builds(package)]
    pairs = {
        name: move.versions.get(name) or (known.version_of(name) if known else "")
        for name in {**line.versions, **move.versions}
    }
    if unknown := [one.name for one in own if not pairs.get(one.name, "none")]:
        hint = " ".join(f"--pair {name}=VERSION" for name in unknown)
        raise Incomplete(f"the pair of torch {move.torch} is not known: {', '.join(unknown)}", hint=hint)
    hashes = dict(known.hashes) if known else {}
    kept = {name: text for name, text in line.hashes.items() if pairs.get(name) == line.version_of(name)}
    return {
        "torch": move.torch,
        "prefix": f"{TORCH}{''.join(move.torch.split('.')[:2])}",
        **pairs,
        "hashes": {name: hashes.get(name, kept.get(name, "")) for name in (TORCH, *pairs)},
    }


def bring_source(entry: FactTable, line: Line, move: Move, catalog: Catalog) -> None:
    """Builds at a nixpkgs with another torch take the new one from its source, as its own line does."""
    known = next((one for one in catalog.lines.values() if one.torch == move.torch), None)
    for name, build in line.every_build.items():
        told = entry.get("cpu", {}) if name == "cpu" else entry.get("cuda", {}).get(name, {})
        pin = catalog.pins.get(told.get("pin", build.pin))
        if pin is None or pin.torch == move.torch:
            continue
        like = known.every_build.get(name) if known else None
        fixes = told.get("fixes", list(build.fixes))
        if SOURCE in fixes:
            continue
        fixes = list(like.fixes) if like and like.pin == pin.name else [*fixes, *FROM_SOURCE]
        place = entry if name == "cpu" else entry.setdefault("cuda", {})
        place[name] = told | {"fixes": fixes}


def to_learn(line: Line, catalog: Catalog, used: set[str]) -> list[str]:
    """Hashes that nobody knows yet; the first build tells them, and hash repair writes them."""
    builds = line.every_build
    pins = {build.pin for name, build in builds.items() if build.pin and name in used}
    found = [f"nixpkgs {name}" for name in sorted(pins) if not catalog.pins[name].sha256]
    own = any(SOURCE in build.fixes for build in builds.values())
    return found + [
        f"{one} {line.version_of(one.name)}"
        for one in catalog.packages.values()
        if own
        and one.upstream
        and line.builds(one)
        and line.version_of(one.name)
        and not line.hashes.get(one.name)
    ]


def laid_over(root: Path, name: str, table: FactTable) -> Change:
    """A catalog file with the move in a block of its own; what people wrote around it stays."""
    path = root / name
    text = read_text(path) if path.exists() else None
    before, begin, rest = (text or "").partition(BEGIN)
    block, _, after = rest.partition(END)
    merged = _merged(tomllib.loads(block) if begin else {}, table)
    head = before if before.strip() else f"# Facts of this workspace, laid over torchsmith's own.\n\n{before}"
    made = f"{head.rstrip()}\n\n{BEGIN}\n{table_text(merged)}\n{END}\n{after.lstrip()}"
    try:
        tomllib.loads(made)
    except tomllib.TOMLDecodeError as error:
        by_hand = before + "\n" * rest.count("\n", 0, len(block)) + after
        raise _twice(by_hand, str(path), table_text(merged)) from error
    kind: ChangeKind = "create" if text is None else "keep" if text == made else "rewrite"
    return Change(kind, name, "where the line goes", text, made)


def _twice(by_hand: str, file: str, block: str) -> Conflict:
    """What people wrote and the block both have, where people wrote it."""
    theirs, ours = ([path for path, _ in nodes(parsed(one.encode()), ())] for one in (by_hand, block))
    path = next((one for one in theirs if one in ours), ours[0][:1])
    words = f"{'.'.join(map(str, path))} has an entry of its own here, and is to move"
    return Conflict(words, hint="take it out, then move again", where=place(by_hand, file, path))


def _merged(below: FactTable, above: FactTable) -> FactTable:
    both = {
        name: _merged(below[name], above[name])
        for name in below.keys() & above.keys()
        if isinstance(above[name], dict)
    }
    return {**below, **above, **both}


def evaluated(proposal: Proposal, evaluate: Evaluate) -> list[Effect]:
    """What the move does to every recipe, by derivation."""
    before = wanted_repos(proposal.workspace)
    with tempfile.TemporaryDirectory(prefix="torchsmith-pin-") as place:
        results = []
        for name, repos in (("before", before), ("after", proposal.repos)):
            folder = Path(place) / name
            write_recipes(repos, folder)
            results.append(evaluate(recipes_in(folder, proposal.after)))
    return effects(*results)


def carry_out(
    workspace: Path | None, move: Move, *, adopt: bool = False, wait_seconds: float = 0.0
) -> Proposal:
    """Write facts and recipes, all or none; refused where a recipe of the line is somebody else's."""
    with writing(open_workspace(workspace).home, "pin", wait_seconds) as writer:
        proposal = propose(workspace, move, adopt=adopt)
        if blocked := [change for change in proposal.blocked if change.recipe]:
            names = [Path(change.path).name for change in blocked]
            raise Refused(
                f"recipes that are not torchsmith's would stay on the old pin: {some_of(names, 3)}",
                hint="--adopt takes them over; nothing was written",
            )
        write_changes(writer, proposal.repos, proposal.changes, edits=proposal.edits, tell_git=False)
    return replace(proposal, recovered=writer.recovered)
