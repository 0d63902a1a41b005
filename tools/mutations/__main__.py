"""`python -m tools.mutations`: the shares, and what is missed."""

from __future__ import annotations

import sys

from tools.mutations.harness import everything, missed, share


def main(verbose: bool) -> int:
    for title, outcomes in zip(("realistic", "generic"), everything(), strict=True):
        caught, named = share(outcomes)
        print(f"{title}: {len(outcomes)} mistakes, {caught:.1%} caught, {named:.1%} named")
        for what, count in missed(outcomes).most_common(None if verbose else 40):
            print(f"  missed {count:4} {what}")
        if verbose:
            for one in outcomes:
                if one.caught and not one.named:
                    told = " ".join(one.rules)
                    print(f"  unnamed {one.mistake.of} {one.mistake.kind}: {one.mistake.what}: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main("--all" in sys.argv[1:]))
