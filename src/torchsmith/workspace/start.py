"""The first torchsmith.toml of a new workspace: for a profile, for single cells, or from existing recipes:
which cells they are, of which release, and which could not be read."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchsmith.catalog import Catalog, CudaVersion, builtin_catalog, load_catalog
from torchsmith.catalog.check import Contradiction
from torchsmith.catalog.gpu_names import gpu_by_name
from torchsmith.catalog.names import find_cpu_by_name
from torchsmith.catalog.suggest import unknown_gpu
from torchsmith.core.files import check_own, text_or_none, write_atomic
from torchsmith.core.problem import (
    CannotBuild,
    Conflict,
    Empty,
    Exists,
    Invalid,
    NotFound,
    NotKnown,
    Problem,
    did_you_mean,
)
from torchsmith.core.text import grouped, listed
from torchsmith.core.toml_edit import table_text
from torchsmith.matrix import Accepted, Cell, Variant, assess, package_name
from torchsmith.matrix.cells import why_not_generated, why_unbuilt
from torchsmith.matrix.describe import describe
from torchsmith.matrix.text import matrix_text, products_of
from torchsmith.recipe.read import read_recipe
from torchsmith.recipe.template import TemplateValues, render, template
from torchsmith.workspace.change import Change
from torchsmith.workspace.checkout import (
    A_LINK,
    PKGS,
    RecipeFile,
    Repository,
    UnusedRecipe,
    discover,
    libraries,
)
from torchsmith.workspace.load import (
    DEFAULT,
    FILE,
    SettingsFile,
    default_profiles,
    open_workspace,
    parse_settings,
)
from torchsmith.workspace.reconcile import NIXPKGS, copies
from torchsmith.workspace.release import stated_release
from torchsmith.workspace.settings import schema
from torchsmith.workspace.write import forget_written

SCHEMA = "torchsmith.schema.json"  # beside torchsmith.toml
SCHEMA_LINE = f"#:schema ./{SCHEMA}\n"  # what editors look for
LineCuda = tuple[str, CudaVersion | None]  # a line, and one of its CUDA releases or none
MAX_REASONS = 3  # in the message if nothing could be taken over


def started_text(profile: str, *, cells: Sequence[str] = (), gpus: Sequence[str] = ()) -> str:
    """A torchsmith.toml for a profile, for single cells or for GPUs. Raises NotKnown for an unknown profile
    or GPU, CannotBuild for a GPU without builds."""
    known = default_profiles()
    if profile not in known:
        raise NotKnown(f"unknown profile {profile!r}", hint=did_you_mean(profile, known))
    if cells:
        return matrix_text(_with_companions(cells), "Which PyTorch builds this workspace ships.")
    if gpus:
        title = f"# Which PyTorch builds this workspace ships: for {', '.join(gpus)}."
        return "\n".join([f"{title}\nformat = 1\n", *_blocks(_for_gpus(gpus))])
    values: TemplateValues = {
        "profile": profile,
        "profiles": [{"name": name, "about": own.about} for name, own in known.items() if name != profile],
        "cuda": any(cell.variant.cuda for cell in open_workspace(DEFAULT, profile).matrix.cells),
    }
    return render(template(FILE), values)


def sources_text(words: Sequence[str]) -> str:
    """The table [sources] of torchsmith.toml, from words such as nixpkgs=ADDRESS; empty without words."""
    sources = dict(word.partition("=")[::2] for word in words)
    for name in (name for name, address in sources.items() if not address):
        raise Invalid(
            f"--source {name} has no address", hint="such as nixpkgs=https://mirror.example.org/nixpkgs"
        )
    text = f"\n{table_text({'sources': sources})}" if sources else ""
    parse_settings(SettingsFile("--source", f"format = 1\n{text}"))
    return text


def require_new(file: Path, *, force: bool) -> None:
    """Raise Exists if there is a torchsmith.toml, unless `force`."""
    if file.exists() and not force:
        raise Exists(f"{file} exists already", hint="--force replaces it")


def write_workspace(file: Path, text: str) -> str:
    """Write torchsmith.toml and, beside it, the JSON Schema that its first line names for editors. Returns
    the name of the copy of a file that is replaced and not committed; empty: there is none."""
    folder, after, before = file.parent, SCHEMA_LINE + text, text_or_none(file)
    check_own(file.with_name(SCHEMA), '"title": "torchsmith.toml"')
    write_atomic(file.with_name(SCHEMA), json.dumps(schema(builtin_catalog()), indent=2) + "\n")
    copy = ""
    if before not in (None, after):
        for change in copies(folder, [Change("rewrite", FILE, before=before, after=after, owner="foreign")]):
            write_atomic(folder / change.path, change.after or "")
            copy = change.path
    forget_written(folder)
    write_atomic(file, after)  # last: init refuses a folder that has one
    return copy


def _with_companions(names: Sequence[str]) -> list[Cell]:
    """Each cell in every package that can have it; raises a Problem if it cannot be built at all."""
    catalog = builtin_catalog()
    cells_by_name: dict[str, Cell] = {}
    for name in names:
        cell = name.startswith("python")  # as align and default.nix name it, without a package
        variant = Variant.parse(f"{catalog.torch.name}-{name}" if cell else name, catalog)
        describe(variant, catalog)
        for package in catalog.packages.values():
            decision = assess(variant.of(package), catalog)
            if (package.default or package == variant.package) and isinstance(decision, Accepted):
                one = Cell(variant.of(package), decision.line.name)
                cells_by_name[one.name] = one
    return list(cells_by_name.values())


def _for_gpus(names: Sequence[str]) -> list[Cell]:
    """Every cell that has code for these GPUs, which are named by product or architecture, or as a Mac."""
    every = open_workspace(DEFAULT, "every")
    catalog = every.catalog
    cells: list[Cell] = []
    for name in names:
        product, cpu = gpu_by_name(name, catalog), find_cpu_by_name(name, catalog)
        if product is None and not (cpu and cpu.mac):
            raise unknown_gpu(name, catalog)
        if product and (why := why_unbuilt(product, catalog)):
            raise CannotBuild(f"{name} ({product.name}) has no builds: {why}")
        arch = product.name if product else "mps"
        found = [cell for cell in every.matrix.cells if cell.variant.arch == arch]
        if not found:
            raise CannotBuild(f"{name} ({arch}) has no builds")
        cells += found
    return list(dict.fromkeys(cells))


@dataclass(frozen=True, slots=True)
class Derived:
    """What recipes say a workspace is."""

    file: Path
    text: str
    recipes: int
    cells: tuple[Cell, ...]
    left_out: tuple[UnusedRecipe, ...]
    folders: dict[str, str] = field(default_factory=dict)  # of packages that are not where ours would be
    pins: Mapping[LineCuda, str] = field(default_factory=dict)  # if all recipes are at another nixpkgs


def derive_workspace(repos: Sequence[Path], line: str | None = None) -> Derived:
    """Read repositories; raises a Problem if they are not side by side, or hold nothing that can be read. The
    folder that has them, and is the workspace, may be named after them."""
    repos = [repo for repo in repos if repo.is_file() or repo.resolve() != repos[0].resolve().parent]
    for repo in (repo for repo in repos if PKGS in repo.resolve().as_posix()):
        raise Invalid(f"{repo} is a part of a repository", hint="name the folder that has .flox")
    checkout = discover(repos, search=True) if all(repo.exists() for repo in repos) else None
    repositories = [
        repo for repo in (checkout.repositories if checkout else ()) if repo.recipes or repo.links
    ]
    root = _root([repo.root for repo in repositories] or repos)
    catalog = load_catalog(root / "catalog")
    recipes = [
        recipe
        for repository, imported in ((one, libraries(one.recipes)) for one in repositories)
        for recipe in repository.recipes
        if recipe.path not in imported
    ]
    cells, left = _cells(recipes, catalog, line)
    links = [UnusedRecipe(package_name(link), link, A_LINK) for one in repositories for link in one.links]
    left += links
    if not cells:
        reasons = Counter(skipped.why for skipped in left).most_common(MAX_REASONS)
        raise Empty(
            f"no recipe in {', '.join(map(str, repos))} can be taken in",
            hint="; ".join(f"{count} of them: {why}" for why, count in reasons)
            or "a recipe is NAME.nix or NAME/default.nix below .flox/pkgs",
        )
    pins = _pins(recipes, cells, catalog, root / "catalog")
    if pins:
        # What can be is decided by the nixpkgs that the workspace will have, as every later verb does.
        catalog = load_catalog(root / "catalog", {"lines": lines_text(pins)})
        cells, left = _cells(recipes, catalog, line)
        left += links
    folders = _folders(repositories, catalog)
    ordered = tuple(sorted(cells.values(), key=lambda cell: cell.variant.sort_key))
    text = _text(ordered, repositories)
    return Derived(root / FILE, text, len(recipes), ordered, tuple(left), folders, pins)


def _cells(
    recipes: Sequence[RecipeFile], catalog: Catalog, line: str | None
) -> tuple[dict[str, Cell], list[UnusedRecipe]]:
    """The cells of recipes by name, and the recipes without one. `line` is for recipes that state no release,
    if their code shows none either, or one that lacks their cell; a companion takes its torch's."""
    cells: dict[str, Cell] = {}
    taken: dict[str, RecipeFile] = {}
    left: list[UnusedRecipe] = []
    lines: dict[str, str] = {}  # of torch, by what a companion has in common with it
    for recipe in sorted(recipes, key=_first):
        stack = recipe.variant.stack if recipe.variant else ""
        result = _cell(recipe, catalog, lines.get(stack, line))
        if isinstance(result, UnusedRecipe):
            left.append(result)
        elif (first := taken.setdefault(result.name, recipe)) is recipe:
            cells[result.name] = result
            lines |= {stack: result.line} if result.variant.package.is_torch else {}
        else:
            where = first.attr if first.repo == recipe.repo else first.path
            left.append(UnusedRecipe(recipe.attr, recipe.path, f"{where} is the same build"))
    return cells, left


