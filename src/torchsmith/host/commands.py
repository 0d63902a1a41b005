"""The commands that bring a variant onto a machine: those that run here, as a person would type them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from torchsmith.core.text import shell_word
from torchsmith.matrix import Variant


class Environment(msgspec.Struct, frozen=True):
    """The tools of this machine, and the workspace."""

    nix: bool
    flox: bool
    folder: str | None = None  # the workspace as seen from here; None: there is none
    org: str = ""  # the Flox organisation that publishes
    spare: str = "mine"  # a folder for a new workspace

    def recipe(self, variant: Variant) -> Path:
        """The path of a generated recipe."""
        return Path(self.folder or self.spare, variant.package.folder, ".flox/pkgs", f"{variant.name}.nix")

    @property
    def where(self) -> str:
        """The option that names the workspace; none for that of this folder, and without one."""
        return "" if self.folder in (None, ".") else f" -w {shell_word(self.folder)}"

    def add_line(self, name: str) -> str:
        """The command that finds a nixpkgs for a torch release, in a new workspace if there is none."""
        if self.folder is None:
            return f"torchsmith init {self.spare} --line {name}"
        return f"torchsmith line add {name} --matrix{self.where}"


def detect_environment(root: Path | None, org: str) -> Environment:
    """Return the tools of this machine and the workspace of this folder."""
    folder = None if root is None else os.path.relpath(root)
    spares = ("mine", *(f"mine-{number}" for number in range(2, 1000)))
    spare = next(name for name in spares if not Path(name).exists())
    return Environment(bool(shutil.which("nix-build")), bool(shutil.which("flox")), folder, org, spare)


def build_commands(
    variants: Sequence[Variant], here: Environment, *, also: Iterable[str] = (), included: bool = True
) -> dict[str, str]:
    """How to build cells of a package together here, or only to write their recipes if nothing here builds.

    `also`: other packages of the cells. `included`: the workspace's matrix has the cells. Recipes that do not
    exist yet are written first.
    """
    own = " ".join(variant.name for variant in variants)
    names = (*own.split(), *also)
    recipes = [here.recipe(variant) for variant in variants]
    if here.folder is None or not included:
        where = f" -w {here.spare}"
        cells = " ".join(f"--cell {name}" for name in names)
        write = f"torchsmith init {here.spare} {cells} && torchsmith apply{where}"
    else:
        where = here.where
        write = "" if all(recipe.exists() for recipe in recipes) else f"torchsmith apply{where}"
    build = f"torchsmith build{where} {' '.join(names)}"
    flox = f"flox build -d {shell_word(str(recipes[0].parents[2]))} {own}"
    steps = {}
    if here.nix:
        steps["build"] = f"{write} && {build}" if write else build
        if not write:
            steps["missing"] = f"{build} --dry-run"
    elif here.flox:
        steps["build"] = f"{write} && {flox}" if write else flox
    elif write:
        steps["write"] = write
    return steps
