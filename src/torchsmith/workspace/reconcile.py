"""Files of a workspace against those that it should hold: one change a file. `generate` carries them out as
they are; a plan lets a judge look at the recipes of others first."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import EISDIR, ELOOP
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from torchsmith.catalog import Catalog
from torchsmith.core.files import inside, read_regular
from torchsmith.core.problem import CannotRead, Exit, TooLarge
from torchsmith.core.text import counted
from torchsmith.matrix import Flavor, package_name, try_read
from torchsmith.matrix.cells import why_not_generated
from torchsmith.recipe.header import Owner, owner_of, read_header
from torchsmith.workspace import git
from torchsmith.workspace.change import Adoption, Change
from torchsmith.workspace.checkout import PKGS, RecipeFile, package_paths, recipes_in
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.wanted import WantedFile, WantedRepo

Phase = Literal["clean up", "GPU on x86", "GPU on ARM", "CPU only", "everything else"]
PHASES: tuple[Phase, ...] = ("clean up", "GPU on x86", "GPU on ARM", "CPU only", "everything else")


class Judged(NamedTuple):
    """What the audit has against a recipe of somebody else."""

    errors: str = ""  # in words; empty: none
    warnings: int = 0
    parsed: bool = True

    @property
    def valid(self) -> str:
        """That it has no error."""
        return f"valid, {counted(self.warnings, 'warning')}" if self.warnings else "valid"


Judge = Callable[[RecipeFile], Judged]
# Folders of a repo in which a page with our header is deleted when it is no longer wanted.
MANAGED = ("docs", "")
UP_TO_DATE = "up to date"
SHARES = "torchsmith generate --adopt rewrites it, and the packages of its cell share one torch"
NO_ADOPTION = Adoption()
NOT_WANTED = "no longer in torchsmith.toml"


def reconcile(
    workspace: Workspace,
    repos: Sequence[WantedRepo],
    *,
    adopt: Adoption = NO_ADOPTION,
    judge: Judge | None = None,
    prune: bool = True,
) -> list[Change]:
    """The changes that make a workspace what it should be, in the order of its files."""
    return [
        change for repo in repos for change in _Reconciler(workspace, repo, adopt, judge, prune).changes()
    ]


@dataclass(frozen=True)
class _Reconciler:
    """One repository."""

    workspace: Workspace
    repo: WantedRepo
    adopt: Adoption
    judge: Judge | None
    prune: bool

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
    def extra(self) -> dict[str, RecipeFile]:
        """Recipes that lie there under a path that is not wanted."""
        folder = self.root / self.repo.name
        pkgs = str(folder / PKGS)
        names = [path[len(pkgs) :] for path in package_paths(pkgs)] if os.path.isdir(pkgs) else []
        if all(f"{self.repo.name}/{PKGS}{name}" in self.wanted for name in names):
            return {}
        recipes = {
            recipe.path.relative_to(self.root).as_posix(): recipe
            for recipe in recipes_in(folder, self.workspace)
        }
        return {path: recipe for path, recipe in recipes.items() if path not in self.wanted}

    def changes(self) -> Iterator[Change]:
        standing = self._standing_in()
        for path, file in self.wanted.items():
            yield self._replace(file, standing[path]) if path in standing else self._wanted(file)
        if not self.prune:
            return
        for path, recipe in self.extra.items():
            if recipe not in standing.values():
                yield from self._not_wanted(path, recipe)
        yield from self._stale()

    # ---- files that are wanted

    @cached_property
    def folders(self) -> dict[str, bool]:
        """The wanted files' folders, and whether they are there."""
        names = {file.path.rpartition("/")[0] for file in self.repo.files}
        return {name: os.path.lexists(f"{self.root}/{name}") for name in sorted(names)}

    def _wanted(self, file: WantedFile) -> Change:
        path = f"{self.root}/{file.path}"
        if not self.folders[file.path.rpartition("/")[0]]:
            return _missing(file)
        try:
            before = read_regular(path).decode()
        except FileNotFoundError:
            return _missing(file)
        except OSError as error:
            odd = {ELOOP: "it is a link, which is not ours", EISDIR: "it is a folder"}.get(error.errno or 0)
            if odd is None:
                raise CannotRead(f"cannot read {path}: {error.strerror}") from error
            return self._skipped(file, odd)
        except UnicodeDecodeError:
            return self._skipped(file, "it is not text")
        if before == file.text:
            owner: Owner = "ours" if read_header(before) else "foreign"
            return Change("keep", file.path, UP_TO_DATE, owner=owner, recipe=file.is_recipe)
        change = Change("rewrite", file.path, "", before, file.text, owner_of(before), recipe=file.is_recipe)
        if change.owner == "ours":
            return replace(change, why=_what_changed(before, file.text))
        return self._foreign(change)

    def _skipped(self, file: WantedFile, why: str) -> Change:
        return Change("rewrite", file.path, why, after=file.text, recipe=file.is_recipe, skipped=True)

    def _foreign(self, change: Change) -> Change:
        """A wanted file that somebody else wrote or edited: a judge may find that it can stay."""
        edited = change.owner == "edited"
        why = "it was edited by hand" if edited else "torchsmith did not write it"
        taken = self.adopt.takes(change.path)
        if change.path in self.adopt.paths:
            return replace(change, why=why)
        if self.judge is None:
            hint = "" if taken else f"; {_how_to_adopt(change.path)}"
            return replace(change, why=why + hint, skipped=not taken)
        if not change.recipe:
            why += f" and it may say more than ours would; --adopt {change.path} replaces it"
            return replace(change, kind="keep", why=why, after=None)
        file, repo = self.root / change.path, self.root / self.repo.name
        judged = self.judge(RecipeFile(file.stem, file, repo, self.workspace.catalog))
        if judged.errors:
            return replace(change, why=f"broken: {judged.errors}", skipped=not taken)
        why = f"{judged.valid}, {'edited by hand' if edited else 'not managed by torchsmith'}; {SHARES}"
        return replace(change, kind="keep", why=why, after=None, warnings=judged.warnings)

    # ---- recipes under another name or form than is wanted

    def _standing_in(self) -> dict[str, RecipeFile]:
        """Wanted files that do not exist, and the recipe that stands for the same cell in their place."""
        replaced: dict[str, RecipeFile] = {}
        for recipe in sorted(self.extra.values(), key=lambda recipe: not recipe.canonical):
            variant = recipe.variant
            if variant is None:
                continue
            cell = variant.changed(flavor=Flavor.RELEASE, release=None)
            if variant.release and variant.release.line != self.workspace.line_of(cell):
                continue
            wanted = f"{self.repo.name}/{PKGS}/{cell}.nix"
            same = recipe.attr == cell.name
            counts = same or (self.prune and (self.judge is not None or recipe.owner == "ours"))
            if counts and wanted in self.wanted and not (self.root / wanted).exists():
                replaced.setdefault(wanted, recipe)
        return replaced

    def _replace(self, file: WantedFile, recipe: RecipeFile) -> Change:
        old = recipe.path.relative_to(self.root).as_posix()
        judged = self.judge(recipe) if self.judge and recipe.owner != "ours" else Judged()
        errors = judged.errors
        variant = recipe.variant
        if variant is not None and variant.flavor:
            what = f"the {variant.flavor.value} stands in for this cell"
        else:
            what = "it is this package" if recipe.attr == file.name else "an old name of this cell"
        why = f"{old.rpartition(PKGS + '/')[2]}: {what}" + (f", and is broken: {errors}" if errors else "")
        right = self.judge is not None and recipe.attr == file.name and not errors
        if right and recipe.owner != "ours" and old not in self.adopt.paths:
            why = f"{judged.valid}, not managed by torchsmith; {SHARES}"
            warnings = judged.warnings
            return Change("keep", old, why, recipe.text, owner=recipe.owner, recipe=True, warnings=warnings)
        mine = recipe.owner == "ours" or self.adopt.takes(old)
        if not mine and self.judge is None:
            why += f"; {_how_to_adopt(old)}"
        return Change("replace", file.path, why, recipe.text, file.text, recipe.owner, old, True, not mine)

    # ---- what is wanted no more

    def _not_wanted(self, path: str, recipe: RecipeFile) -> Iterator[Change]:
        change = Change("delete", path, NOT_WANTED, recipe.text, None, recipe.owner, recipe=True)
        reading = recipe.reading
        if recipe.owner == "ours":
            yield change
        elif self.judge is None:
            if recipe.owner == "edited":
                yield self._edited(change)
        elif reading and self._has_cell(f"{self.repo.name}/{PKGS}/{reading.variant}.nix", path):
            old = f" ({'; '.join(reading.old)})" if reading.old else ""
            why = f"redundant: {reading.variant}.nix is the same cell{old}"
            yield replace(change, why=why, skipped=not self.adopt.takes(path))
        elif reading and (judged := self.judge(recipe)).errors:
            why = f"not asked for, and broken: {judged.errors}"
            if judged.parsed:
                yield replace(change, why=why, skipped=not self.adopt.takes(path))
            else:  # nobody knows what is in it
                yield replace(change, kind="keep", why=f"{why}; mend it, or delete it")
        else:
            yield replace(change, kind="keep", why=self._stays(recipe))

    def _edited(self, change: Change) -> Change:
        """A deletion of a file that was edited by hand: only --adopt with its path carries it out."""
        why = f"{NOT_WANTED}, but edited by hand"
        return replace(change, why=why, skipped=change.path not in self.adopt.paths)

    def _has_cell(self, canonical: str, path: str) -> bool:
        """Whether the cell of a recipe has another file, wanted or present."""
        return canonical in self.wanted or (canonical != path and (self.root / canonical).is_file())

    def _stays(self, recipe: RecipeFile) -> str:
        """What to do about a right recipe that is not asked for; some no torchsmith.toml can ask for."""
        catalog = self.workspace.catalog
        impossible = why_not_generated(recipe.variant, catalog, recipe.release) if recipe.variant else ""
        if impossible:
            return impossible
        return "torchsmith.toml does not ask for it, but it is right: include it there, or delete it"

    def _stale(self) -> Iterator[Change]:
        """Pages with our header that are no longer wanted."""
        for folder in MANAGED:
            for path in sorted((self.root / self.repo.name / folder).glob("*")):
                name = path.relative_to(self.root).as_posix()
                ours = path.suffix in (".nix", ".md") and not path.is_symlink() and path.is_file()
                if name in self.wanted or not ours:
                    continue
                try:
                    before = path.read_bytes().decode()
                except (OSError, UnicodeDecodeError):
                    continue
                change = Change("delete", name, NOT_WANTED, before, owner=owner_of(before))
                if change.owner == "ours":
                    yield change
                elif change.owner == "edited":
                    yield self._edited(change)