def _first(recipe: RecipeFile) -> tuple[bool, bool]:
    """Torch before its companions, and of two names of a build the one that is kept."""
    return not (recipe.variant and recipe.variant.package.is_torch), not recipe.canonical


def write_derived(derived: Derived, *, more: str = "", force: bool = False) -> str:
    """Write the file with `more` at its end, and into the workspace's catalog the folders of packages and the
    nixpkgs of lines, if they are not as ours would be. Raises Exists for a file that exists, torchsmith.toml
    unless `force`. Returns the name of a copy, as `write_workspace` does."""
    require_new(derived.file, force=force)
    if derived.folders:
        own = derived.file.parent / "catalog/packages.toml"
        if own.exists():
            raise Exists(f"{own} exists already", hint="name the folders there: repo of each package")
        table = {name: {"repo": folder} for name, folder in derived.folders.items()}
        write_atomic(own, "# The folders of these packages.\n" + table_text(table))
    if derived.pins:
        write_atomic(derived.file.parent / "catalog/lines.toml", lines_text(derived.pins))
    return write_workspace(derived.file, derived.text + more)


def _root(repos: Sequence[Path]) -> Path:
    """The folder that has all repositories: a workspace's repositories are directly in it."""
    if missing := [repo for repo in repos if not repo.is_dir()]:
        hint = "the workspace is the folder that holds the repositories"
        raise NotFound(f"no such folder: {missing[0]}", hint=hint)
    parents = {repo.resolve().parent for repo in repos}
    if len(parents) > 1:
        raise Conflict(
            f"the repositories are in {len(parents)} folders: {', '.join(sorted(map(str, parents)))}",
            hint="a workspace holds its repositories side by side: move them together",
        )
    (parent,) = parents
    return Path(os.path.relpath(parent))


