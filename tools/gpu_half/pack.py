"""One archive of a plan and all files that it reads, for a machine that has nvcc and the wheel."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from tools.gpu_half.work import Plan, Work

SUFFIXES = (".h", ".hpp", ".cuh", ".inl", ".inc", ".hh")
OWN = ("aten", "c10", "caffe2", "torch")  # of the checkout, whose root every unit searches


def pack(work: Work, archive: Path, *, objects: bool) -> int:
    """Write the plan, sources and headers, and what is compiled if `objects`; the number of files."""
    plan = work.plan()
    toolkit = (path for path in (work.cuda / "include").rglob("*") if path.is_file())
    files = {work.plan_file, *_sources(work, plan), *_headers(work, plan), *toolkit}
    if objects:
        files |= {work.build / unit.object for unit in work.compiled(plan)}
    with tarfile.open(archive, "w:xz") as tar:
        for path in sorted(files):
            tar.add(path.resolve(), path.relative_to(work.folder))
    return len(files)


def _words(work: Work, plan: Plan) -> Iterator[Path]:
    """Every absolute path in WORK that a unit's command has."""
    words = {word.removeprefix("-I") for unit in plan.units for word in unit.command.split()}
    return (Path(word) for word in words if word.startswith((f"{work.source}/", f"{work.build}/")))


def _sources(work: Work, plan: Plan) -> Iterator[Path]:
    return (path for path in _words(work, plan) if path.is_file())


def _headers(work: Work, plan: Plan) -> Iterator[Path]:
    searched = {path.resolve() for path in _words(work, plan) if path.is_dir()} - {work.source.resolve()}
    for folder in {work.build, *(work.source / name for name in OWN), *searched}:
        yield from (path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
