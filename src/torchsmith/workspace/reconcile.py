"""Compare the files of a workspace with those that it should have: one change for each file. A plan checks
recipes that torchsmith does not manage with the audit first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import EISDIR, ELOOP
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from torchsmith.catalog import Catalog
from torchsmith.core.files import inside, read_bytes, text_or_none
from torchsmith.core.problem import CannotRead, CannotWrite, Problem
from torchsmith.core.text import counted, some_of
from torchsmith.matrix import Flavor, Variant, package_name
from torchsmith.matrix.cells import why_not_generated
from torchsmith.recipe.header import Owner, owner_of, read_header
from torchsmith.recipe.read import read_text_as_recipe
from torchsmith.workspace import git
from torchsmith.workspace.change import Adoption, Change, Phase, ReasonCode
from torchsmith.workspace.checkout import (
    A_LINK,
    PKGS,
    RecipeFile,
    imported_by,
    packages_and_links,
    recipes_in,
)
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.search import nix_files
from torchsmith.workspace.wanted import WantedFile, WantedRepo, flox_files, wrote


class CheckedRecipe(NamedTuple):
    """What the audit found in a recipe that torchsmith does not manage."""

    errors: tuple[str, ...] = ()  # the messages
    warnings: int = 0
    rules: tuple[str, ...] = ()  # with errors
    parsed: bool = True
    fixable: bool = False  # each error has a safe fix
    differs: tuple[str, ...] = ()  # in what it differs from the line that torchsmith.toml has for it

    def broken(self, change: Change, why: str) -> Change:
        """The change of a recipe with these errors."""
        return replace(change, why=why, errors=self.errors, rules=self.rules, fixable=self.fixable)

    @property
    def valid(self) -> str:
        """That it has no error."""
        return f"valid, {counted(self.warnings, 'warning')}" if self.warnings else "valid"


CheckRecipe = Callable[[RecipeFile], CheckedRecipe]
# Folders of a repo in which a page with our header is deleted when it is no longer wanted.
MANAGED = ("docs", "")
ADOPT_HINT = "--adopt PATH rewrites it"
NO_ADOPTION = Adoption()
NIXPKGS = re.compile(r"nixpkgs/archive/([0-9a-f]{40})")
MAX_NAMES = 5  # of what differs, in a reason
NOT_WANTED = "no longer in torchsmith.toml"


def reconcile(
    workspace: Workspace,
    repos: Sequence[WantedRepo],
    *,
    adopt: Adoption = NO_ADOPTION,
    check: CheckRecipe = lambda recipe: CheckedRecipe(),
) -> list[Change]:
    """The changes that make a workspace what it should be, in the order of its files. By default
    recipes that torchsmith does not manage count as valid."""
    reconcilers = [_Reconciler(workspace, repo, adopt, check) for repo in repos]
    found = [change for reconciler in reconcilers for change in reconciler.changes()]
    changes = list(_keep_imported(workspace, repos, found))
    for repo in repos:
        changes += () if repo.files else _environment(workspace.home, repo.name, changes, adopt)
    wanted = {cell.name: cell.variant for cell in workspace.matrix.cells}
    return [replace(change, phase=phase_of(change, workspace.catalog, wanted)) for change in changes]


@dataclass(frozen=True)
class _Reconciler:
    """One repository."""

    workspace: Workspace
    repo: WantedRepo
    adopt: Adoption
    check: CheckRecipe

    def __post_init__(self) -> None:
        for folder in self.folders:
            inside(self.root, folder)

    @cached_property
    def root(self) -> Path:
        return self.workspace.home

    @cached_property
    def wanted(self) -> dict[str, WantedFile]:
        return {file.path: file for file in self.repo.files}

    @cached_property
    def unwanted(self) -> list[tuple[str, bool]]:
        """What Flox' rule finds under a path that is not wanted, and whether it is a link."""
        inner = f"{self.repo.name}/{PKGS}"
        pkgs = f"{self.root}/{inner}"
        found = packages_and_links(pkgs) if os.path.isdir(pkgs) else ()
        paths = ((f"{inner}{path[len(pkgs) :]}", is_link) for path, is_link in found)
        return [(path, is_link) for path, is_link in paths if path not in self.wanted]

    @cached_property
    def extra(self) -> dict[str, RecipeFile]:
        """Recipes that exist under a path that is not wanted."""
        if all(is_link for _, is_link in self.unwanted):
            return {}
        found = recipes_in(self.root / self.repo.name, self.workspace)
        recipes = {recipe.path.relative_to(self.root).as_posix(): recipe for recipe in found}
        return {path: recipe for path, recipe in recipes.items() if path not in self.wanted}

    def changes(self) -> Iterator[Change]:
        replaced = self._replaced()
        for path, file in self.wanted.items():
            if self.workspace.settings.pages or not file.is_page:
                yield self._replace(file, replaced[path]) if path in replaced else self._wanted(file)
        for path, recipe in self.extra.items():
            if recipe not in replaced.values():
                yield from self._not_wanted(path, recipe)
        links = (path for path, is_link in self.unwanted if is_link)
        yield from (Change("keep", path, A_LINK, recipe=True, code="not-text") for path in links)
        yield from self._stale()

    # ---- files that are wanted

    @cached_property
    def folders(self) -> dict[str, bool]:
        """The wanted files' folders, and whether they exist. Raises CannotWrite if a link leads out of the
        repository."""
        names = {file.path.rpartition("/")[0] for file in self.repo.files}
        top = os.path.realpath(f"{self.root}/{self.repo.name}")
        for name in sorted(names):
            if not f"{os.path.realpath(f'{self.root}/{name}')}/".startswith(f"{top}/"):
                hint = "put the folder itself in its place"
                raise CannotWrite(f"{self.root}/{name} is a link out of the repository", hint=hint)
        return {name: os.path.lexists(f"{self.root}/{name}") for name in sorted(names)}

    def _wanted(self, file: WantedFile) -> Change:
        path = f"{self.root}/{file.path}"
        if not self.folders[file.path.rpartition("/")[0]]:
            return _missing(file)
        try:
            before = read_bytes(path, links=False).decode()
        except FileNotFoundError:
            return _missing(file)
        except OSError as error:
            odd = {ELOOP: "it is a link", EISDIR: "it is a folder"}.get(error.errno or 0)
            if odd is None:
                raise CannotRead(f"cannot read {path}: {error.strerror}") from error
            return self._skipped(file, odd)
        except UnicodeDecodeError:
            return self._skipped(file, "it is not text")
        if before == file.text:
            owner: Owner = "ours" if read_header(before) else "foreign"
            return Change(
                "keep", file.path, "up to date", owner=owner, recipe=file.is_recipe, code="up-to-date"
            )
        change = Change("rewrite", file.path, "", before, file.text, owner_of(before), recipe=file.is_recipe)
        if change.owner == "ours":
            why, code = _what_changed(change)
            return replace(change, why=why, code=code)
        return self._foreign(change)

    def _skipped(self, file: WantedFile, why: str) -> Change:
        return Change(
            "rewrite",
            file.path,
            why,
            after=file.text,
            recipe=file.is_recipe,
            skipped=True,
            code="not-text",
        )

    def _foreign(self, change: Change) -> Change:
        """A wanted file that torchsmith did not write, or that was edited: a valid recipe and a page stay."""
        edited = change.owner == "edited"
        why = "edited by hand" if edited else "not managed by torchsmith"
        if edited and (names := _differing_names(change)):
            why += f" ({names})"
        change = replace(change, why=why, code="edited" if edited else "unmanaged")
        if self.adopt.names(change.path):
            return change
        taken = self.adopt.takes(change.path)
        if not change.recipe:
            return replace(change, kind="keep", why=f"{why}; {ADOPT_HINT}", before=None, after=None)
        file, repo = self.root / change.path, self.root / self.repo.name
        checked = self.check(RecipeFile(file.stem, file, repo, self.workspace.catalog))
        if checked.errors:
            why = f"broken, {why}" if edited else "broken"
            return replace(checked.broken(change, why), skipped=not taken, code="broken")
        why = f"{checked.valid}, {why}; {ADOPT_HINT}"
        kept = replace(change, kind="keep", why=why, before=None, after=None, code="valid")
        return replace(kept, warnings=checked.warnings, differs=checked.differs)

    # ---- recipes under another name or form than is wanted

    def _replaced(self) -> dict[str, RecipeFile]:
        """Wanted files that do not exist, and the recipe that exists for the same cell."""
        replaced: dict[str, RecipeFile] = {}
        for recipe in sorted(self.extra.values(), key=lambda recipe: not recipe.canonical):
            variant = recipe.variant
            if variant is None:
                continue
            cell = variant.changed(flavor=Flavor.RELEASE, release=None)
            if variant.release and variant.release.line != self.workspace.line_of(cell):
                continue
            wanted = f"{self.repo.name}/{PKGS}/{cell}.nix"
            if wanted in self.wanted and not (self.root / wanted).exists():
                replaced.setdefault(wanted, recipe)
        return replaced

    def _replace(self, file: WantedFile, recipe: RecipeFile) -> Change:
        old = recipe.path.relative_to(self.root).as_posix()
        ours = recipe.owner == "ours"
        checked = CheckedRecipe() if ours else self.check(recipe)
        same = recipe.attr == file.name
        if same and not checked.errors and not ours and not self.adopt.names(old):
            why, warnings = f"{checked.valid}, not managed by torchsmith; {ADOPT_HINT}", checked.warnings
            kept = Change("keep", old, why, owner=recipe.owner, recipe=True, warnings=warnings)
            return replace(kept, code="valid", differs=checked.differs)
        variant = recipe.variant
        code: ReasonCode = "same-package" if same else "old-name"
        what = "it is this package" if same else "an old name of this build"
        if variant is not None and variant.flavor:
            code, what = "stand-in", f"the {variant.flavor.value} is used for this build"
        why = f"{what}, and is broken" if checked.errors else what
        skipped = not ours and not self.adopt.takes(old)
        change = Change("replace", file.path, why, recipe.text, file.text, recipe.owner, old, True, skipped)
        return replace(checked.broken(change, why), code=code)

    # ---- what is not wanted

    def _not_wanted(self, path: str, recipe: RecipeFile) -> Iterator[Change]:
        change = Change(
            "delete", path, NOT_WANTED, recipe.text, None, recipe.owner, recipe=True, code="not-wanted"
        )
        reading = recipe.reading
        if recipe.owner == "ours":
            yield change
        elif reading and self._has_cell(f"{self.repo.name}/{PKGS}/{reading.variant}.nix", path):
            old = f" ({'; '.join(reading.old)})" if reading.old else ""
            why = f"redundant: the same build has a recipe of its usual name{old}"
            yield replace(change, why=why, skipped=not self.adopt.takes(path), code="redundant")
        elif reading and (checked := self.check(recipe)).errors:
            why = f"{self._away(recipe) or 'not in torchsmith.toml'}, and broken"
            change = replace(checked.broken(change, why), code="not-wanted-broken")
            if checked.parsed:
                yield replace(change, skipped=not self.adopt.takes(path))
            else:  # its content is unknown
                yield replace(change, kind="keep", why=f"{why}; fix it, or delete it", before=None)
        else:
            yield self._stays(replace(change, kind="keep", before=None), recipe)

    def _has_cell(self, canonical: str, path: str) -> bool:
        """Whether the cell of a recipe has another file, wanted or present."""
        return canonical in self.wanted or (canonical != path and (self.root / canonical).is_file())

    def _stays(self, change: Change, recipe: RecipeFile) -> Change:
        """A valid recipe that is not in torchsmith.toml, and what to do about it."""
        catalog = self.workspace.catalog
        impossible = why_not_generated(recipe.variant, catalog, recipe.release) if recipe.variant else ""
        if impossible:
            return replace(change, why=impossible, code="impossible")
        why = "valid, but not in torchsmith.toml: include it there, or delete it"
        if away := self._away(recipe):
            why = f"valid, but {away}: move it, or delete it"
        return replace(change, why=why, code="not-wanted-valid")

    def _away(self, recipe: RecipeFile) -> str:
        """Where a recipe would be that torchsmith.toml asks for, if it is in another repository."""
        wanted = recipe.variant is not None and recipe.variant.name in self.workspace.lines
        return f"its place is {recipe.variant.package.folder}" if wanted and recipe.variant else ""

    def _stale(self) -> Iterator[Change]:
        """Pages with our header that are no longer wanted."""
        for folder in MANAGED:
            for path in sorted((self.root / self.repo.name / folder).glob("*")):
                name = path.relative_to(self.root).as_posix()
                ours = path.suffix in (".nix", ".md") and not path.is_symlink() and path.is_file()
                if name in self.wanted or not ours:
                    continue
                try:
                    before = read_bytes(path, links=False).decode()
                except (OSError, UnicodeDecodeError):
                    continue
                change = Change("delete", name, NOT_WANTED, before, owner=owner_of(before), code="not-wanted")
                if change.owner == "ours":
                    yield change
                elif change.owner == "edited":
                    yield _edited(change, self.adopt)


