"""From TOML files to typed facts: layers laid over each other, read only when asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import torchsmith.catalog.facts as facts
from torchsmith.catalog.axes import Axis, BadValue, CudaVersion, DriverVersion, GpuTarget, PythonVersion, Sm
from torchsmith.catalog.package import TORCH, Entry, Package
from torchsmith.catalog.ranges import version_key
from torchsmith.core.files import read_text
from torchsmith.core.problem import Invalid, NotKnown, Problem, Where
from torchsmith.core.toml import read_cached, read_table

DATA = Path(__file__).parent / "data"
KINDS = (
    *("packages", "gpus", "isas", "features", "cpus", "cuda", "pythons", "pins", "lines", "fixes", "errors"),
    *("cudapackages", "workloads", "estimates", "actions", "wheels", "wheel_releases", "rehearsals"),
    *("retired", "gfx", "intel", "instances", "jetpacks", "caches", "backends", "systems"),
)
PROBED = "probed/pins.toml"  # the pins that Nix was asked about: tools.pins writes it
# What an entry is called by; else its name.
KEYS = {"gpus": "sm", "retired": "sm", "cuda": "version", "pythons": "version"}
_PARSED = (CudaVersion, DriverVersion, GpuTarget, PythonVersion, Sm)
E_ = TypeVar("E_", bound=Entry)
A_ = TypeVar("A_", bound=Axis)


class Layer(msgspec.Struct, frozen=True):
    """A set of catalog files by name, and what to call each in a message."""

    texts: Mapping[str, str]
    paths: Mapping[str, str] = {}
    shipped: Path | None = None  # instead: the folder of the facts that torchsmith ships, which are cached

    @classmethod
    def folder(cls, folder: Path) -> Layer:
        """The catalog files of a folder; a file that is not a part of a catalog is refused."""
        texts, paths = {}, {}
        for path in sorted(folder.glob("*.toml")):
            if path.stem not in KINDS:
                raise NotKnown(
                    f"{path.name} is not a catalog file",
                    hint="catalog files: " + ", ".join(f"{name}.toml" for name in KINDS),
                    where=Where(str(path)),
                )
            texts[path.stem] = read_text(path)
            paths[path.stem] = str(path)
        return cls(texts, paths)

    def path(self, file: str) -> str:
        return str(self.shipped / f"{file}.toml") if self.shipped else self.paths.get(file, f"{file}.toml")

    def text(self, file: str) -> str:
        return read_text(self.shipped / f"{file}.toml") if self.shipped else self.texts.get(file, "")


SHIPPED = Layer({}, shipped=DATA)


def _table(file: str, kind: type[E_]) -> cached_property[dict[str, E_]]:
    """The entries of a file by name, read when they are first asked for."""
    return cached_property(lambda catalog: catalog._rows(file, kind))


def _ordered(file: str, kind: type[E_], key: Callable[[E_], A_]) -> cached_property[dict[A_, E_]]:
    """The entries of a file by a value of theirs, in its order."""
    return cached_property(
        lambda catalog: {key(row): row for row in sorted(catalog._rows(file, kind).values(), key=key)}
    )


class Catalog:
    """All facts. Later layers add entries to earlier ones or change single fields of them."""

    actions = _table("actions", facts.Action)
    backends = _table("backends", facts.GpuBackend)
    caches = _table("caches", facts.BinaryCache)
    compilers = _table("compilers", facts.Compiler)
    cpus = _table("cpus", facts.Cpu)
    cuda_packages = _table("cudapackages", facts.CudaPackage)
    errors = _table("errors", facts.KnownError)
    estimates = _table("estimates", facts.Estimate)
    features = _table("features", facts.Feature)
    fixes = _table("fixes", facts.Fix)
    gfx = _table("gfx", facts.Gfx)
    instances = _table("instances", facts.Instance)
    intel = _table("intel", facts.IntelGpu)
    isas = _table("isas", facts.Isa)
    jetpacks = _table("jetpacks", facts.JetPack)
    pins = _table("pins", facts.Pin)
    rehearsals = _table("rehearsals", facts.Rehearsal)
    systems = _table("systems", facts.SystemRelease)
    wheels = _table("wheels", facts.WheelIndex)
    wheel_releases = _table("wheel_releases", facts.TorchRelease)
    workloads = _table("workloads", facts.Workload)
    retired = _ordered("retired", facts.RetiredGpu, lambda gpu: gpu.sm)
    gpus = _ordered("gpus", facts.Gpu, lambda gpu: gpu.sm)
    cuda = _ordered("cuda", facts.CudaToolkit, lambda toolkit: toolkit.version)
    pythons = _ordered("pythons", facts.Python, lambda python: python.version)

    def __init__(self, layers: Sequence[Layer], templates: Mapping[str, str] | None = None) -> None:
        self.layers = tuple(layers)
        self.templates = templates or {}  # of a workspace's own packages, by path
        self._needed: dict[tuple[str, ...], tuple[Package, ...]] = {}  # what packages need, by their needs

    def template_of(self, package: str) -> str:
        """The path of the template by which a package that nixpkgs lacks is written; empty: it has none."""
        return next((path for path in self.templates if Path(path).name == f"{package}.nix"), "")

    @cached_property
    def packages(self) -> dict[str, Package]:
        rows = self._rows("packages", Package)
        return {row.name: row for row in sorted(rows.values(), key=lambda row: row.order)}

    @cached_property
    def published_wheels(self) -> dict[str, facts.Wheel]:
        """PyTorch's own wheels by name, the newest release first."""
        rows = (
            facts.Wheel(index=index, release=self.wheel_releases[torch])
            for index in self.wheels.values()
            for torch in {**index.read, **dict.fromkeys(index.releases)}
            if torch in self.wheel_releases
        )
        newest = sorted(rows, key=lambda wheel: version_key(wheel.torch), reverse=True)
        return {wheel.name: wheel for wheel in newest}

    @property
    def torch(self) -> Package:
        """The package that is torch itself."""
        return self.packages[TORCH]

    @cached_property
    def releases(self) -> list[facts.Line]:
        """The lines of torch releases, the newest first; nightlies are not among them."""
        lines = (line for line in self.lines.values() if line.torch and not line.flavor)
        return sorted(lines, key=lambda line: version_key(line.torch), reverse=True)

    def parts_on(self, gpu: facts.Gpu, parts: Iterable[str], *systems: str) -> tuple[str, ...]:
        """Those of a GPU's parts that machines of these systems have: some sit beside an ARM CPU only."""
        elsewhere = {part for part, cpu in gpu.superchips.items() if self.cpus[cpu].platform not in systems}
        return tuple(part for part in parts if part not in elsewhere)

    def title_on(self, gpu: facts.Gpu, *systems: str) -> str:
        """A GPU's products on these systems, in a few words."""
        if not gpu.superchips:
            return gpu.title
        return ", ".join(self.parts_on(gpu, gpu.title.split(", "), *systems))

    def archs_of(self, backend: facts.GpuBackend) -> Mapping[str, facts.Gfx | facts.Arch]:
        """The architectures of a backend other than CUDA."""
        own = {name: arch for name, arch in self.gfx.items() if re.fullmatch(backend.arch, name)}
        return own | dict(backend.archs)

    def release_of(self, package: Package, line: facts.Line, build: facts.LineBuild) -> str:
        """A package's release in a line: what the line says, or its pin has; empty if neither is known."""
        pin = self.pins.get(build.pin)
        return line.version_of(package.name) or (pin.versions.get(package.name, "") if pin else "")

    def unknown_hashes(self, line: facts.Line, build: facts.LineBuild) -> list[str]:
        """Packages whose source a build fetches by a hash that is not known yet; torch first."""
        pin = self.pins.get(build.pin)
        if build.style != "pinned" or pin is None:
            return []
        fetched = [package.name for package in self.packages.values() if self.fetches(package, line, build)]
        return [name for name in fetched if not line.hashes.get(name)]

    def fetches(self, package: Package, line: facts.Line, build: facts.LineBuild) -> bool:
        """Whether a recipe brings the line's source of a package: its nixpkgs has another release."""
        pin, version = self.pins.get(build.pin), line.version_of(package.name)
        if package.is_torch:
            return facts.SOURCE in build.fixes
        if pin is None or not version or package.upstream is None or not line.builds(package):
            return False
        return not self.template_of(package.name) and pin.versions.get(package.name, "") != version

    def below(self, package: Package) -> list[Package]:
        """A package and everything that it needs, each after its own needs."""
        if package.needs not in self._needed:
            packages: dict[str, Package] = {}
            for need in package.needs:
                packages |= {below.name: below for below in self.below(self.packages[need])}
            self._needed[package.needs] = tuple(packages.values())
        return [*self._needed[package.needs], package]

    def implied(self, features: Iterable[str]) -> frozenset[str]:
        """CPU features with all that the compiler switches on with them."""
        found, waiting = set[str](), [*features]
        while waiting:
            if (name := waiting.pop()) not in found:
                found.add(name)
                waiting += self.features[name].implies
        return frozenset(found)

    @cached_property
    def own(self) -> frozenset[tuple[str, str]]:
        """Entries that only a workspace has and that builds rest on, by file and name."""
        return frozenset(
            (file, name)
            for layer in self.layers[1:]
            for file in ("lines", "pins", "cuda", "gpus")
            for name in _tables(layer, file).keys() - _tables(self.layers[0], file).keys()
        )

    def stated(self, file: str) -> set[str]:
        """The names of entries that a workspace states, new ones or others; of a built-in catalog all."""
        return {name for layer in self.layers[1:] or self.layers for name in _tables(layer, file)}

    @cached_property
    def lines(self) -> dict[str, facts.Line]:
        """Release lines; what packages say of their own releases is part of them."""
        rows = self._rows("lines", facts.Line)
        for package in self.packages.values():
            tables = {"versions": package.versions, "hashes": package.hashes}
            for name, line in rows.items():
                for field, table in tables.items():
                    if name in table:
                        merged = {package.name: table[name], **getattr(line, field)}
                        rows[name] = msgspec.structs.replace(rows[name], **{field: merged})
        taken: set[tuple[str, str]] = set()
        for line in sorted(rows.values(), key=lambda line: version_key(line.torch)):
            own = {item for item in line.release.digits if item[0] != TORCH}
            if shared := taken & own:  # two lines must not have one name
                names = tuple(sorted(package for package, _ in shared))
                rows[line.name] = msgspec.structs.replace(line, torch_digits=names)
            taken |= own
        return rows

    def _rows(self, file: str, kind: type[E_]) -> dict[str, E_]:
        merged: dict[str, Any] = {}
        origin: dict[str, Layer] = {}
        for layer in self.layers:
            for name, entry in _tables(layer, file).items():
                merged[name] = merge(merged.get(name, {}), entry)
                origin[name] = layer
        key = KEYS.get(file, "name")
        if kind in (facts.Line, facts.Pin):
            merged = {name: self._with_versions(entry) for name, entry in merged.items()}
        return {name: _convert(entry, kind, key, name, origin[name], file) for name, entry in merged.items()}

    def pin_of(self, name: str, entry: dict[str, Any]) -> facts.Pin:
        """A table of facts as the pin that it would be."""
        return _convert(self._with_versions(entry), facts.Pin, "name", name, Layer({}), "pins")

    def _with_versions(self, entry: dict[str, Any]) -> dict[str, Any]:
        """A key that is a package's name says its release: torchvision = "0.25.0"."""
        named = {key: entry[key] for key in entry if key in self.packages}
        rest = {key: value for key, value in entry.items() if key not in named}
        return rest | {"versions": {**rest.get("versions", {}), **named}}

    def place(self, file: str, path: tuple[str | int, ...]) -> Where:
        """Where a value is, in the uppermost layer that has its entry."""
        from torchsmith.core.toml import place

        layers = [layer for layer in self.layers if path[0] in _tables(layer, file)]
        layer = (layers or self.layers)[-1]
        value: Any = _tables(layer, file)
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        added = ("add",) if isinstance(value, dict) and value.keys() == {"add"} else ()
        return place(layer.text(file), layer.path(file), (*path, *added))


