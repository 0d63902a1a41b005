"""Recipes made ready to be evaluated together: imports that are the same are taken out and shared.

A prepared recipe is its own text in which an import of nixpkgs that is self-contained is replaced by a name,
a file of the workspace that it imports by that file prepared, and a relative path by the absolute one. None
of these changes a value, because Nix is pure; what cannot be prepared is evaluated as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tree_sitter import Node

from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem, Where
from torchsmith.nix.cache import Fingerprints
from torchsmith.nix.fetch import Tarball
from torchsmith.nix.readable import Readable
from torchsmith.recipe.read.closed import (
    Closed,
    Open,
    absolute,
    relative_paths,
    rewritten,
    shared_imports,
)
from torchsmith.recipe.read.scope import formal_nodes, lookup
from torchsmith.recipe.read.syntax import Edit, Syntax, Unreadable, parse, part

if TYPE_CHECKING:
    from torchsmith.recipe.read.recipe import Recipe

SCOPE = "{ builtins, fetchTarball, import, __nixPath, torchsmithShared ? null }: "
INHERIT = "{ inherit builtins fetchTarball import __nixPath torchsmithShared; }"
MOST_NESTING = 16


@dataclass(frozen=True, slots=True)
class EvalJob:
    """One recipe to evaluate: its path, its prepared text, and what it shares with others."""

    name: str
    path: Path
    text: str | None  # None: evaluated unchanged
    shares: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # prepared files that it imports, by name
    reads: tuple[Path, ...] = ()  # everything in the workspace that its value depends on
    tarballs: tuple[Tarball, ...] = ()  # those that its text names
    system: str = ""  # of its name, or the one platform of its meta
    group: str = ""  # names the package set that it shares with others without importing it
    build_phase: str = ""  # in place of its own, to rehearse it


@dataclass
class Preparation:
    """Jobs, and the package sets that they share by the hash of their tokens."""

    jobs: list[EvalJob] = field(default_factory=list)
    shared: dict[str, Closed] = field(default_factory=dict)
    origins: dict[str, Path] = field(default_factory=dict)  # of shared sets and prepared files
    readable: Readable = field(default_factory=Readable)
    nested: dict[Path, Syntax] = field(default_factory=dict)  # files that recipes import

    def add(self, name: str, path: Path, *, system: str = "", build_phase: str = "") -> None:
        """Prepare a recipe."""
        self.readable.add(path)
        work = _Work(self)
        text: str | None = None
        plain = EvalJob(name, path, None, reads=(path,), system=system, build_phase=build_phase)
        try:
            syntax = parse_file(path)
        except Unreadable:  # Nix may understand it; it is then evaluated unchanged
            self.jobs.append(plain)
            return
        work.note(syntax, path)
        system = system or _only_platform(syntax, path)
        plain = replace(plain, system=system)
        defaulted = _all_defaulted(syntax)
        try:
            text = work.prepared(syntax, path, 0, defaulted=defaulted)
        except Open:
            work.shares.clear()
        shares, files = tuple(dict.fromkeys(work.shares)), dict(work.files)
        group = "" if defaulted else f"packages {system}"
        reads, tarballs = self.files_read(path, syntax), tuple(work.tarballs)
        prepared = replace(plain, text=text, shares=shares, files=files, reads=reads, tarballs=tarballs)
        self.jobs.append(replace(prepared, group=group))

    def files_read(self, path: Path, syntax: Syntax) -> tuple[Path, ...]:
        """A recipe's file, what it names, and what the files that it imports name."""
        reads, imported, waiting = dict[Path, None](), {path}, [(path, syntax)]
        while waiting:
            path, syntax = waiting.pop()
            reads[path] = None
            for node in relative_paths(syntax):
                reads[(path.parent / syntax.text(node).split("${")[0]).resolve()] = None
                target = imported_file(syntax, node, path)
                inner = self.imported(target) if target and target not in imported else None
                if target and inner:
                    imported.add(target)
                    waiting.append((target, inner))
        return tuple(reads)

    def imported(self, file: Path) -> Syntax | None:
        """A file that recipes import; None if it may not be read or is not understood: Nix decides."""
        if file not in self.nested:
            if not self.readable.allows(file):
                return None
            try:
                self.nested[file] = parse_file(file)
            except Problem:
                return None
        return self.nested[file]


