"""A small workspace for this machine's own CPU, and real Nix with a store that it can build in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.building.farm import LoopbackBuilder, loopback
from torchsmith.catalog import builtin_catalog
from torchsmith.cli.samples import HERE
from torchsmith.verbs.apply import ApplyRequest, apply

MINI = HERE / "nixpkgs"
ARM = os.uname().machine == "aarch64"
CELL = "python313-cuda13_0-sm121-armv8_2" if ARM else "python313-cuda13_0-sm90-avx2"
SM, ISA = CELL.split("-")[-2:]
TOML = f"""\
format = 1
packages = ["pytorch", "torchvision"]

[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["{SM}"]
isa = ["{ISA}"]
"""
# The miniature builds in two seconds and a few kilobytes.
SMALL = "\n".join(
    f"[{name}]\nunit_gb = 0.1\nlargest_gb = 0.1\nbuild_gb = 0.01\nstore_gb = 0.001\n"
    for name in (
        "pytorch-gpu",
        "pytorch-cpu",
        "torchvision-gpu",
        "magma",
        "triton",
        "nccl",
        "opencv",
        "other",
    )
)
# A store that lasts as long as its tests need not wait for the disk.
CONF = "sandbox = false\nbuild-users-group =\nsubstituters =\nfsync-metadata = false\n"


@dataclass(frozen=True)
class Place:
    """A generated workspace."""

    root: Path

    @property
    def torch(self) -> str:
        return f"pytorch-{CELL}"

    @property
    def vision(self) -> str:
        return f"torchvision-{CELL}"

    def recipe(self, name: str) -> Path:
        return self.root / f"build-{name.split('-')[0]}" / ".flox/pkgs" / f"{name}.nix"

    def words(self, *more: str) -> tuple[str, ...]:
        """Options that every verb needs here."""
        return (*more, "--workspace", str(self.root))


def nix_variables(folder: Path) -> dict[str, str]:
    """A private store, as the miniature's README says."""
    names = {"NIX_STORE_DIR": "store", "NIX_STATE_DIR": "var", "NIX_LOG_DIR": "log", "NIX_CONF_DIR": "conf"}
    return {name: str(folder / part) for name, part in names.items()}


@pytest.fixture(scope="session")
def _store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for the workers of all tests: what one of them has built is there for the others."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "nix"
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    mine = base / "nix.conf"
    mine.write_text(CONF)
    mine.rename(folder / "conf/nix.conf")  # whoever reads it sees the whole
    return folder


@pytest.fixture(scope="session")
def _pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pattern")
    (root / "torchsmith.toml").write_text(TOML)
    (root / "catalog").mkdir()
    (root / "catalog/estimates.toml").write_text(SMALL)
    apply(ApplyRequest(workspace=root))
    return root


@pytest.fixture
def place(_pattern: Path, tmp_path: Path) -> Place:
    """A workspace with a torch and its torchvision."""
    root = tmp_path / "workspace"
    shutil.copytree(_pattern, root, symlinks=True)
    return Place(root)


@pytest.fixture
def nix_here(_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every Nix of this test uses the store of all tests, the miniature nixpkgs, and downloads anew."""
    for name, value in nix_variables(_store).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nix-cache"))  # it names paths of other stores
    monkeypatch.setenv("TORCHSMITH_NIXPKGS", str(MINI))
    return _store


@pytest.fixture
def unbuilt(place: Place, nix_here: Path) -> None:
    """The workspace's torch is one that nobody has built; what it needs may be in the store of all tests."""
    for name in (place.torch, place.vision):
        recipe = place.recipe(name)
        text = recipe.read_text()
        recipe.write_text(
            text.replace("mkdir -p cmake/Modules", f": {place.root}\n    mkdir -p cmake/Modules")
        )
        assert recipe.read_text() != text


@pytest.fixture
def own_store(tmp_path: Path, nix_here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store for this test alone."""
    folder = tmp_path / "nix"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf/nix.conf").write_text(CONF)
    for name, value in nix_variables(folder).items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def farm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[dict[str, LoopbackBuilder]]:
    """Two builders that share a store, or with "own stores" have one each; the client builds nothing."""
    folder, client = tmp_path / "farm", tmp_path / "client"
    for place in (folder, client):
        (place / "conf").mkdir(parents=True)
        (place / "conf/nix.conf").write_text(CONF)
    remote = nix_variables(folder)
    here = nix_variables(client) | {"NIX_STORE_DIR": remote["NIX_STORE_DIR"]}
    root = f"{client}/root"
    here |= {"NIX_REMOTE": f"local?root={root}&real={root}{remote['NIX_STORE_DIR']}"}
    here |= {"NIX_SSHOPTS": f"-F {folder}/ssh_config"}
    here |= {"TORCHSMITH_CACHE": str(tmp_path / "cache"), "TORCHSMITH_NIXPKGS": str(MINI)}
    for name, value in here.items():
        monkeypatch.setenv(name, value)
    own_stores = getattr(request, "param", "") == "own stores"
    with loopback(folder, ("one", "two"), remote, own_stores=own_stores) as builders:
        yield builders


def use(place: Place, *names: str, extra: str = "") -> None:
    """Name builders in the workspace's file."""
    system = "aarch64-linux" if ARM else "x86_64-linux"
    tables = "".join(
        f'\n[[builder]]\naddress = "{name}"\nsystems = ["{system}"]\nmax_jobs = 4\n{extra}' for name in names
    )
    (place.root / "torchsmith.toml").write_text(TOML + tables)


def title(error: str) -> str:
    """What a diagnosis prints of a known error."""
    return builtin_catalog().errors[error].title
