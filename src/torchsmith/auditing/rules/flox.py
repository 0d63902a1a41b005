"""Flox: environments that it rejects, and targets that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from torchsmith.auditing.repo import Repo
from torchsmith.auditing.rule import NOTE, WARNING, Defect, rule
from torchsmith.core.problem import Problem
from torchsmith.core.toml import read_table

SECTIONS = ("version", "install", "vars", "hook", "profile", "services", "include", "build", "options",
            "schema-version", "containerize", "minimum-cli-version")  # fmt: skip
SHARED = ("lib", "common", "shared", "helpers", "overlays", "pins")  # what people call shared code
BUILD_KEYS = ("command", "runtime-packages", "sandbox", "version", "description", "license")


@rule("TS951", "manifest that Flox rejects", over="file")
def manifest_is_valid(path: Path, text: str) -> Iterator[Defect]:
    """Flox refuses an environment whose manifest it cannot read: `version = 1`, known sections, and a
    `command` in every `[build.X]`. Recipes under .flox/pkgs need no entry at all."""
    if path.name != "manifest.toml" or ".flox" not in path.parts:
        return
    try:
        table = read_table(text, str(path))
    except Problem as problem:
        yield Defect(f"not TOML: {problem.message}")
        return
    if table.get("version") != 1 and "schema-version" not in table:
        yield Defect("version = 1 is missing")
    for name in table:
        if name not in SECTIONS:
            yield Defect(f"Flox has no section {name}")
    build = table.get("build", {})
    for name, entry in build.items() if isinstance(build, dict) else ():
        if not isinstance(entry, dict) or "command" not in entry:
            yield Defect(f"[build.{name}] has no command", hint="recipes under .flox/pkgs need no entry")
            continue
        for key in entry:
            if key not in BUILD_KEYS:
                yield Defect(f"[build.{name}] does not take {key}")


@rule("TS952", "env.json that Flox rejects", over="file")
def environment_is_valid(path: Path, text: str) -> Iterator[Defect]:
    """`.flox/env.json` holds the environment's name and `"version": 1`."""
    if path.name != "env.json" or path.parent.name != ".flox":
        return
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield Defect(f"not JSON: {error}")
        return
    if not isinstance(table, dict) or not isinstance(table.get("name"), str) or table.get("version") != 1:
        yield Defect('it needs a name and "version": 1')


@rule("TS953", "file that Flox treats as a package", WARNING, over="repo")
def every_target_is_a_package(repo: Repo) -> Iterator[Defect]:
    """Every .nix file under .flox/pkgs is a package for Flox; shared code lives outside of it."""
    for recipe in repo.recipes:
        if recipe.variant is None and recipe.name in SHARED:
            yield Defect(f"Flox offers {recipe.name} as a package", hint="move it to nix/", file=recipe.file)


@rule("TS954", "environment without a manifest", NOTE, over="repo")
def environment_is_whole(repo: Repo) -> Iterator[Defect]:
    """Flox builds recipes of an environment: .flox/env.json and .flox/env/manifest.toml."""
    root = repo.folder.root
    for name in (".flox/env.json", ".flox/env/manifest.toml") if (root / ".flox").is_dir() else ():
        if not (root / name).is_file():
            message = f"{name} is missing: flox build finds no environment here"
            yield Defect(message, file=repo.folder.label_of(root / name))
