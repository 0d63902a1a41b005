"""Values of a recipe without Nix: an evaluator in a child process that can read nothing and must end in time.

The child has no environment, opens no file once it has begun, and is held to limits of memory and time. The
recipe sees a small stub of nixpkgs and the part of `builtins` that only computes.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from torchsmith.core.nixtext import nix_string, nix_value
from torchsmith.core.problem import Lacking, Problem
from torchsmith.core.process import Dialogue
from torchsmith.nix.prepare import imported_file
from torchsmith.nix.readable import readable_root
from torchsmith.recipe.read.closed import relative_paths, rewritten
from torchsmith.recipe.read.syntax import Edit, Syntax, attribute_names, parse

BATCH = 4  # recipes that are asked together: the stub is read once for all of them
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Values:
    """What a recipe asks for, as far as a stub of nixpkgs can tell."""

    name: str
    arguments: Mapping[str, Any]
    attributes: Mapping[str, Any]
    passthru: Mapping[str, Any]
    meta: Mapping[str, Any]
    torch: Mapping[str, Any] | None
    torch_arguments: Mapping[str, Any] | None

    @property
    def gpu_targets(self) -> tuple[str, ...]:
        """What torch is told to compile for; of a companion, what the torch inside it is told."""
        told = self.torch_arguments if self.torch_arguments is not None else self.arguments
        return tuple(one for one in told.get("gpuTargets", ()) if isinstance(one, str))

    @property
    def version(self) -> str:
        return str(self.attributes.get("version", ""))


@dataclass(frozen=True, slots=True)
class NoValues:
    """Why a recipe's values are not known."""

    reason: str
    lasting: bool = True  # whether asking again gives the same answer, however busy the machine is


def available() -> bool:
    """Whether the evaluator is installed."""
    return bool(evaluator_home())


def evaluator_home() -> str:
    """Where the evaluator lies: an isolated child does not look into PYTHONPATH."""
    found = importlib.util.find_spec("nixeval")
    return str(Path(found.origin).parents[1]) if found and found.origin else ""


@dataclass(frozen=True, slots=True)
class Question:
    """A recipe whose values are wanted."""

    path: Path
    data: bytes
    system: str = "x86_64-linux"


def expression_for(questions: Sequence[tuple[Syntax, Path, str]]) -> str:
    """The stub applied to recipes, whose text sees pure builtins and the stub alone."""
    stub = files("torchsmith.nix").joinpath("stub.nix").read_text()
    calls = " ".join(f"({_call(syntax, path, system)})" for syntax, path, system in questions)
    # The evaluator prints strings as Nix does, where JSON knows no escaped dollar: it gets none to print.
    return (
        f"let torchsmithStub = {stub};\n"
        f'in builtins.replaceStrings [ "$" ] [ "\\\\u0024" ] (builtins.toJSON [ {calls} ])'
    )


def _call(syntax: Syntax, path: Path, system: str) -> str:
    names: set[str] = set()
    recipe = f"{{ builtins, import, fetchTarball, scopedImport }}: (\n{inlined(syntax, path, names)}\n)"
    known = nix_value(sorted(names))
    return f"torchsmithStub {{ recipe = {recipe}; names = {known}; system = {nix_string(system)}; }}"


def inlined(syntax: Syntax, path: Path, names: set[str], depth: int = 0) -> str:
    """A recipe with the files of its repository that it imports put in their place; collects all names."""
    root = readable_root(path)
    names |= attribute_names(syntax)
    edits: list[Edit] = []
    for node in relative_paths(syntax):
        target = imported_file(syntax, node, path)
        call = node.parent
        if target is None or call is None or depth >= DEEPEST or not target.is_relative_to(root):
            continue
        try:
            inner = parse(target.read_bytes(), str(target))
        except (OSError, Problem):
            continue
        edits.append(Edit(call.start_byte, call.end_byte, f"({inlined(inner, target, names, depth + 1)})"))
    return rewritten(syntax, 0, len(syntax.data), edits)


class Evaluator(AbstractContextManager["Evaluator"]):
    """A child process that evaluates recipes one by one; it is replaced after a recipe that would not end."""

    def __init__(self, *, seconds: float = 5.0, memory: int = 512 << 20) -> None:
        if not available():
            hint = "pip install nixeval, or install Nix"
            raise Lacking("the embedded evaluator is not installed", hint=hint)
        self.seconds, self.memory = seconds, memory
        self._child: Dialogue | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def values_of(self, questions: Sequence[Question]) -> list[Values | NoValues]:
        """What recipes ask for, or why nobody can tell: asked together, one by one where something fails."""
        answers: dict[int, Values | NoValues] = {}
        readable: list[tuple[int, tuple[Syntax, Path, str]]] = []
        for index, question in enumerate(questions):
            try:
                syntax = parse(question.data, str(question.path))
                readable.append((index, (syntax, question.path, question.system)))
            except Problem as problem:
                answers[index] = NoValues(problem.message)
        for start in range(0, len(readable), BATCH):
            batch = dict(readable[start : start + BATCH])
            answers |= zip(batch, self._told([*batch.values()]), strict=True)
        return [answers[index] for index in range(len(questions))]

    def _told(self, batch: Sequence[tuple[Syntax, Path, str]]) -> list[Values | NoValues]:
        told = self._ask(expression_for(batch))
        if isinstance(told, str) and len(batch) > 1:
            return [answer for one in batch for answer in self._told([one])]
        return (
            [NoValues(told, self._child is not None)]
            if isinstance(told, str)
            else [_values(one) for one in told]
        )

    def _ask(self, expression: str) -> list[Any] | str:
        """The values, or in words why there are none."""
        if self._child is None:
            code = files("torchsmith.nix").joinpath("embedded_child.py")
            argv = [sys.executable, "-I", str(code), str(self.memory), evaluator_home()]
            self._child = Dialogue(argv, stderr=subprocess.DEVNULL, env={}, cwd="/")
        try:
            if line := self._child.ask(msgspec.json.encode(expression), self.seconds):
                answer = msgspec.json.decode(line)
                return answer["values"] if "values" in answer else _reason(answer["error"])
            why = f"needs more than {self.memory >> 20} MiB, or nests too deeply"
        except TimeoutError:
            why = f"does not end within {self.seconds:g} s"
        except BrokenPipeError:
            why = "the evaluator ended before it was asked"
        self.close()
        return why


def _values(told: Any) -> Values | NoValues:
    return NoValues(told["error"]) if "error" in told else msgspec.convert(told, Values)


def _reason(words: str) -> str:
    """The evaluator often says only that something failed."""
    vague = words == "while evaluating this Nix code"
    return "it needs more of nixpkgs than the embedded evaluator knows" if vague else words


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recipe: what it asks for, or why that is not known."""

    name: str
    path: Path = msgspec.field(name="file")
    values: Values | None = None
    reason: str = msgspec.field(name="error", default="")


def ask_all(recipes: Sequence[tuple[str, Path, str]], *, seconds: float = 5.0) -> list[Answer]:
    """The values of many recipes, given as name, path and system."""
    questions = [Question(path, path.read_bytes(), system or "x86_64-linux") for _, path, system in recipes]
    with Evaluator(seconds=seconds) as evaluator:
        told = evaluator.values_of(questions)
    return [
        Answer(name, path, one) if isinstance(one, Values) else Answer(name, path, reason=one.reason)
        for (name, path, _), one in zip(recipes, told, strict=True)
    ]