def _cell(recipe: RecipeFile, catalog: Catalog, line: str | None) -> Cell | UnusedRecipe:
    """What a recipe is a build of, by its release."""
    path = recipe.path
    if recipe.variant is None:
        return UnusedRecipe(
            recipe.attr, path, recipe.read.message if isinstance(recipe.read, Problem) else ""
        )
    variant = recipe.variant
    if variant.flavor:
        return UnusedRecipe(
            recipe.attr, path, "a nightly: its source belongs into [nightly] of torchsmith.toml"
        )
    if recipe.owner != "ours":
        try:
            read_recipe(recipe.path)
        except Problem as problem:
            at = f"line {problem.where.line}: " if problem.where and problem.where.line else ""
            why = f"{at}{problem.message}; fix it, then run init again with --force"
            return UnusedRecipe(recipe.attr, path, why)
    named = recipe.release or line
    decision = assess(variant, catalog, named)
    why = why_not_generated(variant, catalog, named)
    if why and stated_release(variant, catalog, recipe.text or "", None) is None:
        able = [one.name for one in catalog.releases if not why_not_generated(variant, catalog, one.name)]
        why += f"; --line {listed(able, 'or')} takes it in" if able else ""
        if line in able:
            decision = assess(variant, catalog, line)
    if not named:
        why = (
            why or "no torch release is stated: --line LINE, or a comment # torchsmith: line LINE in it, does"
        )
    elif isinstance(decision, Accepted):
        return Cell(variant, decision.line.name, decision.warnings)
    return UnusedRecipe(recipe.attr, path, why)