def _environment(root: Path, repo: str, changes: Sequence[Change], adopt: Adoption) -> list[Change]:
    """The Flox files of a repository that is no longer wanted: deleted with its last recipe, unless one of
    them was edited."""
    deleted = {change.path for change in changes if change.kind == "delete" and change.pending}
    staying = (path.relative_to(root).as_posix() for path in (root / repo / PKGS).rglob("*"))
    if not deleted.issuperset(path for path in staying if not (root / path).is_dir()):
        return []
    found = []
    for file in flox_files(repo):
        is_plain = (root / file.path).resolve() == root.resolve() / file.path
        if is_plain and (before := text_or_none(root / file.path)) is not None:
            ours = wrote(repo, file.path.partition("/")[2], before)
            change = Change("delete", file.path, NOT_WANTED, before, owner="ours", code="not-wanted")
            found.append(change if ours else _edited(replace(change, owner="edited"), adopt))
    return [change for change in found if change.skipped] or found


def _edited(change: Change, adopt: Adoption) -> Change:
    """A deletion of a file that was edited by hand: it needs --adopt with the path of the file."""
    why = f"{NOT_WANTED}, but edited by hand"
    return replace(change, why=why, skipped=change.path not in adopt.paths)


def _keep_imported(
    workspace: Workspace, repos: Sequence[WantedRepo], changes: Sequence[Change]
) -> Iterator[Change]:
    """The changes, but a file that one which stays imports stays, too."""
    going = {
        change.old or change.path: change
        for change in changes
        if change.kind == "delete" or change.old or change.code == "not-wanted-valid"
    }
    home, imports = workspace.home, dict[str, set[str]]()
    new = {path: text for change in changes for path, text in change.files.items()}
    for folder in (home / repo.name for repo in repos if going and (home / repo.name).is_dir()):
        for file in {*nix_files(folder), *(recipe.path for recipe in recipes_in(folder))}:
            path = file.relative_to(home).as_posix()
            imports[path] = {*imported_by(path, new.get(path) or text_or_none(file) or "")}
    waiting = [path for path in imports if path not in going or not going[path].pending]
    importers: dict[str, str] = {}
    while waiting:
        importer = waiting.pop()
        found = (imports[importer] & going.keys()) - {importer, *importers}
        importers |= dict.fromkeys(found, importer)
        waiting += found
    for change in changes:
        path = change.old or change.path
        if path not in importers:
            yield change
            continue
        if change.old and package_name(change.old) != package_name(change.path):
            yield _missing(WantedFile(change.path, change.after or ""))
        why = f"imported by {package_name(importers[path])}" + (f"; {change.why}" if change.rules else "")
        kept = replace(change, kind="keep", path=path, old="", why=why, before=None, after=None)
        yield replace(kept, skipped=False, code="imported")


