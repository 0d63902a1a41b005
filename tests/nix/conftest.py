"""Real Nix with a store of its own, and small recipes to evaluate against the miniature nixpkgs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from torchsmith.cli.samples import HERE
from torchsmith.nix.evaluate import EvalResult, EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.tool import Nix, find_nix
from torchsmith.recipe.read.closed import Open

MINI = HERE / "nixpkgs"
PIN = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz"


@pytest.fixture(scope="session")
def nix(tmp_path_factory: pytest.TempPathFactory) -> Nix:
    """The installed Nix with an empty store that has the usual paths."""
    home = tmp_path_factory.mktemp("home")
    store = f"local?root={tmp_path_factory.mktemp('store')}"
    return replace(find_nix(), store=store, env={"HOME": str(home)})


@pytest.fixture(scope="session")
def building_nix(tmp_path_factory: pytest.TempPathFactory) -> Nix:
    """The installed Nix with a store that it can build in, as root or not, without a sandbox."""
    root = tmp_path_factory.mktemp("built")
    names = {"NIX_STORE_DIR": "store", "NIX_STATE_DIR": "var", "NIX_LOG_DIR": "log", "NIX_CONF_DIR": "conf"}
    env = {name: str(root / folder) for name, folder in names.items()} | {"HOME": str(root)}
    (root / "conf").mkdir()
    settings = ("sandbox = false", "build-users-group =", "substitute = false", "fsync-metadata = false")
    (root / "conf/nix.conf").write_text("\n".join(settings) + "\n")
    return replace(find_nix(), store="", env=env)


Write = Callable[..., list[EvaluationRequest]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write recipes, given as name=text, and make requests of them."""

    def written(**recipes: str) -> list[EvaluationRequest]:
        folder = tmp_path / "workspace"
        folder.mkdir(exist_ok=True)
        (folder / "torchsmith.toml").touch()
        found = []
        for name, text in recipes.items():
            file = folder / f"{name}.nix"
            file.write_text(text)
            found.append(EvaluationRequest(name, file))
        return found

    return written


Ask = Callable[..., dict[str, EvalResult]]


def apart(requests: Sequence[EvaluationRequest], nix: Nix, tree: Path = MINI) -> list[EvalResult]:
    """Each recipe evaluated unchanged, in a process of its own."""

    def unchanged(*_: object, **__: object) -> str:
        raise Open("left as it is")

    options = EvaluationOptions(trees={"default": tree})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchsmith.nix.prepare._Work.prepared", unchanged)
        return [result for request in requests for result in evaluate([request], nix, options)]


@pytest.fixture
def ask(nix: Nix) -> Ask:
    """Evaluate requests against the miniature nixpkgs; results by name."""

    def asked(requests: list[EvaluationRequest], **options: object) -> dict[str, EvalResult]:
        trees = options.pop("trees", {"default": MINI})
        found = evaluate(requests, nix, EvaluationOptions(trees=trees, **options))  # type: ignore[arg-type]
        return {result.name: result for result in found}

    return asked


def torch_recipe(body: str = "pkgs.python3Packages.torch", more: str = "") -> str:
    """A small recipe that imports the pin."""
    return f'let pkgs = import (fetchTarball "{PIN}") {{ system = "x86_64-linux"; {more} }};\nin {body}\n'


def native_system() -> str:
    return f"{os.uname().machine}-linux"