def _tables(layer: Layer, file: str) -> dict[str, Any]:
    if layer.shipped is not None:
        probed = read_cached(layer.shipped / PROBED) if file == "pins" else {}
        return probed | read_cached(layer.shipped / f"{file}.toml")
    text = layer.texts.get(file)
    if text is None:
        return {}
    tables = read_table(text, layer.path(file))
    for name, entry in tables.items():
        if not isinstance(entry, dict):
            raise _problem_at(layer, file, (name,), f"{name} must be a table of facts")
    return tables


def merge(below: Any, above: Any) -> Any:
    """`above` laid over `below`: tables field by field, lists added to by `add`, all else replaced."""
    if isinstance(above, dict) and above.keys() == {"add"} and isinstance(above["add"], list):
        held = below if isinstance(below, list) else []
        return [*held, *(item for item in above["add"] if item not in held)]
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {name: merge(below.get(name), value) for name, value in above.items()}
    return above


def _convert(entry: Any, kind: type[E_], key: str, name: str, layer: Layer, file: str) -> E_:
    if key in entry:
        raise _problem_at(layer, file, (name, key), f"{key} is the entry's own name; leave it out")
    try:
        return msgspec.convert(entry | {key: name}, kind, dec_hook=decode)
    except (msgspec.ValidationError, BadValue) as error:
        from torchsmith.core.toml import validation_problem

        where = (layer.text(file), layer.path(file))
        inside = (name,)
        raise validation_problem(entry | {key: name}, kind, *where, decode=decode, inside=inside) from error


@cache  # the same few words are in hundreds of places
def _parsed(kind: Any, text: str) -> object:
    return kind.parse(text)


def decode(kind: type, value: object) -> object:
    """A value of an axis from its text."""
    if kind in _PARSED and isinstance(value, str):
        return _parsed(kind, value)
    raise BadValue(f"expected text, got {value!r}")


def _problem_at(layer: Layer, file: str, path: tuple[str | int, ...], message: str) -> Problem:
    from torchsmith.core.toml import place

    return Invalid(message, where=place(layer.text(file), layer.path(file), path))


@cache
def builtin_catalog() -> Catalog:
    """The catalog that torchsmith ships."""
    return Catalog([SHIPPED])
