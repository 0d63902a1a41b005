"""Whether a cell can be built and used: accepted, warned of, or rejected, always with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from torchsmith.catalog import Catalog, CudaVersion, Gpu, GpuTarget, Isa, Line, LineBuild, Package, Pin
from torchsmith.catalog.axes import BackendVersion
from torchsmith.catalog.facts import CLAIM, Arch, Gfx, GpuBackend, IntelGpu, RetiredGpu
from torchsmith.catalog.gpu_names import KnownGpu
from torchsmith.catalog.ranges import in_range, version_key
from torchsmith.catalog.runs import gpu_code_runs
from torchsmith.core.problem import by_name, did_you_mean
from torchsmith.core.text import listed
from torchsmith.matrix.variant import Accelerator, Cuda, Flavor, Variant

UNUSABLE = "no-machine"
MOST_NEIGHBOURS = 5  # cells that are proposed in place of another


class Reason(msgspec.Struct, frozen=True):
    """Why a cell is rejected or warned of: a stable code, a sentence, and what to do."""

    code: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        return self.text + (f" ({self.hint})" if self.hint else "")


class Accepted(msgspec.Struct, frozen=True):
    """The cell can be built by this line. A warning may say that no machine can use it, or that it is not
    proved."""

    line: Line
    warnings: tuple[Reason, ...] = ()

    def buildable(self, variant: Variant) -> bool:
        """Whether a nixpkgs here has it; of older CUDA releases only a catalog of Flox may."""
        build = self.line.build_for(variant.toolkit)
        return build is not None and build.style != "flox"

    @property
    def usable(self) -> bool:
        return all(warning.code != UNUSABLE for warning in self.warnings)


class Rejected(msgspec.Struct, frozen=True):
    """The cell cannot be built, and why."""

    reasons: tuple[Reason, ...]


Decision = Accepted | Rejected


def assess(variant: Variant, catalog: Catalog, line: str | None = None) -> Decision:
    """Decide about one cell: for the line that its name states, a line, or the newest that has its CUDA."""
    isa = catalog.isas.get(variant.isa)
    if isa is None:
        return Rejected(tuple(_unknown(variant, catalog)))
    cell = (variant.package, variant.python, variant.target, variant.flavor, variant.release)
    known = _decisions(catalog)
    decision = known.get((*cell, isa.platform, line))
    if decision is None:
        decision = known[*cell, isa.platform, line] = _decide(variant, catalog, line)
    if isinstance(decision, Rejected) or not isinstance(variant.target, Cuda):
        return decision
    unusable = tuple(no_machine(catalog.gpus[variant.target.sm], isa, catalog))
    return Accepted(decision.line, unusable + decision.warnings) if unusable else decision


@lru_cache(8)
def _decisions(catalog: Catalog) -> dict[tuple[object, ...], Decision]:
    """What was decided: cells that differ in their instruction set alone have nearly all in common."""
    return {}


def why_not_generated(variant: Variant, catalog: Catalog, line: str | None = None) -> str:
    """Why torchsmith cannot generate a cell, of its line if that is known; empty if it can. Every verb
    gives this reason."""
    decision = assess(variant, catalog, line if line in catalog.lines else None)
    if isinstance(decision, Accepted):
        return ""
    return f"torchsmith cannot generate it: {'; '.join(map(str, decision.reasons))}"


def claim(variant: Variant, catalog: Catalog, line: Line, build: LineBuild) -> str:
    """What is not proved of a build: what its line states, or that only a workspace has its facts."""
    of = {"lines": line.name, "pins": build.pin, "cuda": str(variant.cuda), "gpus": str(variant.sm)}
    if build.unproved or not catalog.own or catalog.own.isdisjoint(of.items()):
        return build.unproved
    pin = catalog.pins.get(build.pin)
    return CLAIM if pin is None or pin.probed else f"what nixpkgs {pin.name} has is not known; {CLAIM}"


def _decide(variant: Variant, catalog: Catalog, line: str | None) -> Decision:
    """The decision as far as it is the same for all instruction sets of a platform."""
    unknown = tuple(_unknown(variant, catalog))
    if unknown:
        return Rejected(unknown)
    reasons = [*_toolkit(variant, catalog)]
    chosen = _line(variant, catalog, line)
    stack = catalog.below(catalog.packages.get(variant.package.name, variant.package))
    for package in stack:
        reasons.extend(_package(package, variant, chosen, catalog))
    if chosen is None:
        what = toolkit_title(variant, catalog) or "the CPU alone"
        kind = "nightly" if variant.flavor else "torch release"
        reasons.append(Reason("no-line", f"no {kind} here is built for {what}"))
        return Rejected(tuple(reasons))
    reasons.extend(_line_fits(variant, chosen, catalog))
    build = chosen.build_for(variant.toolkit)
    if build is None:
        reasons.append(_no_build(chosen, variant, catalog))
    elif build.lacks_pin:
        reasons.append(_no_pin(chosen, variant, catalog))
    else:
        reasons.extend(_pin(variant, catalog, chosen, build))
    if reasons or build is None:
        return Rejected(tuple(reasons))
    unproved = [Reason("unproved", message)] if (message := claim(variant, catalog, chosen, build)) else []
    for package in stack:
        unproved.extend(_torch_fits(package, catalog, chosen, build))
    return Accepted(chosen, tuple(unproved))


def find_line(catalog: Catalog, name: str) -> Line:
    """A line by its name, or a Problem with the nearest one."""
    lines = sorted(catalog.lines.values(), key=lambda line: version_key(line.torch), reverse=True)
    return by_name("line", name, {line.name: line for line in lines})


@lru_cache(256)  # every cell of a block asks the same
def newest_line(
    catalog: Catalog, toolkit: CudaVersion | BackendVersion | None, flavor: str = ""
) -> Line | None:
    """The newest line of a flavor that can be built for a release of CUDA or another backend (None: for the
    CPU): of those that were evaluated for it and whose source hashes are known, else of all with a pin."""
    builds = {
        line.name: build
        for line in catalog.lines.values()
        if line.flavor == flavor and (build := line.build_for(toolkit)) and not build.lacks_pin
    }

    def rank(name: str) -> tuple[bool, bool, tuple[int, ...]]:
        known = not catalog.unknown_hashes(catalog.lines[name], builds[name])
        return known and not builds[name].unproved, known, version_key(catalog.lines[name].torch)

    return catalog.lines[max(builds, key=rank)] if builds else None


def newest_pin(catalog: Catalog, cuda: CudaVersion) -> Pin | None:
    """The pin of the newest release that is built for a CUDA release."""
    line = newest_line(catalog, cuda)
    build = line.build_for(cuda) if line else None
    return catalog.pins.get(build.pin) if build else None


def _line(variant: Variant, catalog: Catalog, name: str | None) -> Line | None:
    """The line that its name states or that was asked for, if of its flavor; else the newest."""
    flavor = "nightly" if variant.flavor else ""
    name = variant.release.line if variant.release else name
    requested = find_line(catalog, name) if name else None
    if requested is not None and requested.flavor == flavor:
        return requested
    return newest_line(catalog, variant.toolkit, flavor)


def toolkit_title(variant: Variant, catalog: Catalog) -> str:
    """What GPU code is compiled with, such as CUDA 13.0; empty for the CPU alone."""
    toolkit = variant.toolkit
    return f"{catalog.backends[variant.backend].title} {toolkit}".strip() if toolkit else ""


def _line_fits(variant: Variant, line: Line, catalog: Catalog) -> Iterator[Reason]:
    """Whether the line has the package and all that it needs."""
    package = variant.package
    if variant.flavor is Flavor.NIGHTLY_WRAPPER and not package.is_torch:
        yield Reason("line-no-package", f"a wrapper does not build {package}", f"it builds {catalog.torch}")
        return
    lacking = [needed.name for needed in catalog.below(package) if not line.builds(needed)]
    if lacking:
        builds = ", ".join(other.name for other in catalog.packages.values() if line.builds(other))
        what = package.name if package.name in lacking else f"{', '.join(lacking)}, which {package} needs"
        yield Reason("line-no-package", f"line {line.name} does not build {what}", f"it builds {builds}")


def _package(package: Package, variant: Variant, line: Line | None, catalog: Catalog) -> Iterator[Reason]:
    """Whether a package can have the cell's target: the variant's own, or one that it needs."""
    target = variant.target
    platform = catalog.isas[variant.isa].platform
    cell = (line.name if line else None, variant.python, variant.cuda, variant.sm, platform)
    for limit in package.limits.values() if not isinstance(target, Accelerator) else ():
        if limit.meets(*cell):
            yield Reason("package-limit", f"{package.title}: {limit.reason}")
    if isinstance(target, Accelerator):
        backend = catalog.backends[target.version.backend]
        if backend.packages is not None and package.name not in backend.packages:
            why = backend.refused.get(package.name, "not tried")
            yield Reason("package-no-backend", f"{package.title} is not built for {backend.title}: {why}")
        return
    if not isinstance(target, Cuda):
        if package.needs_cuda:
            yield Reason("package-needs-cuda", f"{package.title} has no build without CUDA")
        return
    if package.sms and target.sm not in package.sms:
        sms = ", ".join(map(str, package.sms))
        gpu, known = catalog.gpus[target.sm], catalog.gpus
        near = [sm for sm in package.sms if gpu_code_runs("cubin", GpuTarget(sm), known.get(sm), gpu)]
        hint = f"a build for {near[-1]} runs there" if near else ""
        yield Reason("package-no-sm", f"{package.title} is compiled for {sms}, not {target.sm}", hint)
    if not in_range(str(target.version), package.cuda):
        yield Reason(
            "package-no-cuda", f"{package.title} is built for CUDA {package.cuda}, not {target.version}"
        )
    if (package.min_sm and target.sm < package.min_sm) or (package.max_sm and target.sm > package.max_sm):
        limits = [f"{package.min_sm} or newer"] if package.min_sm else []
        limits += [f"{package.max_sm} or older"] if package.max_sm else []
        yield Reason("package-no-sm", f"{package.title} needs {listed(limits)}, not {target.sm}")


def neighbours(variant: Variant, catalog: Catalog) -> list[Variant]:
    """Cells that differ from this one in a single axis, nearest values first."""
    isas = sorted(catalog.isas.values(), key=lambda isa: isa.level, reverse=True)
    others = [variant.changed(isa=isa.name) for isa in isas]
    if isinstance(variant.target, Cuda):
        cuda, sm = variant.target.version, variant.target.sm
        cudas = sorted(
            catalog.cuda,
            key=lambda version: abs((version.major - cuda.major) * 100 + version.minor - cuda.minor),
        )
        others += [variant.changed(target=Cuda(cuda, sm)) for cuda in cudas]
        gpus = sorted(catalog.gpus, key=lambda gpu: abs(gpu.number - sm.number))
        others += [variant.changed(target=Cuda(cuda, gpu)) for gpu in gpus]
    others += [variant.changed(python=python) for python in sorted(catalog.pythons, reverse=True)]
    return [other for other in others if other != variant]


def nearest_allowed(variant: Variant, catalog: Catalog, line: str | None = None) -> list[Variant]:
    """The cells closest to this one that can be built and used, at most MOST_NEIGHBOURS: for its own GPU
    if there are any, in an older release if need be; those that were proved first. None if the catalog
    does not know its GPU or instruction set."""
    if variant.isa not in catalog.isas or (variant.sm is not None and variant.sm not in catalog.gpus):
        return []

    def usable(others: Iterable[Variant], line: str | None = line) -> list[Variant]:
        able = []
        for other in others:
            decision = assess(other, catalog, line)
            if isinstance(decision, Accepted) and decision.usable and decision.buildable(other):
                able.append((bool(decision.warnings), other))
        return [other for _, other in sorted(able, key=lambda pair: pair[0])]

    others = list(neighbours(variant, catalog))
    nearest = usable(others)
    own = [other for other in nearest if other.arch == variant.arch]
    if not own and variant.arch and not variant.release:
        releases = [line.release for line in catalog.releases]
        alike = [variant, *(other for other in others if other.arch == variant.arch)]
        own = usable((other.changed(release=release) for other in alike for release in releases), None)
    return (own or nearest)[:MOST_NEIGHBOURS]


def _unknown(variant: Variant, catalog: Catalog) -> Iterator[Reason]:
    if variant.release and not variant.release.line:
        stems = [variant.changed(release=line.release).stem for line in catalog.lines.values()]
        hint = did_you_mean(variant.stem, [stem for stem in stems if stem != variant.package.name])
        yield Reason("unknown-release", f"no line here is called {variant.stem}", hint)
    if variant.isa not in catalog.isas:
        hint = f"known: {', '.join(catalog.isas)}"
        yield Reason("unknown-isa", f"unknown instruction set {variant.isa}", hint)
    if variant.python not in catalog.pythons:
        hint = f"known: {', '.join(map(str, catalog.pythons))}"
        yield Reason("unknown-python", f"Python {variant.python} is not in the catalog", hint)
    if isinstance(variant.target, Cuda):
        cuda, sm = variant.target.version, variant.target.sm
        if cuda not in catalog.cuda:
            hint = f"known: {', '.join(map(str, catalog.cuda))}"
            yield Reason("unknown-cuda", f"CUDA {cuda} is not in the catalog", hint)
        if sm not in catalog.gpus:
            hint = did_you_mean(str(sm), map(str, catalog.gpus))
            yield Reason("unknown-sm", f"unknown GPU architecture {sm}", hint)
    if isinstance(variant.target, Accelerator) and gpu_of(variant, catalog) is None:
        hint = did_you_mean(variant.arch, catalog.archs_of(catalog.backends[variant.target.version.backend]))
        yield Reason("unknown-sm", f"unknown GPU architecture {variant.arch}", hint)


def gpu_of(variant: Variant, catalog: Catalog) -> Gpu | Gfx | Arch | None:
    """The GPU architecture that a variant is compiled for, if the catalog knows it."""
    target = variant.target
    if isinstance(target, Cuda):
        return catalog.gpus.get(target.sm)
    if isinstance(target, Accelerator):
        return catalog.archs_of(catalog.backends[target.version.backend]).get(target.arch)
    return None


def why_unbuilt(gpu: KnownGpu, catalog: Catalog) -> str:
    """Why no build is for a GPU, and of AMD's the nearest target that has builds; empty if there are some."""
    match gpu:
        case Gpu():
            return ""
        case IntelGpu():
            return "no build is for GPUs of Intel; PyTorch has wheels for them on x86_64"
        case RetiredGpu():
            return gpu.ended
    if gpu.retired:
        return gpu.retired
    lines = [builds for line in catalog.lines.values() for builds in line.backends.values()]
    pins = dict.fromkeys(build.pin for builds in lines for build in builds.values() if not build.lacks_pin)
    offers = [offer for pin in pins for offer in catalog.pins[pin].backends.values()]
    built = [arch for offer in offers for arch in offer.archs if arch in catalog.gfx]
    if gpu.name in built:
        return ""
    near = [arch for arch in built if gpu.generic and catalog.gfx[arch].generic == gpu.generic]
    why = f"no torch here is built with a ROCm for {gpu.name}"
    if not near:
        return why
    nearest = f"{near[0]} ({catalog.gfx[near[0]].title}), whose code AMD does not support there"
    return f"{why}; nearest: {nearest}"