def _pins(
    recipes: Sequence[RecipeFile], cells: Mapping[str, Cell], catalog: Catalog, folder: Path
) -> dict[LineCuda, str]:
    """Nixpkgs that a line can have for a CUDA, as all of its recipes are at it."""
    read = ((recipe, cells.get(recipe.variant.name)) for recipe in recipes if recipe.variant)
    stated = grouped(
        ((cell.line, cell.variant.cuda), rev[1])
        for recipe, cell in read
        if cell and cell.variant.toolkit == cell.variant.cuda and (rev := NIXPKGS.search(recipe.text or ""))
    )
    by_rev = {pin.rev: name for name, pin in catalog.pins.items()}
    pins: dict[LineCuda, str] = {}
    for block, revs in stated.items():
        build, known = catalog.lines[block[0]].build_for(block[1]), by_rev.get(revs[0], "")
        other = known and len(set(revs)) == 1 and build and build.pin not in ("", known)
        if other and _serves(block, known, cells, folder):
            pins[block] = known
    return pins


def _serves(block: LineCuda, pin: str, cells: Mapping[str, Cell], folder: Path) -> bool:
    """Whether every cell of a block can be made at another nixpkgs, in a workspace without lines."""
    if (folder / "lines.toml").exists():
        return False
    try:
        catalog = load_catalog(folder, {"lines": lines_text({block: pin})})
    except Contradiction:
        return False
    own = (cell for cell in cells.values() if (cell.line, cell.variant.toolkit) == block)
    return all(isinstance(assess(cell.variant, catalog, cell.line), Accepted) for cell in own)


def block_title(block: LineCuda) -> str:
    """line 2.10 for CUDA 12.8"""
    line, cuda = block
    return f"line {line} for {f'CUDA {cuda}' if cuda else 'the CPU'}"


def lines_text(pins: Mapping[LineCuda, str]) -> str:
    """The nixpkgs of these lines as a catalog/lines.toml."""
    table: dict[str, dict[str, Any]] = {}
    for (line, cuda), pin in pins.items():
        builds = table.setdefault(line, {})
        if cuda:
            builds.setdefault("cuda", {})[str(cuda)] = {"pin": pin}
        else:
            builds["cpu"] = {"pin": pin}
    return "# The nixpkgs that recipes were at when they were taken in.\n" + table_text(table)


def _folders(repositories: Iterable[Repository], catalog: Catalog) -> dict[str, str]:
    """Packages whose recipes are in a folder of another name than ours would be; of several in one folder
    too, unless they are what another folder has most of."""
    home: dict[str, str] = {}
    found = {
        repository.root.resolve().name: Counter(
            recipe.variant.package.name for recipe in repository.recipes if recipe.variant
        )
        for repository in repositories
    }
    for name, counts in found.items():
        for package, _ in counts.most_common(1):
            if package in home:
                hint = "a workspace has one repository for each package: take one of them in"
                raise Conflict(f"{home[package]} and {name} both hold recipes of {package}", hint=hint)
            home[package] = name
    for name, counts in found.items():
        home = dict.fromkeys(counts, name) | home
    return {package: name for package, name in home.items() if catalog.packages[package].folder != name}


def _text(cells: Sequence[Cell], repositories: Sequence[Repository]) -> str:
    packages = ", ".join(dict.fromkeys(f'"{cell.variant.package.name}"' for cell in cells))
    repos = ", ".join(repository.root.resolve().name for repository in repositories)
    head = render(template("torchsmith-derived.toml"), {"repos": repos, "packages": packages})
    return "\n".join([head, *_blocks(cells)])


def _blocks(cells: Sequence[Cell]) -> list[str]:
    """The cells as blocks of torchsmith.toml; a block of all packages does not name them."""
    packages = tuple(dict.fromkeys(cell.variant.package.name for cell in cells))
    products = products_of(cells)
    return [
        replace(product, packages=() if product.packages == packages else product.packages).text()
        for product in products
    ]
