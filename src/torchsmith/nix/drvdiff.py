"""What differs between two derivations, in words: causes first, and not their consequences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torchsmith.edge.words import grouped
from torchsmith.nix.derivation import Derivation, name_of

STORE_PATH = re.compile(r"/nix/store/[0-9a-z]{32}-([0-9A-Za-z+._?=-]+)")
# Follow from everything else and say nothing by themselves.
CONSEQUENCES = frozenset(("out", "dev", "lib", "cxxdev", "dist", "bin", "static", "doc", "man", "info"))
DEEPEST = 12


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same: where below the two, what, and how it changed."""

    below: tuple[str, ...]  # names of derivations on the way down; empty: in the two themselves
    what: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        place = f"{' -> '.join(self.below)}: " if self.below else ""
        if self.before is None:
            return f"{place}{self.what} is new: {_short(self.after)}"
        if self.after is None:
            return f"{place}{self.what} is gone: {_short(self.before)}"
        return f"{place}{self.what}: {changed_words(self.before, self.after)}"


def compare(
    before: Derivation, after: Derivation, derivations: Mapping[str, Derivation]
) -> tuple[Difference, ...]:
    """The differences of two derivations and, where only their inputs differ, of those."""
    if before.path == after.path:
        return ()
    return tuple(_compare(before, after, derivations, (), set()))


def _compare(
    before: Derivation,
    after: Derivation,
    derivations: Mapping[str, Derivation],
    below: tuple[str, ...],
    seen: set[tuple[str, str]],
) -> Iterator[Difference]:
    if (before.path, after.path) in seen or len(below) > DEEPEST:
        return
    seen.add((before.path, after.path))
    yield from _own(before, after, below)
    old = grouped((name_of(path), path) for path in sorted(before.inputs.keys() - after.inputs.keys()))
    new = grouped((name_of(path), path) for path in sorted(after.inputs.keys() - before.inputs.keys()))
    for name in sorted(old.keys() | new.keys()):
        gone, come = old.get(name, []), new.get(name, [])
        for one, other in zip(gone, come, strict=False):
            if one in derivations and other in derivations:
                yield from _compare(derivations[one], derivations[other], derivations, (*below, name), seen)
        for one in gone[len(come) :]:
            yield Difference(below, "input", name_of(one), None)
        for one in come[len(gone) :]:
            yield Difference(below, "input", None, name_of(one))


def _own(before: Derivation, after: Derivation, below: tuple[str, ...]) -> Iterator[Difference]:
    """What two derivations say differently themselves, store hashes aside."""
    plain = (
        ("name", before.name, after.name),
        ("system", before.system, after.system),
        ("builder", _named(before.builder), _named(after.builder)),
        ("arguments", _named(" ".join(before.args)), _named(" ".join(after.args))),
        ("outputs", " ".join(before.outputs), " ".join(after.outputs)),
        ("hash", _hashes(before), _hashes(after)),
    )
    for what, one, other in plain:
        if one != other:
            yield Difference(below, what, one, other)
    for name in sorted(before.env.keys() | after.env.keys()):
        if name in CONSEQUENCES or name in ("name", "outputs", "system", "builder"):
            continue
        was, now = (_named(one.env[name]) if name in one.env else None for one in (before, after))
        if was != now:
            yield Difference(below, name, was, now)
    yield from _sources(before, after, below)


def _sources(before: Derivation, after: Derivation, below: tuple[str, ...]) -> Iterator[Difference]:
    old, new = set(before.sources) - set(after.sources), set(after.sources) - set(before.sources)
    names = {name_of(one) for one in old} & {name_of(one) for one in new}
    for name in sorted(names):
        yield Difference(below, f"file {name}", "its old content", "another content")
    gone, come = ([name for name in map(name_of, sorted(paths)) if name not in names] for paths in (old, new))
    yield from (Difference(below, "file", name, None) for name in gone)
    yield from (Difference(below, "file", None, name) for name in come)


def _named(text: str) -> str:
    """Store paths by their names: the hash in front is a consequence."""
    return STORE_PATH.sub(r"\1", text)


def _hashes(derivation: Derivation) -> str:
    return " ".join(output.hash for output in derivation.outputs.values() if output.hash)


def changed_words(before: str, after: str) -> str:
    """Two texts: short ones side by side, lists by their words, long ones by their lines."""
    if "\n" in before or "\n" in after:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        kept = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        return "\n" + "\n".join(f"    {line}" for line in kept)
    old, new = before.split(), after.split()
    if len(old) > 4 or len(new) > 4:
        gone = [word for word in old if word not in new]
        come = [word for word in new if word not in old]
        if gone or come:
            return ", ".join([*(f"without {word}" for word in gone), *(f"with {word}" for word in come)])
        return "the same words in another order"
    return f"{_short(before)} -> {_short(after)}"


def _short(text: str | None) -> str:
    words = " ".join((text or "").split())
    return (words if len(words) <= 120 else f"{words[:119]}…") or "(empty)"
