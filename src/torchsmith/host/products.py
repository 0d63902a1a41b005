"""Products besides the catalog: retired GPUs, cloud instances, and the names that sites and chips have."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from torchsmith.catalog.axes import BadValue, DriverVersion, Sm
from torchsmith.core.toml import read_kept

DATA = Path(__file__).with_name("products.toml")


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of an architecture that no build here is for, and what ended their support."""

    sm: Sm
    generation: str
    parts: tuple[str, ...]  # patterns of names
    ended: str
    min_driver: DriverVersion | None = (
        None  # where a wheel of PyTorch still runs: the first driver that knew it
    )
    tegra: bool = False
    source: str


class Instance(msgspec.Struct, frozen=True):
    """A machine type of a cloud."""

    cloud: str
    type: str
    gpu: str
    system: str


class Jetson(msgspec.Struct, frozen=True, kw_only=True):
    """A release of Linux for Tegra."""

    release: int
    jetpack: str
    cuda: str
    part: str = ""  # the one that it runs on; empty: there are several
    driver: str = ""
    source: str


class _Cloud(msgspec.Struct, frozen=True):
    cloud: str
    types: tuple[tuple[str, str, str], ...]
    source: str


class _Products(msgspec.Struct, frozen=True):
    words: frozenset[str]
    features: frozenset[str]
    retired: tuple[Retired, ...]
    sites: dict[str, str]
    chips: dict[str, Sm]
    instances: tuple[_Cloud, ...]
    l4t: tuple[Jetson, ...]


@cache
def _products() -> _Products:
    return msgspec.convert(read_kept(DATA), _Products, dec_hook=_decode)


def _decode(kind: type, value: object) -> object:
    if kind in (Sm, DriverVersion) and isinstance(value, str):
        return kind.parse(value)
    raise BadValue(f"expected text, got {value!r}")


def name_words() -> frozenset[str]:
    """Long words that stand in the names of GPUs."""
    return _products().words


def known_features() -> frozenset[str]:
    """Common CPU features."""
    return _products().features


@cache
def retired_gpus() -> dict[Sm, Retired]:
    """By architecture."""
    return {one.sm: one for one in _products().retired}


def retired_of_name(name: str) -> Retired | None:
    """The retired architecture of a GPU, by its name; the longest match counts."""
    text = " ".join(re.findall(r"[\w.-]+", name))
    found = [
        (len(match[0]), one)
        for one in _products().retired
        for part in one.parts
        if (match := re.search(rf"(?<![\w-])(?:{part})(?![\w+])", text, re.IGNORECASE))
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def site_name(word: str) -> str:
    """A scheduler's GPU type as the catalog writes the product; the word itself where it is no such name."""
    plain = re.sub(r"^(nvidia|geforce|tesla|gtx|rtx)[_-]?", "", word.lower())
    for form in (word.lower(), plain):
        for pattern, name in _products().sites.items():
            if re.fullmatch(pattern, form):
                return name
    return word.replace("_", " ")


def sm_of_chip(chip: str) -> Sm | None:
    """The architecture of a chip as lspci names it: GA102."""
    found = (sm for pattern, sm in _products().chips.items() if re.fullmatch(pattern, chip, re.IGNORECASE))
    return next(found, None)


def instance_of(word: str) -> Instance | None:
    """A cloud's machine type by its name: p4d.24xlarge, a2-highgpu-1g, Standard_NC24ads_A100_v4."""
    for cloud in _products().instances:
        for pattern, gpu, system in cloud.types:
            if re.fullmatch(pattern, word.strip(), re.IGNORECASE):
                return Instance(cloud.cloud, word.strip(), gpu, f"{system}-linux")
    return None


def jetson_release(major: int) -> Jetson | None:
    """What is known of a release of Linux for Tegra, by its first number."""
    return next((one for one in _products().l4t if one.release == major), None)
