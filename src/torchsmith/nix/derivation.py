"""Derivations as values, read from their files in the store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from torchsmith.core.problem import Failed
from torchsmith.nix.tool import Nix


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


def _structured(text: str) -> dict[str, str]:
    """The attributes of a derivation with `__structuredAttrs`, `env` included, as environment variables."""
    table = msgspec.json.decode(text) if text else {}
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


def name_of(path: str) -> str:
    """`python3.13-torch-2.10.0` of its path in the store."""
    return re.sub(r"^.*/[0-9a-z]{32}-", "", path).removesuffix(".drv")


def show_derivations(nix: Nix, paths: Sequence[str], *, recursive: bool = False) -> dict[str, Derivation]:
    """Derivations that are in the store, and with `recursive` everything below them, read from their own
    files. Raises Failed."""
    derivations: dict[str, Derivation] = {}
    todo = list(dict.fromkeys(paths))
    while todo:
        path = todo.pop()
        if path in derivations:
            continue
        try:
            derivations[path] = read_drv(path, nix.store_file(path).read_text())
        except (OSError, ValueError, msgspec.DecodeError) as error:
            raise Failed(f"cannot read the derivation {path}: {error}") from error
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

    Raises ValueError or msgspec.DecodeError if the text is something else."""
    if not text.startswith("Derive("):
        raise ValueError(f"{path} is not a derivation")
    term = STRINGS.sub(lambda word: BRACKETS.get(word[0], word[0]), text.removeprefix("Derive"))
    outputs, drvs, sources, system, builder, args, variables = _DRV.decode(term)
    env = dict(variables)
    env |= _structured(env.pop("__json", ""))
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