def gpu_title(variant: Variant, catalog: Catalog) -> str:
    """The products that run a variant, in a few words; without those that sit beside another CPU only."""
    gpu = gpu_of(variant, catalog)
    if not isinstance(gpu, Gpu):
        return gpu.title if gpu else ""
    return catalog.title_on(gpu, catalog.isas[variant.isa].platform)


def _toolkit(variant: Variant, catalog: Catalog) -> Iterator[Reason]:
    """Whether the cell's CUDA compiles for its GPU."""
    if not isinstance(variant.target, Cuda):
        return
    cuda, gpu = variant.target.version, catalog.gpus[variant.target.sm]
    if catalog.cuda[cuda].compiles(gpu.sm):
        return
    supporting = [version for version, toolkit in catalog.cuda.items() if toolkit.compiles(gpu.sm)]
    if not supporting:
        yield Reason("sm-no-cuda", f"{gpu.name} is in no CUDA release of the catalog")
    elif cuda < supporting[0]:
        yield Reason("sm-needs-newer-cuda", f"{gpu.name} needs CUDA {supporting[0]} or newer", gpu.note)
    else:
        last = max(version for version in supporting if version < cuda)
        yield Reason("sm-ended", f"{gpu.name} ends with CUDA {last}")


def _no_build(line: Line, variant: Variant, catalog: Catalog) -> Reason:
    toolkit = variant.toolkit
    if toolkit is None:
        return Reason("line-no-cpu", f"torch {line.torch} has no CPU-only build here")
    title = toolkit_title(variant, catalog)
    return Reason("line-no-cuda", f"torch {line.torch} is not built for {title} here", _has(line, toolkit))


