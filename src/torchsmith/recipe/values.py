"""From a cell to the values that fill its template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.catalog import TORCH, Catalog, CudaPackage, CudaVersion, Gpu, Isa, Package, Pin
from torchsmith.catalog.package import GpuList
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK, RECORD
from torchsmith.core.problem import CannotBuild
from torchsmith.matrix import Accelerator, Cell, Flavor
from torchsmith.matrix.cells import toolkit_title
from torchsmith.recipe.template import Expression, Nested, TemplateValue

OLDEST_BY_DEFAULT = 75  # nixpkgs compiles for older GPUs only when they are named
PATCH_FACTS = ("name", "url", "hash", "rev")
SourceFacts = Mapping[str, str]  # what a template asks of a source: its rev, version, hash ...


@dataclass(frozen=True, slots=True)
class RecipeOptions:
    """What a workspace decides about its recipes beyond the matrix."""

    max_jobs: int = 32
    nightly: Mapping[str, SourceFacts] = field(default_factory=dict)  # the sources of packages
    toolkit: SourceFacts | None = None  # build-cudatoolkit; None: its recipes are beside the wrapper
    ccache: str = ""  # the folder of a compile cache that builds share; empty: none
    narrow: bool = True  # whether all that a GPU cell needs is compiled for its GPU alone


class CellFacts:
    """The catalog's entries that a cell refers to, and what they make of its template."""

    def __init__(self, cell: Cell, catalog: Catalog, options: RecipeOptions) -> None:
        variant = self.variant = cell.variant
        self.options, self.narrow = options, options.narrow
        self.line = catalog.lines[cell.line]
        build = self.line.build_for(variant.toolkit)
        if build is None:
            raise CannotBuild(f"{cell.name}: line {cell.line} is not built for {variant.target}")
        self.build, self.catalog = build, catalog
        self.isa = catalog.isas[variant.isa]
        self.gpu = catalog.gpus[variant.sm] if variant.sm else None
        self.pin = catalog.pins.get(build.pin)

    @property
    def common_key(self) -> tuple[object, ...]:
        """What decides `common_values`: cells with the same key have the same."""
        variant = self.variant
        target = variant.cuda or variant.target
        isa = self.isa.torch_off, self.isa.avx2_kernels
        return variant.stem, self.line.name, variant.python, target, self.narrowed, *isa

    @property
    def members(self) -> list[Package]:
        """The packages besides torch that the recipe builds or brings, each after what it needs."""
        return [package for package in self.catalog.below(self.variant.package) if not package.is_torch]

    @property
    def narrowed(self) -> bool:
        """Whether the import of nixpkgs names the cell's GPU: all below torch is then compiled for it alone.
        GPUs that nixpkgs leaves out by default have to be named; Jetson parts only may on their platform."""
        if self.gpu is None or self.build.style != "pinned":
            return False
        if self.gpu.tegra:
            return self.isa.platform in self.gpu.platforms
        return self.narrow or self.gpu.sm.number < OLDEST_BY_DEFAULT

    def own_values(self) -> dict[str, TemplateValue]:
        """What differs between cells that have the same common values."""
        values: dict[str, TemplateValue] = {
            "cell": self.variant.cell,
            "system": self.isa.platform,
            "cpuFlags": self.isa.flags,
            "isaTitle": self.isa.title,
            "cpuNeeds": cpu_requirement(self.isa),
        }
        if self.gpu is not None:
            values |= self.gpu_values(self.gpu)
        return values

    def gpu_values(self, gpu: Gpu) -> dict[str, TemplateValue]:
        """What the catalog says of the GPU; `driver` is the oldest that knows it and the CUDA release."""
        cuda = self.variant.cuda
        drivers = [gpu.min_driver] + ([self.catalog.cuda[cuda].min_driver] if cuda else [])
        return {
            "SM": f"SM{gpu.sm.number}",
            "smNumber": str(gpu.sm.number),
            "capability": gpu.sm.capability,
            "gpuTitle": f"NVIDIA {gpu.generation} (SM{gpu.sm.number})",
            "gpuParts": self.catalog.title_on(gpu, self.isa.platform),
            "driver": str(max(drivers)),
            "machines": machines_text(gpu, self.isa, self.catalog),
        }

    def common_values(self) -> dict[str, TemplateValue]:
        """What all cells of a package, line, Python and CUDA have in common."""
        variant, line, pin = self.variant, self.line, self.pin
        package, members = variant.package, self.members
        stacked = package.needs_torch and (package.torch_by == "set" or len(members) > 1)
        values: dict[str, TemplateValue] = self.package_values(package) | {
            "torchStem": variant.of(self.catalog.torch).stem,
            "torch": line.torch,
            "prefix": line.prefix,
            "line": line.name,
            "python": str(variant.python),
            "pythonPackages": self._python_packages(),
            "maxJobs": str(self.options.max_jobs),
            "ccache": self.options.ccache,
            "torchHash": line.hashes.get("pytorch", ""),
            "torchOff": self.isa.torch_off,
            "avx2Kernels": self.isa.avx2_kernels,
            "narrowed": self.narrowed,
            "noPtx": self.narrowed and self.narrow,
            "otherGpus": (
                "no other architecture"
                if self.narrowed
                else "its own kernels for no other architecture, libraries of nixpkgs below it for more"
            ),
            "opencvFix": any("opencv-cuda13" in self._fixes(member) for member in members),
            "core": package.core,
        }
        if stacked:
            values["stack"] = [
                self.package_values(member)
                | {"base": self.base_of(member, "pprev"), "end": ";", "bundled": member != package}
                for member in members
            ]
        values |= self.backend_values()
        if pin is not None:
            values |= {"pin.name": pin.name, "pin.rev": pin.rev, "pin.sha256": pin.sha256}
        if variant.cuda is not None:
            values["cuda"] = str(variant.cuda)
            toolkit = self.catalog.cuda[variant.cuda]
            values["cudaSet"] = self.build.cuda_set or toolkit.attr
            values["nvccFlags"] = "".join(f" {flag}" for flag in toolkit.nvcc_flags)
            forms = {way.form for member in members for way in member.gpu_lists}
            with_torch = values["torchOnGpu"] = package.is_torch or package.needs_torch
            values["gpuDotted"] = with_torch or "9.0" in forms
            values["gpuNumbered"] = bool(forms - {"9.0"})
        for fix in self.build.fixes:
            for name, patch in self.catalog.fixes[fix].patches.items():
                values |= {f"patch.{name}.{fact}": getattr(patch, fact) for fact in PATCH_FACTS}
        if self.build.style == "nightly":
            values |= self.nightly_values()
        return values

    def backend_values(self) -> dict[str, TemplateValue]:
        """What a backend says of the target."""
        target = self.variant.target
        records = self.catalog.backends[self.variant.backend].compiler == "gcc"
        values: dict[str, TemplateValue] = {
            "recordFlag": RECORD if records else "",
            "cxxMark": CXX_MARK,
            "hostMark": HOST_MARK if records and self.variant.cuda else "",
            "target": str(target),
            "toolkit": toolkit_title(self.variant, self.catalog),
            "impliesIsa": self.variant.implies_isa,
            "anyCpu": not self.isa.features,
        }
        if not isinstance(target, Accelerator):
            return values
        backend = self.catalog.backends[target.version.backend]
        gpu = self.catalog.archs_of(backend)[target.arch]
        wide = f"; nixpkgs keeps more of them in {', '.join(backend.wide)}" if backend.wide else ""
        groups = f" and a user in the groups {' and '.join(backend.groups)}" if backend.groups else ""
        return values | {
            "accelerator": True,
            "backend": backend.title,
            "backendRelease": str(target.version),
            "backendConfig": list(backend.config),
            "packageSet": backend.package_set,
            "releaseOf": backend.release_of,
            "arch": target.arch,
            "gpuTitle": " ".join(filter(None, (backend.vendor, gpu.generation, f"({target.arch})"))),
            "gpuParts": gpu.title,
            "driver": f"{backend.driver}{groups}",
            "otherGpus": "torch for no other architecture" + wide if backend.package_set else "any of them",
        }

    def nightly_values(self) -> dict[str, TemplateValue]:
        """What the nightly's recipes need besides: revisions, and the CUDA package sets by name."""
        variant, toolkit, nightly = self.variant, self.options.toolkit, self.options.nightly
        sources = {"nightly": nightly[TORCH], "companion": nightly[variant.package.name]}
        sources |= {"toolkit": toolkit} if toolkit else {}
        assert variant.cuda is not None, "the nightly has no CPU-only build"
        assert self.gpu is not None
        return {
            **{f"{source}.{name}": value for source, own in sources.items() for name, value in own.items()},
            "stability": self.build.stability,
            "cudaMajorSet": f"cudaPackages_{variant.cuda.major}",
            "cuda.slug": variant.cuda.slug,
            "capabilityPattern": self.gpu.sm.capability.replace(".", r"\."),
            "nightlyCell": variant.changed(flavor=Flavor.NIGHTLY).cell,
            "selfContained": toolkit is None,
        }

    def package_values(self, package: Package) -> dict[str, TemplateValue]:
        """What a package itself says: its recipe's own, or one that the recipe brings."""
        line, upstream = self.line, package.upstream
        version = line.version_of(package.name)
        fixes = self._fixes(package)
        lists = package.gpu_lists if self.variant.cuda else ()
        gpu_lists: dict[str, list[dict[str, TemplateValue]]] = {"argument": [], "variable": [], "cmake": []}
        for gpu_list in lists:
            gpu_lists[gpu_list.by].append(_gpu_list_values(gpu_list))
        target = self.variant.target
        backend = self.catalog.backends[self.variant.backend]
        if isinstance(target, Accelerator) and backend.variable:
            gpu_lists["variable"] = [{"gpuName": backend.variable, "gpuTarget": target.arch, "gpuTail": ""}]
        torch_argument = package.torch_by == "argument" and package.needs_torch
        values: dict[str, TemplateValue] = {
            "base": self.base_of(package, f"pkgs.{self._python_packages()}"),
            "end": "",
            "stem": self.variant.of(package).stem,
            "label": package.title,
            "what": f"{package.title} {self.catalog.release_of(package, line, self.build)}".strip(),
            "attr": package.attr,
            "version": version,
            "lineVersion": bool(version),
            "fixes": fixes,
            "needsTorch": package.needs_torch,
            "torchArgument": torch_argument,
            "arguments": torch_argument or bool(gpu_lists["argument"]),
            "gpuArguments": gpu_lists["argument"],
            "gpuVariables": gpu_lists["variable"],
            "gpuFlags": gpu_lists["cmake"],
            "gpuFlagNames": "|".join(gpu_list.name for gpu_list in lists if gpu_list.by == "cmake"),
            "ownSource": not package.is_torch and self.catalog.fetches(package, line, self.build),
            "sameVersion": version == line.torch,
            "sourceOwner": upstream.owner if upstream else "",
            "sourceRepo": upstream.repo if upstream else "",
            "sourceTag": upstream.tag_of(version) if upstream else "",
            "sourceHash": line.hashes.get(package.name, ""),
            "submodules": upstream is not None and upstream.submodules,
            "ownFlags": package.cpu_flags,
        }
        if self.catalog.template_of(package.name) and not version:
            # A template that uses them gets an error: they are not known.
            unknown = ["version", "sourceTag", "sourceHash"]
            unknown += [] if upstream else ["sourceOwner", "sourceRepo"]
            values = {name: value for name, value in values.items() if name not in unknown}
        return values

    def _python_packages(self) -> str:
        if self.pin is not None and self.pin.default_python == self.variant.python:
            return "python3Packages"
        return self.catalog.pythons[self.variant.python].attr

    def base_of(self, package: Package, scope: str) -> TemplateValue:
        """The package that a recipe starts from, with the fixes that its template defines."""
        base = self.unfixed(package, scope)
        fixed = isinstance(base, str) and "opencv-cuda13" in self._fixes(package)
        return f"(withFfmpegForCuda13 {base})" if fixed else base

    def unfixed(self, package: Package, scope: str) -> TemplateValue:
        """nixpkgs' own package, or the one of the workspace's template: it needs nothing of a recipe's."""
        path = self.catalog.template_of(package.name)
        return self.own_template(path, scope) if path else f"{scope}.{package.attr}"

    def own_template(self, path: str, scope: str) -> Nested:
        """A template of the workspace's own, called as nixpkgs calls its packages."""
        call = "pfinal.callPackage" if scope == "pprev" else f"{scope}.callPackage"
        files = {Path(path).name: text for path, text in self.catalog.templates.items()}
        return Nested(path, f"({call} (", self.catalog.templates[path], ") { })", files)

    def _fixes(self, package: Package) -> list[str]:
        return [name for name in self.build.fixes if self.catalog.fixes[name].serves(package)]


