"""Two artifacts side by side: what one saves over the other, and what it no longer serves."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torchsmith.artifact.gpu import words_of
from torchsmith.artifact.report import Report, Sizes


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One part of both artifacts, in bytes."""

    part: str
    this: int
    other: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """This artifact against another one."""

    this: str
    other: str
    sizes: tuple[SizeRow, ...]
    saved: int  # bytes; negative where this one is larger
    targets_gained: tuple[str, ...]
    targets_dropped: tuple[str, ...]
    gpus_gained: tuple[str, ...]
    gpus_dropped: tuple[str, ...]
    differences: tuple[str, ...]


def compare(this: Report, other: Report) -> Comparison:
    """What differs between two reports."""
    rows = [
        SizeRow(part.name.replace("_", " "), getattr(this.sizes, part.name), getattr(other.sizes, part.name))
        for part in fields(Sizes)
    ]
    here, there = words_of(this.gpu), words_of(other.gpu)
    served, served_there = _served(this), _served(other)
    return Comparison(
        this=this.path,
        other=other.path,
        sizes=(*rows, SizeRow("total", this.sizes.total, other.sizes.total)),
        saved=other.sizes.total - this.sizes.total,
        targets_gained=tuple(name for name in here if name not in there),
        targets_dropped=tuple(name for name in there if name not in here),
        gpus_gained=tuple(name for name in served if name not in served_there),
        gpus_dropped=tuple(name for name in served_there if name not in served),
        differences=tuple(_differences(this, other)),
    )


def _served(report: Report) -> list[str]:
    return [f"{service.sm}" for service in report.services if service.verdict in ("native", "jit")]


def _differences(this: Report, other: Report) -> list[str]:
    """Single facts that differ, in words."""
    pairs = {
        "architecture": (this.machine, other.machine),
        "CUDA": (this.cuda, other.cuda),
        "Python": (this.python, other.python),
        "BLAS": (this.blas, other.blas),
        "MAGMA": (this.magma or "none", other.magma or "none"),
        **{
            f"{package} version": (this.versions.get(package, "none"), other.versions.get(package, "none"))
            for package in sorted({*this.versions, *other.versions})
        },
        "code outside dispatch": (_needs(this), _needs(other)),
    }
    return [f"{name}: {mine}, against {theirs}" for name, (mine, theirs) in pairs.items() if mine != theirs]


def _needs(report: Report) -> str:
    if report.cpu is None:
        return "not looked at"
    return ", ".join(report.cpu.features) or "any CPU of the architecture"
