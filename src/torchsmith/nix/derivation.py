"""Derivations as values: every JSON shape that Nix has printed them in, and the differences between two of
them: causes, and not their consequences.

Version 1 is Nix 2.8's, version 2 that of 2.26. Versions 3 and 4 are read as their documentation says and were
never tried against a Nix that writes them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from torchsmith.core.problem import Failed
from torchsmith.core.text import grouped
from torchsmith.nix.tool import Nix

STORE = "/nix/store"
BATCH_SIZE = 256  # derivations on one command line
SHOW_RENAMED = (2, 15)  # `nix show-derivation` became `nix derivation show`
STORE_PATH = re.compile(r"/nix/store/[0-9a-z]{32}-([0-9A-Za-z+._?=-]+)")
# The variables of outputs follow from everything else.
OUTPUT_NAMES = frozenset(("out", "dev", "lib", "cxxdev", "dist", "bin", "static", "doc", "man", "info"))
MOST_LEVELS = 12  # of inputs that are compared


@dataclass(frozen=True, slots=True)
class Output:
    """One output: where it goes, and for a download the hash it must have."""

    path: str | None
    hash: str | None = None


@dataclass(frozen=True, slots=True)
class Derivation:
    """One build: what goes in, what runs, what comes out."""

    path: str
    name: str
    system: str
    builder: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    inputs: Mapping[str, tuple[str, ...]]  # derivation -> the outputs of it that are used
    sources: tuple[str, ...]
    outputs: Mapping[str, Output]

    @property
    def fixed(self) -> bool:
        """Whether the hash of its result is known before it is built: a download."""
        return any(output.hash for output in self.outputs.values())

    @property
    def pname(self) -> str:
        """The package's name without its version."""
        if stated := self.env.get("pname"):
            return stated
        return re.sub(r"-\d[^-]*(-.*)?$", "", self.name)


def read_derivations(text: str | bytes) -> dict[str, Derivation]:
    """The output of `nix show-derivation` or `nix derivation show`, by path. Raises Failed."""
    try:
        table = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Failed(f"Nix printed no derivations: {error}") from error
    listed = table.get("derivations", table) if isinstance(table, dict) else {}
    derivations = (read_derivation(path, entry) for path, entry in listed.items() if isinstance(entry, dict))
    return {derivation.path: derivation for derivation in derivations}


def read_derivation(path: str, table: Mapping[str, Any]) -> Derivation:
    """One derivation of any version; paths without their folder, as newer versions have them, get it back."""
    inputs = table.get("inputs") or {}
    drvs = inputs.get("drvs", table.get("inputDrvs", {}))
    sources = inputs.get("srcs", table.get("inputSrcs", []))
    full = _full(path)
    env = {name: value for name, value in table.get("env", {}).items() if isinstance(value, str)}
    env |= _structured(env.pop("__json", ""), table.get("structuredAttrs"))
    return Derivation(
        path=full,
        name=table.get("name") or env.get("name") or name_of(full),
        system=table.get("system") or table.get("platform") or "",
        builder=table.get("builder", ""),
        args=tuple(table.get("args", ())),
        env=env,
        inputs={_full(drv): _outputs_used(used) for drv, used in drvs.items()},
        sources=tuple(_full(source) for source in sources),
        outputs={name: _output(output) for name, output in table.get("outputs", {}).items()},
    )


def _structured(text: str, table: Any) -> dict[str, str]:
    """The attributes of a derivation with `__structuredAttrs`, `env` included, as environment variables."""
    if text:
        try:
            table = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return {"__json": text}
    if not isinstance(table, dict):
        return {}
    env = table.get("env")
    stated = {name: value for name, value in table.items() if name not in ("env", "outputs")}
    stated |= env if isinstance(env, dict) else {}
    return {name: variable for name, value in stated.items() if (variable := _as_variable(value)) is not None}


def _as_variable(value: Any) -> str | None:
    """A value as Nix writes it into an environment; a set stays JSON."""
    match value:
        case str():
            return value
        case bool() | None:
            return "1" if value else ""
        case int() | float():
            return str(value)
        case list():
            parts = [_as_variable(item) for item in value]
            return " ".join(part for part in parts if part is not None)
    return msgspec.json.encode(value).decode()


def _full(path: str) -> str:
    return path if path.startswith("/") else f"{STORE}/{path}"


def _outputs_used(used: Any) -> tuple[str, ...]:
    """A plain list up to version 1; from 2 on a set that also knows dynamic derivations."""
    return tuple(used.get("outputs", ()) if isinstance(used, dict) else used)


def _output(table: Mapping[str, Any]) -> Output:
    path, digest = table.get("path"), table.get("hash")
    if isinstance(digest, dict):  # version 4
        digest = digest.get("hash")
    return Output(_full(path) if path else None, digest)


def name_of(path: str) -> str:
    """`python3.13-torch-2.10.0` of its path in the store."""
    return re.sub(r"^.*/[0-9a-z]{32}-", "", path).removesuffix(".drv")


def show_derivations(nix: Nix, paths: Sequence[str], *, recursive: bool = False) -> dict[str, Derivation]:
    """Ask Nix for derivations that are in the store, and with `recursive` for everything below them."""
    command = ["derivation", "show"] if nix.version >= SHOW_RENAMED else ["show-derivation"]
    if recursive:
        command.append("--recursive")
    derivations = _on_disk(nix, paths, recursive=recursive)
    paths = [path for path in paths if path not in derivations]
    for start in range(0, len(paths), BATCH_SIZE):
        batch = paths[start : start + BATCH_SIZE]
        derivations |= read_derivations(nix.ask(nix.nix(*command, *batch), "cannot read derivations").stdout)
    return derivations


