"""What is in repositories: recipes by Flox's rule, each with all that is known of it, and the part that
selectors pick. Every verb over recipes on disk starts here."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from torchsmith.catalog import Catalog, builtin_catalog
from torchsmith.core.files import text_or_none
from torchsmith.core.problem import Empty, NotFound, NotKnown, Problem, did_you_mean
from torchsmith.core.text import printable, some_of
from torchsmith.matrix import BadName, ParsedName, Selector, Variant, package_name, read_name
from torchsmith.matrix.select import COMBINED
from torchsmith.recipe.header import Owner, owner_of
from torchsmith.recipe.read import read_recipe
from torchsmith.workspace import git
from torchsmith.workspace.load import FILE, Workspace, bare_workspace, open_workspace
from torchsmith.workspace.release import stated_release
from torchsmith.workspace.search import SKIPPED, nix_files
from torchsmith.workspace.subject import PKGS as PKGS
from torchsmith.workspace.subject import Subject

AROUND = (".flox/env.json", ".flox/env/manifest.toml", ".flox/.gitignore")
MAX_LEVELS = 4  # below a folder, at which repositories are searched
IMPORTED = re.compile(r"(?<![\w./-])\.{1,2}/[\w./+-]+")
A_LINK = "it is a link, and Flox follows none: put the file in its place"
FLOX_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class RecipeFile:
    """A recipe of a repository. `name` has its repository in front if two repositories have the name."""

    name: str
    path: Path
    repo: Path
    catalog: Catalog = field(repr=False, compare=False)
    requested_line: str = field(default="", compare=False)  # the line under which the workspace has it
    known: bool = True  # to git: Flox builds nothing else

    @property
    def attr(self) -> str:
        """The name that Flox gives it."""
        return package_name(self.path)

    @cached_property
    def read(self) -> ParsedName | BadName:
        """What the name says, or why it names no variant."""
        try:
            return read_name(self.attr, self.catalog)
        except BadName as problem:
            return problem

    @property
    def reading(self) -> ParsedName | None:
        return self.read if isinstance(self.read, ParsedName) else None

    @property
    def canonical(self) -> bool:
        """Whether it is named as we would name it."""
        return self.reading is not None and self.reading.canonical

    @property
    def variant(self) -> Variant | None:
        return self.reading.variant if self.reading else None

    @property
    def system(self) -> str:
        """The system that its name says it is for."""
        isa = self.catalog.isas.get(self.variant.isa) if self.variant else None
        return isa.platform if isa else ""

    @cached_property
    def text(self) -> str | None:
        """None if it is not text."""
        return text_or_none(self.path)

    @cached_property
    def owner(self) -> Owner:
        return owner_of(self.text) if self.text is not None else "foreign"

    @cached_property
    def release(self) -> str:
        """The line it is of, as its name, workspace, header, a comment or its code says; never a guess."""
        stated = stated_release(self.variant, self.catalog, self.text or "", self.requested_line)
        if stated is not None:
            return stated
        try:
            recipe = read_recipe(self.path)
        except Problem:
            return ""
        return Subject(self.name, recipe, self.catalog).release_by_code


@dataclass(frozen=True, slots=True)
class UnusedRecipe:
    """A recipe that is not used, and why."""

    name: str
    path: Path
    why: str


@dataclass(frozen=True)
class Repository:
    """A folder with recipes and what is around them. `whole` is False if only a part of it was
    named. `elsewhere` are its other Nix files, if they were looked for; `links`
    are in the place of recipes; `ignored` are recipes by their names that git ignores."""

    root: Path
    recipes: tuple[RecipeFile, ...]
    others: tuple[Path, ...] = ()
    pages: tuple[Path, ...] = ()
    whole: bool = True
    elsewhere: tuple[Path, ...] = ()
    links: tuple[Path, ...] = ()
    ignored: tuple[Path, ...] = ()

    @property
    def label(self) -> str:
        return self.root.as_posix()

    def label_of(self, path: Path) -> str:
        inner = path.relative_to(self.root).as_posix()
        label = f"{self.label}/{inner}" if self.label not in ("", ".") else inner
        return label.encode(errors="backslashreplace").decode()  # a name may have bytes that are not text


@dataclass(frozen=True)
class Checkout:
    """Repositories, and the catalog of the workspace that they belong to."""

    repositories: tuple[Repository, ...]
    catalog: Catalog

    @property
    def recipes(self) -> list[RecipeFile]:
        return [recipe for repository in self.repositories for recipe in repository.recipes]

    def select(self, selectors: Iterable[str]) -> Checkout:
        """The part that selectors and names pick; raises a Problem if they pick nothing."""
        selectors = list(selectors)
        if not selectors:
            return self
        chosen = set(self._chosen(selectors))
        parts = [
            Repository(
                repository.root,
                tuple(recipe for recipe in repository.recipes if recipe in chosen),
                whole=False,
            )
            for repository in self.repositories
        ]
        return replace(self, repositories=tuple(part for part in parts if part.recipes))

    def _chosen(self, selectors: Sequence[str]) -> Iterator[RecipeFile]:
        recipes = self.recipes
        names = {name for recipe in recipes for name in (recipe.name, recipe.attr)}
        where = some_of([repository.label for repository in self.repositories])
        for word in selectors:
            if word not in names and Path(word).suffix and Path(word).is_file():
                raise NotFound(f"{word} is not a recipe", hint="recipes are .nix files below .flox/pkgs")
            if word not in names and "*" not in word and (word.count("-") >= 2 or is_file_name(word)):
                raise _nothing_at(word, where, did_you_mean(word, sorted(names)))
        try:
            selector = Selector.parse(
                [f"name:{word}" if word in names else word for word in selectors], self.catalog
            )
        except NotKnown as problem:
            raise problem.replace(message=f"no such path, and {problem.message}") from None
        matching = [recipe for recipe in recipes if self._matches(recipe, selector)]
        if not matching:
            hint = COMBINED if len(selectors) > 1 else "torchsmith list shows the builds of torchsmith.toml"
            raise Empty(f"no recipe in {where} matches {' '.join(selectors)}", hint=hint)
        yield from matching

    def _matches(self, recipe: RecipeFile, selector: Selector) -> bool:
        line = recipe.release if selector.asks("line") else ""
        return selector.matches(recipe.variant, line, self.catalog, (recipe.name, recipe.attr))


def discover(
    paths: Sequence[Path],
    workspace: Workspace | None = None,
    selectors: Sequence[str] = (),
    *,
    search: bool = False,
) -> Checkout:
    """The repositories at or below paths, and what words select there. Raises NotFound if there is no recipe.
    With `search` other Nix files are enough, wherever they are."""
    checkout = _checkout(paths, workspace, search=search)
    if (
        search
        and not selectors
        and not any(
            found.recipes or found.elsewhere or found.links or found.ignored
            for found in checkout.repositories
        )
    ):
        hint = "recipes are below .flox/pkgs; other Nix files may be anywhere"
        raise NotFound(f"there is no Nix file in {', '.join(map(str, paths))}", hint=hint)
    if not checkout.recipes and not (search and not selectors):
        where = ", ".join(map(str, paths))
        hint = "torchsmith apply writes them; recipes are .nix files below .flox/pkgs"
        if selectors and not Path(selectors[0]).exists():
            raise _nothing_at(selectors[0], where, "" if is_file_name(selectors[0]) else hint)
        named = f"{selectors[0]} is not a recipe; " if selectors else ""
        raise NotFound(f"{named}there is no recipe in {where}", hint=hint)
    return checkout.select(selectors)


def is_file_name(word: str) -> bool:
    """Whether a word can only be a path, by a slash or a suffix."""
    return "/" in word or not FILE_SUFFIXES.isdisjoint(Path(word).suffixes)


def _nothing_at(word: str, where: str, hint: str) -> NotFound:
    """A word for which there is neither a file nor a recipe."""
    if is_file_name(word):
        return NotFound(f"there is no file {word}", hint=hint)
    return NotFound(f"there is no file {word}, and no recipe of that name in {where}", hint=hint)


def _checkout(paths: Sequence[Path], workspace: Workspace | None, *, search: bool = False) -> Checkout:
    catalog = workspace.catalog if workspace else builtin_catalog()
    owned = workspace is not None and workspace.root is not None
    lines = workspace.lines if workspace and owned else {}
    repositories: dict[Path, Repository] = {}
    files: dict[Path, list[Path]] = {}
    for path in paths:
        if path.is_file() and path.suffix != ".nix":
            raise NotFound(f"{path} is not a Nix file", hint="its name does not end in .nix")
        if path.is_file():
            files.setdefault(root_of(path), []).append(path)
        elif path.is_dir():
            repositories |= {
                repository.root: repository for repository in _Reader(catalog, lines, search).below(path)
            }
        else:
            raise NotFound(f"no such folder: {path}" if not path.suffix else f"no such file: {path}")
    for root, named in files.items():
        reader = _Reader(catalog, lines, search)
        links = {
            path for path in named if search and path.is_symlink() and PKGS in path.absolute().as_posix()
        }
        recipes, others = reader.recipes(sorted(set(named) - links), root)
        found = Repository(root, recipes, whole=False, elsewhere=others, links=tuple(sorted(links)))
        repositories.setdefault(root, found)
    return Checkout(tuple(_distinct(repositories.values())), catalog)


def recipes_in(folder: Path, workspace: Workspace | None = None) -> list[RecipeFile]:
    """The recipes of a repository, of all repositories of a workspace, or of a plain folder; perhaps none."""
    return _checkout([folder], workspace).recipes


def choose(arguments: Sequence[str], workspace: Workspace | None, folder: Path) -> Checkout:
    """What words ask for: paths say where to look, else it is `folder`; selectors and names say which."""
    paths, selectors = split(arguments)
    return discover(paths or [folder], workspace, selectors)


FILE_SUFFIXES = {".whl", ".so", ".nix", ".zip"}  # no recipe's name ends so
PLACES = ("./", "../", "/")  # what begins so is a path, whether it exists or not


def split(arguments: Sequence[str]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Words of a person as paths, and as selectors and names."""
    paths = [
        word for word in arguments if word.endswith(".nix") or word.startswith(PLACES) or Path(word).is_dir()
    ]
    return tuple(map(Path, paths)), tuple(word for word in arguments if word not in paths)