def phase_of(change: Change, catalog: Catalog) -> Phase:
    """When a change is carried out: the deletions first, then recipes by what they are for."""
    if change.kind == "delete":
        return "clean up"
    reading = try_read(package_name(change.path), catalog) if change.recipe else None
    if reading is None:
        return "everything else"
    if reading.variant.toolkit is None:
        return "CPU only"
    isa = catalog.isas.get(reading.variant.isa)
    return "GPU on ARM" if isa is not None and isa.platform.startswith("aarch64") else "GPU on x86"


def copies(root: Path, changes: Sequence[Change]) -> Iterator[Change]:
    """A copy beside each file of somebody else that is about to change, unless git holds it so."""
    for change in changes:
        path = change.old or change.path
        if not change.pending or change.owner in (None, "ours") or change.before is None:
            continue
        repo, _, inner = path.partition("/")
        if not git.is_committed(root / repo, inner):
            yield Change("create", _free_name(root, path), f"{path} as it was", after=change.before)


def _free_name(root: Path, path: str) -> str:
    """A name beside a file that no file has and no tool takes for a recipe."""
    for number in range(1, 1000):
        name = f"{path}.orig{'' if number == 1 else number}"
        if not (root / name).exists():
            return name
    raise TooLarge(f"too many copies beside {path}", exit=Exit.ENVIRONMENT)


def _how_to_adopt(path: str) -> str:
    return f"--adopt {path} replaces it" if path.endswith(".md") else "--adopt takes it over"


def _missing(file: WantedFile) -> Change:
    return Change("create", file.path, "it is missing", after=file.text, recipe=file.is_recipe)


def _what_changed(before: str, after: str) -> str:
    old, new = read_header(before), read_header(after)
    if old and new and old.facts.get("line") != new.facts.get("line"):
        return f"line {old.facts.get('line')} -> {new.facts.get('line')}"
    had, has = Counter(before.splitlines()), Counter(after.splitlines())
    return f"its text changes: +{(has - had).total()} -{(had - has).total()} lines"
