"""Derivations as values: every JSON shape that Nix has printed them in.

Version 1 is Nix 2.8's, version 2 that of 2.26. Versions 3 and 4 are read as their documentation says and were
never tried against a Nix that writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from torchsmith.core.problem import Failed
from torchsmith.nix.tool import Nix

STORE = "/nix/store"
BATCH_SIZE = 256  # derivations on one command line
SHOW_RENAMED = (2, 15)  # `nix show-derivation` became `nix derivation show`


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
