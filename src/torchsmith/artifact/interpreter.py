"""An interpreter for a built package: the outputs hold no Python of their own, so one is put together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchsmith.catalog import Catalog, Package
from torchsmith.core.files import read_text
from torchsmith.core.problem import Invalid, MissingRequirement, NotFound
from torchsmith.core.process import find, run

PROPAGATED = ("propagated-build-inputs", "propagated-user-env-packages")
MOST_INPUTS = 5000


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python and the folders it must look into."""

    python: Path
    folders: tuple[Path, ...]

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """The environment of the child: nothing of ours leaks in."""
        own = {name: value for name, value in inherited.items() if not name.startswith("PYTHON")}
        paths = {"PYTHONPATH": os.pathsep.join(map(str, self.folders))} if self.folders else {}
        return own | paths | {"PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def interpreter_for(path: Path, catalog: Catalog, named: Path | None = None) -> Interpreter:
    """The interpreter to test a package with. Raises NotFound, Invalid, MissingRequirement."""
    if not path.is_dir():
        link = f" is a link to {path.readlink()}, which does not exist" if path.is_symlink() else ""
        raise NotFound(
            f"{path} is not a folder" if path.exists() else f"{path}{link or ' does not exist'}",
            hint="give a result link, a store path, or a site-packages folder; install a wheel first",
        )
    roots = [path.resolve(), *propagated(path)]
    folders = tuple(folder for root in roots for folder in site_folders(root, catalog))
    if not folders:
        raise Invalid(f"{path} holds no Python package", hint="expected lib/python3.*/site-packages below it")
    if named is not None:
        python = find(str(named)) or named
        if not os.access(python, os.X_OK):
            raise Invalid(f"{named} is not a program that can be run")
        return Interpreter(python, folders)
    return Interpreter(_python(roots, folders), folders)


def propagated(path: Path) -> list[Path]:
    """The inputs that a Nix package propagates, and theirs; each once."""
    inputs: dict[Path, None] = {}
    waiting = [path.resolve(), *_environment(path.resolve()), *_outputs(path)]
    while waiting and len(inputs) < MOST_INPUTS:
        root = waiting.pop(0)
        for name in PROPAGATED:
            file = root / "nix-support" / name
            if not file.is_file():
                continue
            for word in read_text(file).split():
                place = Path(word)
                same_store = place.parent == root.parent
                if same_store and place not in inputs and place.is_dir():
                    inputs[place] = None
                    waiting.append(place)
    return list(inputs)


def _outputs(path: Path) -> Iterator[Path]:
    """A build's other outputs: beside a result link, as result-dev and the like, or by the store's record."""
    link = os.path.abspath(path)
    beside = [place for name in ("dev", "lib", "out") if (place := Path(f"{link}-{name}")).is_dir()]
    yield from (place.resolve() for place in beside) if beside else _recorded(path.resolve())


def _recorded(path: Path) -> Iterator[Path]:
    """The outputs that exist of the derivation that a store path was built from, by Nix's record."""
    if path.parent != _store() or find("nix-store") is None:
        return
    deriver = run(["nix-store", "--query", "--deriver", path], timeout=30).stdout.strip()
    if deriver.endswith(".drv") and os.path.exists(deriver):
        listed = run(["nix-store", "--query", "--outputs", deriver], timeout=30).stdout.split()
        yield from (place for word in listed if (place := Path(word)).is_dir())


def site_folders(root: Path, catalog: Catalog) -> list[Path]:
    """The folders below a root that hold importable packages."""
    folders = sorted(root.glob("lib/python3.*/site-packages"))
    return folders or ([root] if _packages_in(root, catalog) else [])


def _python(roots: list[Path], folders: tuple[Path, ...]) -> Path:
    """An environment's own Python, a propagated one, or one of the same release on PATH.

    What Nix built never runs with another Python than its own: it was linked to another C library.
    """
    for place in (place for root in roots for place in (root, *_environment(root))):
        python = place / "bin" / "python3"
        if os.access(python, os.X_OK):
            return python
    # A folder further up does not count: a package may be inside of another environment.
    homes = [folder.parent.name for folder in folders if folder.name == "site-packages"]
    version = next((name for name in homes if name.startswith("python3.")), "")
    if _by_nix(roots[0]):
        raise MissingRequirement(
            f"no interpreter for it: {version or 'a Python'} is not among the inputs that it propagates",
            hint="a package of several outputs lists them in its dev output, looked for beside a result link"
            " as NAME-dev and by the store's record",
        )
    python_on_path = find(version or "python3")
    if python_on_path is None or (not version and not _can_load(python_on_path, folders)):
        wanted = version or "a Python of the release it was built for"
        raise MissingRequirement(f"no interpreter for it: {wanted} is neither among its inputs nor on PATH")
    return python_on_path


def _environment(root: Path) -> Iterator[Path]:
    """The environment around a site-packages folder; no other folder above an artifact belongs to it."""
    if root.name == "site-packages" and root.parent.name.startswith("python3."):
        yield root.parents[2]


def _by_nix(root: Path) -> bool:
    return root.is_relative_to(_store()) or any(
        (place / "nix-support").is_dir() for place in (root, *_environment(root))
    )


def _store() -> Path:
    return Path(os.environ.get("NIX_STORE_DIR", "/nix/store"))


def _can_load(python: Path, folders: tuple[Path, ...]) -> bool:
    """Whether an interpreter's extension suffix is that of the package's modules."""
    asked = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
    done = run([python, "-I", "-c", asked], timeout=30)
    suffix = done.stdout.strip()
    modules = [module for folder in folders for module in folder.glob("torch/_C*.so")]
    loads = (suffix, "_C.so", "_C.abi3.so")  # the last two are for any Python
    return not modules or any(module.name.endswith(loads) for module in modules)


def packages_at(folders: tuple[Path, ...], catalog: Catalog) -> list[Package]:
    """The packages of the first folder that holds any. Raises Invalid if none does."""
    for folder in folders:
        if packages := _packages_in(folder, catalog):
            return packages
    known = ", ".join(package.title for package in catalog.packages.values())
    raise Invalid(f"{', '.join(map(str, folders))} has no known package", hint=f"known: {known}")


def _packages_in(folder: Path, catalog: Catalog) -> list[Package]:
    return [
        package
        for package in catalog.packages.values()
        if any((folder / top / "__init__.py").is_file() for top in package.modules)
    ]
