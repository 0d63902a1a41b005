"""`python -m tools.mutations [FOLDER...]`: the shares, and what is missed; folders hold recipes of others."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.mutations.harness import OTHER_HANDS, everything, missed, share


def main(roots: list[Path], verbose: bool) -> int:
    for title, outcomes in everything(roots or [OTHER_HANDS]):
        caught, named = share(outcomes)
        print(f"{title}: {len(outcomes)} mistakes, {caught:.1%} caught, {named:.1%} named", flush=True)
        for what, count in missed(outcomes).most_common(None if verbose else 40):
            print(f"  missed {count:4} {what}")
        if verbose:
            for one in outcomes:
                if one.caught and not one.named:
                    told = " ".join(one.rules)
                    print(f"  unnamed {one.mistake.of.name} {one.mistake.kind}: {one.mistake.what}: {told}")
    return 0


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folders", nargs="*", type=Path)
    asked.add_argument("--all", action="store_true", help="every miss, and what is caught but not named")
    options = asked.parse_args()
    sys.exit(main(options.folders, options.all))