class _Work:
    """What one recipe needs, collected while its files are rewritten."""

    def __init__(self, preparation: Preparation) -> None:
        self.preparation = preparation
        self.shares: list[str] = []
        self.files: dict[str, str] = {}
        self.tarballs: dict[Tarball, None] = {}

    def note(self, syntax: Syntax, path: Path) -> None:
        """Remember the tarballs that a file names."""
        from torchsmith.recipe.read.recipe import Recipe

        self.tarballs |= dict.fromkeys(_tarballs(Recipe(path, syntax)))

    def prepared(self, syntax: Syntax, path: Path, depth: int, *, defaulted: bool) -> str:
        """The text of a file with imports shared, nested files prepared and paths made absolute. An import
        that needs an argument is shared only if all arguments have their defaults."""
        edits = [
            Edit(closed.span.start, closed.span.end, f"torchsmithShared.{self._share(closed, path)}")
            for closed in shared_imports(syntax, path, defaulted=defaulted)
        ]
        for node in relative_paths(syntax):
            if any(edit.start <= node.start_byte < edit.end for edit in edits):
                continue
            nested = self._nested(syntax, node, path, depth)
            edits.append(nested or Edit(node.start_byte, node.end_byte, absolute(syntax, node, path)))
        return SCOPE + rewritten(syntax, 0, len(syntax.data), edits)

    def _share(self, closed: Closed, path: Path) -> str:
        key = "s" + hashlib.sha256("\0".join(closed.tokens).encode()).hexdigest()[:24]
        self.preparation.shared.setdefault(key, closed)
        self.preparation.origins.setdefault(key, path)
        self.shares.append(key)
        return key

    def _nested(self, syntax: Syntax, node: Node, path: Path, depth: int) -> Edit | None:
        """`import ./x.nix` as an import of that file prepared; None for any other use of a path."""
        call, target = node.parent, imported_file(syntax, node, path)
        if call is None or target is None or depth >= MOST_NESTING:
            return None
        inner = self.preparation.imported(target)
        if inner is None:
            return None
        self.note(inner, target)
        text = self.prepared(inner, target, depth + 1, defaulted=False)
        name = "f" + hashlib.sha256(f"{target}\0{text}".encode()).hexdigest()[:24]
        self.files[name] = text
        self.preparation.origins[name] = target
        return Edit(call.start_byte, call.end_byte, f"(import ./{name}.nix {INHERIT})")


def parse_file(path: Path) -> Syntax:
    """A file's tree. Raises CannotRead, and Unreadable for what is not understood."""
    return parse(read_text(path).encode(), str(path))


def _only_platform(syntax: Syntax, path: Path) -> str:
    """The system that a recipe is for by its meta.platforms; empty if it has several or states none."""
    from torchsmith.recipe.read.recipe import Recipe

    platforms = {platform for stated in Recipe(path, syntax).platforms for platform in stated.value}
    return platforms.pop() if len(platforms) == 1 else ""


def _tarballs(recipe: Recipe) -> Iterator[Tarball]:
    """The tarballs that a recipe's text states in full."""
    for source in recipe.tarballs:
        stated = {name: located.value for name, located in source.fields.items()}
        texts = {name: text for name, text in stated.items() if isinstance(text, str)}
        if "url" in texts and texts.keys() == stated.keys():
            yield Tarball(texts["url"], texts.get("sha256", ""), texts.get("name", ""))


def imported_file(syntax: Syntax, node: Node, path: Path) -> Path | None:
    """The file that `import ./x.nix` reads; None if a path is used in any other way."""
    call = node.parent
    if call is None or call.type != "apply_expression":
        return None
    function = part(call, "function")
    if syntax.text(function) != "import" or lookup(syntax, function, "import").kind != "builtin":
        return None
    target = (path.parent / syntax.text(node)).resolve()
    return target / "default.nix" if target.is_dir() else target


def _all_defaulted(syntax: Syntax) -> bool:
    """Whether a recipe can be called with nothing; otherwise a package set fills any argument it knows."""
    root = syntax.root
    if root.type != "function_expression":
        return True
    if root.child_by_field_name("formals") is None:
        return False
    return all(formal.child_by_field_name("default") is not None for formal in formal_nodes(root))


def original(preparation: Preparation, where: Where, folder: Path) -> Where | None:
    """The place in the original file of an error in a prepared file; None for files of ours."""
    at = Path(where.file)
    if at.parent != folder:
        return where
    by_job = {f"j{index}": job.path for index, job in enumerate(preparation.jobs)}
    source = by_job.get(at.stem) or preparation.origins.get(at.stem)
    if source is None:
        return None
    closed = preparation.shared.get(at.stem)
    if closed is not None and where.line >= closed.span.line + closed.body.count("\n") + 1:
        return Where(str(source))  # in a binding that the import needs, whose lines are not its own
    column = where.column - len(SCOPE) if where.line == 1 and closed is None else where.column
    return Where(str(source), where.line, max(column, 1))


def source_hash(recipe: Path) -> str:
    """One hash over a recipe and the files it reads: identifies a recipe that Nix cannot evaluate alone."""
    return next(source_hashes([recipe]))


def source_hashes(recipes: Iterable[Path]) -> Iterator[str]:
    """The hashes of many recipes; each repository is read once."""
    preparation, prints = Preparation(), Fingerprints()
    for recipe in recipes:
        root = preparation.readable.add(recipe)
        digest = hashlib.sha256()
        try:
            reads = {path.resolve() for path in preparation.files_read(recipe, parse_file(recipe))}
        except Unreadable:
            reads = {recipe.resolve()}
        for path in sorted(path for path in reads if path.is_relative_to(root)):
            if path.is_dir() and not path.is_relative_to(root / ".flox/pkgs"):
                continue  # such as the repository itself, which changes with every log in it
            digest.update(f"{path.relative_to(root)}\0{prints.of(path)}\n".encode())
        yield digest.hexdigest()
