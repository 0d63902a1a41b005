"""Reading: files that cannot be read or followed, and missing files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torchsmith.auditing.finding import Sure
from torchsmith.auditing.repo import Repo
from torchsmith.auditing.rule import MAX_CHARACTERS, NOTE, WARNING, Defect, rule
from torchsmith.core.problem import Problem
from torchsmith.matrix.variant import Variant, package_name, try_read
from torchsmith.recipe.read import Recipe
from torchsmith.recipe.read.fold import parsed_file
from torchsmith.workspace.checkout import A_LINK, PKGS, root_of
from torchsmith.workspace.subject import Subject


@rule("TS004", "file too large to be checked", WARNING, over="file")
def file_is_a_recipe(path: Path, text: str) -> Iterator[Defect]:
    """A file of more than a million characters is not checked; recipes have about ten thousand."""
    if len(text) > MAX_CHARACTERS:
        yield Defect(f"it has {len(text):,} characters: more than {MAX_CHARACTERS:,} are not checked")


@rule("TS001", "file that cannot be read", over="unread")
def file_is_nix(problem: Problem, sure: Sure | None) -> Iterator[Defect]:
    """A recipe that is not valid Nix cannot be built, and no other rule is checked. If Nix is installed,
    it decides about syntax that the parser here does not know."""
    yield Defect(problem.message, hint=problem.hint, sure=sure)


@rule("TS008", "link in the place of a recipe", WARNING, over="repo")
def recipes_are_files(repo: Repo) -> Iterator[Defect]:
    """Flox passes over links below `.flox/pkgs`: such a recipe is neither built nor listed. Here it is not
    checked either."""
    for link in repo.links:
        yield Defect(A_LINK, file=link)


LAZY = frozenset(["passthru", "tests", "checks", "meta"])  # attributes that no build of the package reads
ANYWHERE = ("/nix/store/", "/dev/", "/.")  # what begins so is not a file of one machine


@rule("TS006", "path that does not exist", anywhere=True)
def paths_lead_somewhere(subject: Subject) -> Iterator[Defect]:
    """A path in a recipe must be a file of its own repository: Flox evaluates a copy of the repository and
    nothing beside it. An absolute path (`/home/...`) works on one machine only. In
    what no build reads (`passthru.tests`, `meta`) this is a warning."""
    if subject.variant is None and not subject.flox:
        return
    for recipe in subject.recipe.files:
        # A file that asks whether another one exists can do without it.
        for path in recipe.paths if b"pathExists" not in recipe.syntax.data else ():
            if path.value.startswith("/"):
                if not path.value.startswith(ANYWHERE):
                    message = f"{path.value} is a file of one machine"
                    yield Defect(message, path.span, of=recipe, severity=WARNING)
            elif "$" not in path.value and recipe.path.is_file():
                wrong = _not_there(recipe, path.value)
                if wrong:
                    lazy = not LAZY.isdisjoint(recipe.owner_at(path.span).split("."))
                    yield Defect(wrong, path.span, of=recipe, severity=WARNING if lazy else None)


@rule("TS014", "function that is not followed", NOTE, unless=("generated",))
def called_functions_are_followed(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """A recipe may call a function of another file: `torch = import ./torch.nix { gpu = "9.0"; };`. What the
    function sets for this recipe is not checked by text. With `--eval`, the GPU targets of the derivation
    are."""
    followed = {recipe.path.resolve() for recipe in subject.recipe.files}
    for recipe in subject.recipe.files:
        for path in recipe.paths:
            file = recipe.path.parent / path.value
            called = recipe.is_argument(path.span, ("import", "callPackage")) and file.is_file()
            # A recipe that another one calls is checked by itself.
            if (
                called
                and file.resolve() not in followed
                and not try_read(package_name(file), subject.catalog)
            ):
                syntax = parsed_file(file)
                if syntax is not None and syntax.root.type == "function_expression":
                    message = f"{path.value} is a function: what it sets for this recipe was not checked"
                    yield Defect(message, path.span, of=recipe)


def lacks_import(subject: Subject) -> bool:
    """Whether a file that is imported is missing: what else the recipe lacks may be in there."""
    return any(
        recipe.is_argument(path.span, ("import", "callPackage")) and bool(_not_there(recipe, path.value))
        for recipe in subject.recipe.files
        for path in recipe.paths
        if recipe.path.is_file() and not path.value.startswith("/") and "$" not in path.value
    )


def _not_there(recipe: Recipe, path: str) -> str:
    root, target = root_of(recipe.path.absolute()), os.path.normpath(recipe.path.parent.absolute() / path)
    if (root / PKGS).is_dir() and not Path(target).is_relative_to(root):
        return f"{path} leaves the repository, and Flox builds a copy of it alone"
    return "" if os.path.exists(target) else f"there is no {path}"


@rule("TS007", "file that git does not track", over="repo")
def git_knows_what_is_used(repo: Repo) -> Iterator[Defect]:
    """Flox copies only files that git tracks. A file that a recipe reads but `.gitignore` excludes, such as
    `.flox/pkgs/lib/` by `.flox/.gitignore`, exists only for its author. A recipe that git ignores is not
    checked either, unless it is named."""
    users: dict[str, int] = {}
    for file, (_, facts) in repo.recipes.items():
        for path in facts.uses if repo.git.get(file) else ():
            users[path] = users.get(path, 0) + 1
    for path, count in users.items():
        if not repo.git.get(path):
            message = f"git does not track it, and {count} recipe{'s' * (count > 1)} that git tracks read it"
            yield Defect(message, hint=f"git add -f {path}", file=path)
    for path in repo.ignored:
        if path not in users:
            yield Defect("git ignores it: Flox does not see it", hint=f"git add -f {path}", file=path)