def workspace_folder(named: Path | None) -> Path:
    """Where to look by default: the folder of the workspace that is named, else here."""
    return Path() if named is None else named if named.is_dir() else named.parent


def workspace_of(paths: Sequence[Path], named: Path | None) -> Workspace | None:
    """The workspace that paths belong to: the one named, or the nearest torchsmith.toml above the first."""
    if named is not None:
        return open_workspace(named)
    start = paths[0].resolve()
    rules = next((folder for folder in (start, *start.parents) if (folder / FILE).is_file()), None)
    return open_workspace(rules) if rules else None


def workspace_or_folder(arguments: Sequence[str], named: Path | None) -> Workspace:
    """The workspace named, or the one here, or that of the paths among the arguments; else the folder that
    has the repositories of those paths, as a workspace that asks for nothing."""
    opened = open_workspace(named, recover=True)
    paths, _ = split(arguments)
    if opened.root is not None or not paths:
        return opened
    if missing := [path for path in paths if not path.exists()]:
        raise NotFound(f"no such file or folder: {missing[0]}")
    places = [str((path if path.is_dir() else root_of(path)).resolve()) for path in paths]
    return workspace_of(paths, None) or bare_workspace(Path(os.path.commonpath(places)))


@dataclass(frozen=True)
class _Reader:
    """Finds what Flox would, and says of each what a catalog and a workspace know."""

    catalog: Catalog
    lines: Mapping[str, str]
    search: bool = False  # also for Nix files that are recipes neither by their place nor by their name

    def recipes(self, files: Sequence[Path], root: Path) -> tuple[tuple[RecipeFile, ...], tuple[Path, ...]]:
        """Files as recipes; with `search` only those that Flox or their name makes one, and the others."""
        read = [(path, self.recipe(path, root)) for path in files]
        if not self.search:
            return tuple(recipe for _, recipe in read), ()
        named = {
            path: recipe
            for path, recipe in read
            if PKGS in path.absolute().as_posix() or ("-python" in recipe.name and recipe.variant)
        }
        return tuple(named.values()), tuple(path for path in files if path not in named)

    def recipe(self, path: Path, root: Path, known: bool = True) -> RecipeFile:
        name = printable(package_name(path))
        return RecipeFile(name, path, root, self.catalog, self.lines.get(name, ""), known)

    def below(self, path: Path) -> Iterator[Repository]:
        """A repository, those of a workspace, or a plain folder of recipes."""
        roots = repositories_below(path, MAX_LEVELS if self.search else 1)
        yield from map(self.repository, roots)
        if self.search and path not in roots:
            files = [
                file
                for file in nix_files(path, self.catalog.templates)
                if not any(file.is_relative_to(root) for root in roots)
            ]
            recipes, others = self.recipes(files, path)
            if recipes or others:
                yield Repository(path, recipes, elsewhere=others)
        elif not roots:
            flat = [self.recipe(file, path) for file in sorted(path.glob("*.nix"))]
            yield Repository(path, tuple([recipe for recipe in flat if recipe.variant] or flat))

    def repository(self, root: Path) -> Repository:
        others = sorted(root.glob("*.nix"))
        others += [root / name for name in AROUND if (root / name).is_file()]
        pages = [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md"))]
        others, pages = _not_leading_out(root, others), _not_leading_out(root, pages)
        seen = git.seen_files(root, PKGS)
        recipes, links, ignored = [], [], []
        for path, is_link in packages_and_links(str(root / PKGS)):
            file = Path(path)
            inner = file.relative_to(root).as_posix()
            if seen is not None and inner not in seen:
                ignored += [file] if self.recipe(file, root).variant else []
            elif is_link:
                links.append(file)
            else:
                recipes.append(self.recipe(file, root, seen is None or seen[inner]))
        files = nix_files(root, self.catalog.templates) if self.search else []
        elsewhere = [path for path in files if PKGS not in path.as_posix()]
        return Repository(
            root,
            tuple(recipes),
            tuple(others),
            tuple(pages),
            elsewhere=tuple(elsewhere),
            links=tuple(links),
            ignored=tuple(ignored),
        )


def repositories_below(path: Path, depth: int) -> list[Path]:
    """The folders with recipes at or below a path, so many levels down; none in hidden folders."""
    pkgs = (folder for level in range(depth + 1) for folder in path.glob("*/" * level + PKGS))
    roots = (folder.parents[1] for folder in pkgs if folder.is_dir())
    return sorted(
        root
        for root in roots
        if not any(part in SKIPPED or part.startswith(".") for part in root.relative_to(path).parts)
    )


def _not_leading_out(root: Path, files: Iterable[Path]) -> list[Path]:
    """Files without links to somewhere else: what those hold is not the repository's."""
    return [file for file in files if not file.is_symlink() or file.resolve().is_relative_to(root.resolve())]


def package_paths(pkgs: str) -> list[str]:
    """NAME.nix and NAME/default.nix are packages, a folder without default.nix nests, links are nothing.
    As text, which is quicker."""
    return [path for path, is_link in packages_and_links(pkgs) if not is_link]


def packages_and_links(pkgs: str) -> Iterator[tuple[str, bool]]:
    """The files of packages, and the links to such files or folders; whether it is a link."""
    waiting = _entries(pkgs)
    while waiting:
        entry = waiting.pop()
        is_link = entry.is_symlink()
        if entry.name.endswith(".nix") and (is_link or entry.is_file()):
            yield entry.path, is_link
        elif entry.is_dir() and os.path.isfile(f"{entry.path}/default.nix"):
            yield entry.path if is_link else f"{entry.path}/default.nix", is_link
        elif entry.is_dir() and not is_link:
            waiting += _entries(entry.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder, by name from the end."""
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name, reverse=True)


def libraries(recipes: Sequence[RecipeFile]) -> set[Path]:
    """Those of the files below a .flox/pkgs that are no builds by their names, and that others import."""
    unnamed = {os.path.normpath(recipe.path): recipe.path for recipe in recipes if recipe.variant is None}
    imports = (
        imported
        for recipe in (recipes if unnamed else ())
        for imported in imported_by(os.fspath(recipe.path), recipe.text or "")
    )
    return {unnamed[path] for path in imports if path in unnamed}


def imported_by(path: str, text: str) -> Iterator[str]:
    """The files that the text of a Nix file names, whether they exist or not; a folder is its default.nix."""
    for line in text.splitlines():
        for named in IMPORTED.findall(line.partition("#")[0]):
            imported = os.path.normpath(os.path.join(os.path.dirname(path), named))
            yield imported if imported.endswith(".nix") else f"{imported}/default.nix"


def root_of(path: Path) -> Path:
    """The repository that a file is in, else its folder."""
    return next((parent for parent in path.parents if (parent / ".flox").is_dir()), path.parent)


def _distinct(repositories: Iterable[Repository]) -> Iterator[Repository]:
    """A name that two repositories have gets its repository in front."""
    repositories = list(repositories)
    counts = Counter(recipe.name for repository in repositories for recipe in repository.recipes)
    for repository in repositories:
        twice = {recipe.name for recipe in repository.recipes if counts[recipe.name] > 1}
        if not twice:
            yield repository
            continue
        label = repository.root.absolute().name
        yield replace(
            repository,
            recipes=tuple(
                replace(recipe, name=f"{label}/{recipe.name}") if recipe.name in twice else recipe
                for recipe in repository.recipes
            ),
        )