def _has(line: Line, toolkit: CudaVersion | BackendVersion) -> str:
    """Which releases of CUDA or another backend a line can be built for; empty for none."""
    builds = line.backends.get(toolkit.backend, ()) if isinstance(toolkit, BackendVersion) else line.cudas
    return f"line {line.name} has {', '.join(builds)}" if builds else ""


def _no_pin(line: Line, variant: Variant, catalog: Catalog) -> Reason:
    what = toolkit_title(variant, catalog) or "the CPU"
    has = _has(line, variant.toolkit) if variant.toolkit else ""
    return Reason(
        "no-pin",
        f"torch {line.torch} is released, but the catalog knows no nixpkgs that builds it for {what}",
        has or f"torchsmith line add {line.name} --matrix",
    )


def _pin(variant: Variant, catalog: Catalog, line: Line, build: LineBuild) -> Iterator[Reason]:
    """Whether the line and its pin have the cell's Python and accept its GPU."""
    if variant.python not in line.pythons:
        message = f"torch {line.torch} is not built for Python {variant.python}"
        yield Reason("line-no-python", message, f"it has {', '.join(map(str, line.pythons))}")
        return
    pin = catalog.pins.get(build.pin)
    if pin is None:
        return
    if pin.probed and variant.python not in pin.pythons:
        message = f"nixpkgs {pin.name} has no Python {variant.python}"
        yield Reason("pin-no-python", message, f"it has {', '.join(map(str, pin.pythons))}")
    platform, backend = catalog.isas[variant.isa].platform, catalog.backends[variant.backend]
    if backend.systems and platform not in backend.systems:
        systems = listed(backend.systems)
        message = f"{backend.title} builds are for {systems}, not for {platform}"
        yield Reason("backend-no-system", message)
    for package in catalog.below(variant.package):
        if package.name in pin.missing.get(platform, ()):
            yield Reason("pin-no-package", f"nixpkgs {pin.name} has no {package} for {platform}")
    if isinstance(variant.target, Accelerator):
        yield from _backend_fits(variant.target, pin, backend)
    if not isinstance(variant.target, Cuda):
        return
    cuda, sm = variant.target.version, variant.target.sm
    if pin.min_sm and sm < pin.min_sm:
        message = f"the cuDNN of nixpkgs {pin.name} needs {pin.min_sm} or newer; this is {sm}"
        yield Reason("cudnn-too-new", message)
    for limit in pin.limits.values():
        if limit.holds(cuda, sm, platform):
            yield Reason("pin-limit", f"nixpkgs {pin.name}: {limit.reason}")