def _on_disk(nix: Nix, paths: Sequence[str], *, recursive: bool) -> dict[str, Derivation]:
    """Derivations read from their own files, each once: Nix would print shared inputs again for each batch.
    Empty where a file cannot be read; Nix then reports why."""
    derivations: dict[str, Derivation] = {}
    todo = list(dict.fromkeys(paths))
    while todo:
        path = todo.pop()
        if path in derivations:
            continue
        try:
            derivations[path] = read_drv(path, nix.store_file(path).read_text())
        except (OSError, ValueError, msgspec.DecodeError):
            return {}
        if recursive:
            todo += [drv for drv in derivations[path].inputs if drv not in derivations]
    return derivations


STRINGS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[()]', re.DOTALL)
BRACKETS = {"(": "[", ")": "]"}
_DRV = msgspec.json.Decoder(
    tuple[
        list[tuple[str, str, str, str]],
        list[tuple[str, list[str]]],
        list[str],
        str,
        str,
        list[str],
        list[tuple[str, str]],
    ]
)


def read_drv(path: str, text: str) -> Derivation:
    """A .drv file: a term whose strings are those of JSON, and whose tuples are JSON's lists.

    Raises ValueError or msgspec.DecodeError where the text is something else."""
    if not text.startswith("Derive("):
        raise ValueError(f"{path} is not a derivation")
    term = STRINGS.sub(lambda word: BRACKETS.get(word[0], word[0]), text.removeprefix("Derive"))
    outputs, drvs, sources, system, builder, args, variables = _DRV.decode(term)
    env = dict(variables)
    env |= _structured(env.pop("__json", ""), None)
    return Derivation(
        path=path,
        name=env.get("name") or name_of(path),
        system=system,
        builder=builder,
        args=tuple(args),
        env=env,
        inputs={drv: tuple(used) for drv, used in drvs},
        sources=tuple(sources),
        outputs={name: Output(place or None, digest or None) for name, place, _, digest in outputs},
    )


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
    if (before.path, after.path) in seen or len(below) > MOST_LEVELS:
        return
    seen.add((before.path, after.path))
    yield from _own(before, after, below)
    old = grouped((name_of(path), path) for path in sorted(before.inputs.keys() - after.inputs.keys()))
    new = grouped((name_of(path), path) for path in sorted(after.inputs.keys() - before.inputs.keys()))
    for name in sorted(old.keys() | new.keys()):
        removed, added = old.get(name, []), new.get(name, [])
        for was, now in zip(removed, added, strict=False):
            if was in derivations and now in derivations:
                yield from _compare(derivations[was], derivations[now], derivations, (*below, name), seen)
        yield from [Difference(below, "input", name, None)] * (len(removed) - len(added))
        yield from [Difference(below, "input", None, name)] * (len(added) - len(removed))


def _own(before: Derivation, after: Derivation, below: tuple[str, ...]) -> Iterator[Difference]:
    """The differences of two derivations without their inputs; store hashes do not count."""
    plain = (
        ("name", before.name, after.name),
        ("system", before.system, after.system),
        ("builder", _named(before.builder), _named(after.builder)),
        ("arguments", _named(" ".join(before.args)), _named(" ".join(after.args))),
        ("outputs", " ".join(before.outputs), " ".join(after.outputs)),
        ("hash", _hashes(before), _hashes(after)),
    )
    for what, old, new in plain:
        if old != new:
            yield Difference(below, what, old, new)
    for name in sorted(before.env.keys() | after.env.keys()):
        if name in OUTPUT_NAMES or name in ("name", "outputs", "system", "builder"):
            continue
        was, now = (_named(side.env[name]) if name in side.env else None for side in (before, after))
        if was != now:
            yield Difference(below, name, was, now)
    yield from _sources(before, after, below)


def _sources(before: Derivation, after: Derivation, below: tuple[str, ...]) -> Iterator[Difference]:
    old, new = set(before.sources) - set(after.sources), set(after.sources) - set(before.sources)
    names = {name_of(path) for path in old} & {name_of(path) for path in new}
    for name in sorted(names):
        yield Difference(below, f"file {name}", "its old content", "another content")
    removed, added = (
        [name for name in map(name_of, sorted(paths)) if name not in names] for paths in (old, new)
    )
    yield from (Difference(below, "file", name, None) for name in removed)
    yield from (Difference(below, "file", None, name) for name in added)


def _named(text: str) -> str:
    """Store paths by their names: the hash in front is a consequence."""
    return STORE_PATH.sub(r"\1", text)


def _hashes(derivation: Derivation) -> str:
    return " ".join(output.hash for output in derivation.outputs.values() if output.hash)


def changed_words(before: str, after: str) -> str:
    """The change of a text: short ones side by side, lists by their words, long ones by their lines."""
    if "\n" in before or "\n" in after:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        changes = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        return "\n" + "\n".join(f"    {line}" for line in changes)
    old, new = before.split(), after.split()
    if len(old) > 4 or len(new) > 4:
        removed = [word for word in old if word not in new]
        added = [word for word in new if word not in old]
        if removed or added:
            return ", ".join([*(f"without {word}" for word in removed), *(f"with {word}" for word in added)])
        return "the same words in another order"
    return f"{_short(before)} -> {_short(after)}"


def _short(text: str | None) -> str:
    line = " ".join((text or "").split())
    return (line if len(line) <= 120 else f"{line[:119]}…") or "(empty)"
