"""What a machine and a person ask of PyTorch's wheels besides GPU code, and why no wheel has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache

import msgspec

from torchsmith.catalog import Catalog, PythonVersion
from torchsmith.catalog.facts import Wheel, WheelIndex
from torchsmith.catalog.ranges import is_release, version_key
from torchsmith.core.text import listed
from torchsmith.host.resolve import Capability
from torchsmith.matrix.select import Selector, cuda_words

# What a machine most likely is, of which nothing is known or that it is a Mac.
LIKELY = {None: "x86_64-linux", "any-darwin": "aarch64-darwin"}
Requirement = tuple[str, Callable[[Wheel], bool]]  # what a wheel must be, in words, and whether one is


class WheelWish(msgspec.Struct, frozen=True):
    """What a wheel must be besides running on the machine; empty: anything."""

    python: PythonVersion | None = None
    torch: str = ""  # a release, or the beginning of one: 2.12
    packages: tuple[str, ...] = ()  # to install beside torch
    selector: Selector = Selector(())  # of which the words about CUDA count


def suitable(host: Capability, wish: WheelWish, catalog: Catalog) -> list[Wheel]:
    """The wheels that a machine runs and that are as wished, whatever their GPU code; the newest first."""
    requirements = [meets for _, meets in (*_wished(host, wish, catalog), *_stated(host, wish))]
    return [
        wheel for wheel in catalog.published_wheels.values() if all(meets(wheel) for meets in requirements)
    ]


def why_no_wheel(host: Capability, catalog: Catalog, wish: WheelWish) -> str:
    """The first requirement that no wheel meets which meets those before it; empty if there is none."""
    wheels = [*catalog.published_wheels.values()]
    wished = [*_wished(host, wish, catalog)]
    for place, (text, meets) in enumerate((*wished, *_stated(host, wish))):
        wheels = [wheel for wheel in wheels if meets(wheel)]
        if not wheels:
            return " ".join(["none", *(text for text, _ in wished[:place]), "is", text])
    if host.unknown_gpus:
        return ""
    gpus = listed(host.gpu_names)
    driver = f" with {host.driver.title}" if host.driver else ""
    none = " ".join(["none", *(text for text, _ in wished)])
    why = f"{none} runs on {gpus or 'a machine without a GPU'}{driver}"
    if wish.selector.asks("cuda"):
        return why
    near = nearest_release(wish.torch, catalog)
    kinds = listed(dict.fromkeys(wheel.index.kind for wheel in wheels))
    return f"{why}: it is for {kinds}{f'; nearest is torch {near}' if near else ''}"


def _wished(host: Capability, wish: WheelWish, catalog: Catalog) -> Iterator[Requirement]:
    """Yield what a person asks for, and the system."""
    system = LIKELY.get(host.system) or host.system
    yield (
        f"of {releases(host, wish, catalog)}",
        lambda wheel: not wish.torch or is_release(wheel.torch, wish.torch),
    )
    yield f"for {system}", lambda wheel: wheel.index.system == system
    if wish.selector.asks("cuda"):
        titles = {word: f"CUDA {cuda}" for cuda in catalog.cuda for word in cuda_words(cuda)}
        asked = (term.pattern for term in wish.selector.terms if term.axis == "cuda")
        text = f"for {listed((titles.get(word, word) for word in asked), 'or')}"
        yield text, lambda wheel: wish.selector.keeps("cuda", _words(wheel.index))
    if wish.packages:
        packages = {*wish.packages}
        text = f"known to go with {', '.join(wish.packages)}"
        yield text, lambda wheel: packages <= versions_beside(wheel, catalog).keys()
    if wish.python:
        yield f"for Python {wish.python}", lambda wheel: wish.python in wheel.pythons


def _stated(host: Capability, wish: WheelWish) -> Iterator[Requirement]:
    """Yield what the facts of a machine ask for; an unknown one asks for nothing."""
    if host.glibc and not (host.system or "").endswith(("-darwin", "-windows")):
        libc, own = f"glibc {host.glibc}", version_key(host.glibc)
        text = f"for {libc if own else host.glibc}"
        yield text, lambda wheel: own >= version_key(wheel.release.glibc)
    if host.macos:
        macos = version_key(host.macos)
        yield f"for macOS {host.macos}", lambda wheel: macos >= version_key(_least_macos(wheel, wish))
    if host.features is not None:
        features = host.features
        yield "for this CPU", lambda wheel: features.issuperset(cpu_needs(wheel))


def unconfirmed(wheel: Wheel, host: Capability, wish: WheelWish, catalog: Catalog) -> Iterator[str]:
    """Yield what a wheel needs, besides GPUs and drivers, that the facts of a machine do not confirm."""
    system = wheel.index.system
    macos = wheel.index.gpu_macos.get(wheel.torch) or _least_macos(wheel, wish)
    if host.system in LIKELY:
        yield system
    if not wish.python:
        yield f"Python {' to '.join(dict.fromkeys(map(str, (wheel.pythons[0], wheel.pythons[-1]))))}"
    if not host.glibc and system.endswith("-linux"):
        yield f"glibc {wheel.release.glibc}"
    if macos and not host.macos:
        yield f"macOS {macos}"
    if missing := {*cpu_needs(wheel)} - (host.features or set()):
        yield f"a CPU with {', '.join(sorted(missing))}"
    if host.release and (more := catalog.systems[host.release].wheels):
        yield more


def nearest_release(torch: str, catalog: Catalog) -> str:
    """The newest other release with wheels of the same minor release; empty if there is none."""
    series = ".".join(torch.split(".")[:2])
    known = (name for name in catalog.wheel_releases if is_release(name, series) and name != torch)
    return max(known, key=version_key, default="")


def releases(host: Capability, wish: WheelWish, catalog: Catalog) -> str:
    """The releases of which a statement about all wheels for a system is known to hold."""
    if wish.torch:
        return f"torch {wish.torch}"
    return f"torch {_oldest(LIKELY.get(host.system) or host.system, catalog)} or newer"


@lru_cache(64)
def _oldest(system: str | None, catalog: Catalog) -> str:
    """The oldest release with a wheel for a system; of any system, if none is for that one."""
    wheels = catalog.published_wheels.values()
    own = [wheel.torch for wheel in wheels if wheel.index.system == system]
    return min(own or [wheel.torch for wheel in wheels], key=version_key).removesuffix(".0")


def versions_beside(wheel: Wheel, catalog: Catalog) -> Mapping[str, str]:
    """The releases of packages that belong to a torch: those that the wheels on the Python index ask for."""
    return next((line.versions for line in catalog.releases if line.torch == wheel.torch), {})


def _least_macos(wheel: Wheel, wish: WheelWish) -> str:
    """The oldest macOS that a wheel is for; empty for other systems."""
    return wheel.release.least_macos(wish.python) if wheel.index.system == "aarch64-darwin" else ""


def cpu_needs(wheel: Wheel) -> Collection[str]:
    """The features of a CPU that a wheel needs."""
    return wheel.release.needs.get(wheel.index.system, ())


def _words(index: WheelIndex) -> tuple[str, ...]:
    """What selectors may call the CUDA release of an index, or what else its wheels are for."""
    if index.cuda:
        return "gpu", *cuda_words(index.cuda)
    other = "rocm" if index.rocm else index.gpu.lower()
    return ("gpu", other, f"{other}{index.rocm}") if other else ("cpu",)