def _backend_fits(target: Accelerator, pin: Pin, backend: GpuBackend) -> Iterator[Reason]:
    """Whether a nixpkgs has a backend's release for an architecture."""
    offer = pin.backends.get(backend.name)
    if offer is not None and offer.release != str(target.version):
        message = f"nixpkgs {pin.name} has {backend.title} {offer.release}, not {target.version}"
        yield Reason("pin-no-backend", message)
    elif offer is not None and target.arch not in offer.archs:
        message = f"the {backend.title} of nixpkgs {pin.name} is not built for {target.arch} alone"
        yield Reason("pin-no-arch", message, f"it has {', '.join(offer.archs)}")


def _torch_fits(package: Package, catalog: Catalog, line: Line, build: LineBuild) -> Iterator[Reason]:
    """Whether a package's release asks for the line's torch; nixpkgs builds some that do not."""
    release = catalog.release_of(package, line, build)
    required = package.torch.get(release, "")
    if line.torch and not in_range(line.torch, required):
        releases = (other for other in catalog.lines.values() if other.torch and not other.flavor)
        fits = ", ".join(other.name for other in releases if in_range(other.torch, required))
        hint = f"torch {required.removeprefix('==')} is line {fits}" if fits else "no line here has it"
        text = f"{package.title} {release} requires torch {required}; the line has {line.torch}"
        yield Reason("unproved", text, hint)


def no_machine(gpu: Gpu, isa: Isa, catalog: Catalog) -> Iterator[Reason]:
    """Why no machine of the catalog has both this GPU and a CPU for this instruction set, if that is so."""
    if isa.platform not in gpu.platforms:
        machine = f"{isa.platform.removesuffix('-linux')} machine with {gpu.name} ({gpu.title})"
        yield Reason(UNUSABLE, f"the catalog knows no {machine}: this build may have no use")
    elif gpu.cpus and not any(isa.name in catalog.cpus[cpu].isas for cpu in gpu.cpus):
        titles = listed((catalog.cpus[cpu].title for cpu in gpu.cpus), "or")
        message = f"{gpu.name} comes only with {titles}, which cannot run {isa.name}"
        yield Reason(UNUSABLE, f"{message}: no machine can use this build")