def cuda_package_values(
    package: CudaPackage, cuda: CudaVersion, pin: Pin, catalog: Catalog
) -> dict[str, TemplateValue]:
    """The values of a package of build-cudatoolkit."""
    return {
        "name": f"{package.name}-{cuda.slug}",
        "attr": package.attr,
        "title": f"{package.title} for CUDA {cuda}",
        "about": package.about,
        "cuda": str(cuda),
        "cudaSet": catalog.cuda[cuda].attr,
        "pin.name": pin.name,
        "pin.rev": pin.rev,
        "pin.sha256": pin.sha256,
    }


def _gpu_list_values(gpu_list: GpuList) -> dict[str, TemplateValue]:
    """The name by which the GPU is passed to a build, and the spelling."""
    dotted = gpu_list.form == "9.0"
    target = Expression("gpuArchSM" if dotted else "gpuNumber")
    return {"gpuName": gpu_list.name, "gpuTarget": target, "gpuTail": "" if dotted else gpu_list.form[2:]}


def cpu_requirement(isa: Isa) -> str:
    """What a CPU must have, and the first that have it."""
    cpu = "x86-64" if isa.platform == "x86_64-linux" else "64-bit ARM"
    cpu += f" with {', '.join(sorted(isa.features))}" if isa.features else ""
    return f"{cpu} (first in {', '.join(isa.first_cpus)})"


def machines_text(gpu: Gpu, isa: Isa, catalog: Catalog) -> str:
    """Which machines a GPU and an instruction set meet in, or that none has both."""
    system = isa.platform.removesuffix("-linux")
    if isa.platform not in gpu.platforms:
        hosts = " and ".join(platform.removesuffix("-linux") for platform in gpu.platforms)
        return f"none; this GPU exists only on {hosts}"
    if gpu.cpus:
        titles = [catalog.cpus[name].title for name in gpu.cpus]
        able = any(isa.name in catalog.cpus[name].isas for name in gpu.cpus)
        return ("" if able else "none; this GPU comes only with ") + ", ".join(titles)
    return f"{system} with such a GPU"
