"""Every file that a workspace should hold, as text: pure, from the matrix and the catalog alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import asdict

from torchsmith.catalog import TORCH, Package
from torchsmith.core.problem import Incomplete
from torchsmith.core.text import grouped
from torchsmith.matrix import Cell, Flavor
from torchsmith.matrix.cells import newest_pin
from torchsmith.recipe.header import owner_of, with_header
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import RecipeWriter
from torchsmith.workspace import readmes
from torchsmith.workspace.checkout import PKGS
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.settings import Settings

# What Flox writes there, with a slash in front: without, lib/ ignores the libraries of recipes in pkgs/lib.
GITIGNORE = "/run/\n/cache/\n/lib/\n/log/\n"
MANIFEST = """\
# A Flox environment that builds packages: every recipe below .flox/pkgs is one and needs no entry here.
version = 1
"""
TOOLKIT_REPO = "build-cudatoolkit"


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file by its path below the workspace. `cell` is set for recipes."""

    path: str
    text: str
    cell: str = ""

    @property
    def name(self) -> str:
        """The file's name without its ending: a recipe's package name."""
        return self.path.rpartition("/")[2].rpartition(".")[0]

    @property
    def is_recipe(self) -> bool:
        return PKGS in self.path and self.path.endswith(".nix")

    @property
    def is_page(self) -> bool:
        return self.path.endswith(".md")


@dataclass(frozen=True, slots=True)
class WantedRepo:
    """A folder that is a git repository and a Flox environment."""

    name: str
    files: tuple[WantedFile, ...]


def wanted_repos(workspace: Workspace) -> list[WantedRepo]:
    """The repositories of a workspace with all their files."""
    matrix, settings, catalog = workspace.matrix, workspace.settings, workspace.catalog
    writer = RecipeWriter(catalog, recipe_options(workspace))
    repos = []
    alignment = readmes.alignment(matrix, catalog)
    cells_of = grouped((cell.variant.package, cell) for cell in matrix.cells)
    by_package = {package: cells_of[package] for package in matrix.packages(catalog)}
    for packages in grouped((package.folder, package) for package in by_package).values():
        cells = {package: by_package[package] for package in packages}
        others = [other for other in by_package if other != packages[0]]
        repos.append(_package_repo(cells, others, alignment, settings, writer))
    if settings.cudatoolkit:
        repos.append(_toolkit_repo(settings, writer))
    return repos


def recipe_options(workspace: Workspace) -> RecipeOptions:
    """What the workspace decides about its recipes; raises a Problem if a nightly cell lacks its source."""
    settings, nightly = workspace.settings, workspace.settings.nightly
    named = {TORCH: nightly.pytorch, "torchvision": nightly.torchvision} if nightly else {}
    sources = {package: asdict(source) for package, source in named.items() if source}
    for cell in workspace.matrix.cells:
        if cell.variant.flavor and cell.variant.package.name not in sources:
            hint = f"give [nightly.{cell.variant.package}] with rev and version in torchsmith.toml"
            raise Incomplete(f"{cell.name} needs the revision of its source", hint=hint)
        wrapped = cell.variant.flavor is Flavor.NIGHTLY_WRAPPER
        if wrapped and nightly and not nightly.self_contained and nightly.cudatoolkit is None:
            hint = "give [nightly.cudatoolkit] with owner and rev, or set nightly.self_contained = true"
            raise Incomplete(f"{cell.name} needs to know where build-cudatoolkit is published", hint=hint)
    toolkit = nightly.cudatoolkit if nightly and not nightly.self_contained else None
    return RecipeOptions(
        max_jobs=settings.max_jobs,
        nightly=sources,
        toolkit=asdict(toolkit) if toolkit else None,
        ccache=settings.ccache,
        narrow=settings.narrow == "all",
    )


def _toolkit_repo(settings: Settings, writer: RecipeWriter) -> WantedRepo:
    recipes = list(_cuda_packages(TOOLKIT_REPO, settings, writer))
    names = [file.name for file in recipes]
    texts = {
        "default.nix": writer.default_nix(names),
        "README.md": readmes.toolkit_readme(names, settings, writer.catalog),
    }
    files = [WantedFile(f"{TOOLKIT_REPO}/{path}", text) for path, text in texts.items()]
    return WantedRepo(TOOLKIT_REPO, (*recipes, *flox_files(TOOLKIT_REPO), *files))


def _cuda_packages(repo: str, settings: Settings, writer: RecipeWriter) -> Iterator[WantedFile]:
    for cuda in settings.cudatoolkit:
        pin = newest_pin(writer.catalog, cuda)
        assert pin is not None, "checked when the settings were read"
        for package in writer.catalog.cuda_packages.values():
            name = f"{package.name}-{cuda.slug}"
            yield WantedFile(f"{repo}/{PKGS}/{name}.nix", writer.cuda_package(package, cuda, pin))


def _package_repo(
    by_package: Mapping[Package, Sequence[Cell]],
    companions: Sequence[Package],
    alignment: str,
    settings: Settings,
    writer: RecipeWriter,
) -> WantedRepo:
    """The repository of one package, or of several; the environments are for the first."""
    package, catalog = next(iter(by_package)), writer.catalog
    name, cells = package.folder, [cell for own in by_package.values() for cell in own]
    files = [WantedFile(f"{name}/{PKGS}/{cell.name}.nix", writer.recipe(cell), cell.name) for cell in cells]
    files += flox_files(name)
    if package.is_torch and settings.nightly and settings.nightly.self_contained:
        files += _cuda_packages(name, settings, writer)
    with_inputs = [cell for cell in cells if writer.takes_inputs(cell)]
    names = {cell.name for cell in with_inputs}
    pinned = [file.name for file in files if file.is_recipe and file.name not in names]
    texts = {
        "default.nix": writer.default_nix(pinned, with_inputs, package, companions),
        "README.md": readmes.readme(by_package, catalog),
        "BUILD_MATRIX.md": readmes.build_matrix(cells, catalog),
        "ALIGNMENT.md": alignment,
    }
    for one, own in by_package.items():
        texts |= readmes.build_notes(one, own, catalog)
    files += [WantedFile(f"{name}/{path}", text) for path, text in texts.items()]
    return WantedRepo(name, tuple(files))


def wrote(repo: str, inner: str, text: str) -> bool:
    """Whether torchsmith wrote a file of a repository as it is now."""
    return owner_of(text) == "ours" or WantedFile(f"{repo}/{inner}", text) in flox_files(repo)


def flox_files(repo: str) -> list[WantedFile]:
    """What makes a folder a Flox environment; env.json can carry no header."""
    env = json.dumps({"name": repo, "version": 1}, indent=2) + "\n"
    return [
        WantedFile(f"{repo}/.flox/env/manifest.toml", with_header(MANIFEST, "file=manifest.toml", ".toml")),
        WantedFile(f"{repo}/.flox/env.json", env),
        WantedFile(f"{repo}/.flox/.gitignore", with_header(GITIGNORE, "file=.gitignore", ".gitignore")),
    ]