def phase_of(change: Change, catalog: Catalog, wanted: Mapping[str, Variant] = MappingProxyType({})) -> Phase:
    """When a change is written: deletions first, then recipes by what they are for. The names of `wanted`
    need not be read."""
    if change.kind == "delete":
        return "clean up"
    name = package_name(change.path)
    variant = (wanted.get(name) or Variant.try_parse(name, catalog)) if change.recipe else None
    if variant is None:
        return "everything else"
    isa = catalog.isas.get(variant.isa)
    platform = isa.platform if isa else ""
    if platform.endswith("darwin"):
        return "macOS"
    if variant.toolkit is None:
        return "CPU only"
    return "GPU on ARM" if platform.startswith("aarch64") else "GPU on x86"


def copies(root: Path, changes: Sequence[Change]) -> Iterator[Change]:
    """A copy of each file that is about to be taken over, unless it is committed."""
    for change in changes:
        path = change.old or change.path
        if not change.pending or change.owner in (None, "ours") or change.before is None:
            continue
        if not git.is_committed(root / path, change.before):
            yield Change("create", _free_name(root, path), f"{path} as it was", after=change.before)


def _free_name(root: Path, path: str) -> str:
    """A free name beside a file, which no tool takes for a recipe."""
    for number in range(1, 1000):
        name = f"{path}.orig{'' if number == 1 else number}"
        if not (root / name).exists():
            return name
    raise CannotWrite(f"too many copies beside {path}")


def _missing(file: WantedFile) -> Change:
    return Change(
        "create", file.path, "it is missing", after=file.text, recipe=file.is_recipe, code="missing"
    )


def _what_changed(change: Change) -> tuple[str, ReasonCode]:
    before, after = change.before or "", change.after or ""
    old, new = read_header(before), read_header(after)
    if old and new and old.facts.get("line") != new.facts.get("line"):
        return f"line {old.facts.get('line')} -> {new.facts.get('line')}", "line"
    revs = [match[1][:7] for text in (before, after) if (match := NIXPKGS.search(text))]
    if len(set(revs)) > 1:
        return f"nixpkgs {' -> '.join(revs)}", "nixpkgs"
    names = _differing_names(change)
    return f"changes {names}" if names else "its text changes", "text"


def _differing_names(change: Change) -> str:
    """What two texts of a recipe bind to different values; empty for a page."""
    texts = [text.encode() for text in (change.before, change.after) if text and change.recipe]
    try:
        old, new = (read_text_as_recipe(text, Path(change.path)).innermost for text in texts)
    except (Problem, ValueError):  # not Nix, or not two recipes
        return ""
    return some_of([name for name in {**old, **new} if old.get(name) != new.get(name)], MAX_NAMES)
