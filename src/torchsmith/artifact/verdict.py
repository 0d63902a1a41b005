"""Whether an artifact is what its name promises: one check per promise, each with its evidence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from torchsmith.artifact.check import Check, Status
from torchsmith.artifact.cpu_promise import cpu_promise, shared_copies
from torchsmith.artifact.gpu_promise import gpu_promise
from torchsmith.artifact.inspect import Inspection
from torchsmith.catalog import Catalog, CudaVersion
from torchsmith.matrix.variant import Variant

NAME = re.compile(r"[a-z][a-z0-9_-]*?-python3\d{1,2}-[a-z0-9_-]+")


def variant_in(path: Path, catalog: Catalog) -> Variant | None:
    """The variant that a path's own name, or a folder of the place behind it, promises."""
    for text in (path.name, *reversed(Path(os.path.realpath(path)).parts)):
        found = NAME.search(text)
        words = found[0].split("-") if found else []
        while len(words) > 3:  # a hash or `result` may come before the name, outputs and versions after it
            starts = ("-".join(words[start:]) for start in range(len(words) - 3))
            named = next(filter(None, (Variant.try_parse(text, catalog) for text in starts)), None)
            if named is not None:  # torch's pname states its release, whatever its recipe is called
                return replace(named, release=None) if named.package.is_torch else named
            words.pop()
    return None


def judge(seen: Inspection, variant: Variant | None, catalog: Catalog) -> list[Check]:
    """All checks that apply; the promises of a name only where there is one."""
    checks = [*_intact(seen), *_libraries(seen)]
    if variant is not None:
        checks += [*_identity(seen, variant), *gpu_promise(seen, variant, catalog)]
        isa = catalog.isas.get(variant.isa)
        if isa is not None:
            checks += cpu_promise(seen, isa, catalog)
    checks += shared_copies(seen, catalog.isas.get(variant.isa) if variant else None)
    return checks


def _intact(seen: Inspection) -> Iterator[Check]:
    for fault in seen.faults:
        yield Check("intact", "wrong", fault)
    for library in seen.libraries:
        if library.fault:
            status: Status = "wrong" if library.role == "own" else "note"
            yield Check("intact", status, f"{library.name}: {library.fault}")
    machines = {library.machine for library in seen.own if library.machine}
    if len(machines) > 1:
        foreign = min(machines, key=lambda machine: sum(library.machine == machine for library in seen.own))
        names = [library.name for library in seen.own if library.machine == foreign]
        yield Check("machine", "wrong", f"{', '.join(names[:3])} is for {foreign}, the rest is not")


def _libraries(seen: Inspection) -> Iterator[Check]:
    missing = [need for need in seen.needs if need.found == "missing"]
    for by in dict.fromkeys(need.by for need in missing):
        names = [need.name for need in missing if need.by == by]
        status: Status = "note" if seen.kind == "library" else "wrong"
        yield Check("libraries", status, f"{by} needs what is not there: {', '.join(names)}")
    for text in seen.strange_paths:
        yield Check("libraries", "note", text, "a place of the machine that built it")
    if seen.needs and not missing:
        yield Check("libraries", "right", f"all {len(seen.needs)} needed shared libraries are accounted for")


def _identity(seen: Inspection, variant: Variant) -> Iterator[Check]:
    if seen.versions and variant.package not in seen.versions:
        having = ", ".join(f"{package} {version}" for package, version in seen.versions.items())
        yield Check("package", "wrong", f"there is no {variant.package.title} in it, but {having}")
    if seen.python is not None:
        same = seen.python == variant.python
        text = f"for Python {seen.python}" + ("" if same else f", the name says {variant.python}")
        yield Check("python", "right" if same else "wrong", text)
    yield from _cuda(seen.cuda, variant.cuda)


def _cuda(found: CudaVersion | int | None, wanted: CudaVersion | None) -> Iterator[Check]:
    if wanted is None:
        if found is not None:
            yield Check("cuda", "wrong", f"it is built with CUDA {found}, the name says cpu")
    elif found is None:
        yield Check("cuda", "wrong", f"it names no CUDA, the name says {wanted}")
    elif isinstance(found, int):
        same = found == wanted.major
        yield Check(
            "cuda", "right" if same else "wrong", f"linked to CUDA {found}.x, the name says CUDA {wanted}"
        )
    else:
        text = f"CUDA {found}" + ("" if found == wanted else f", the name says {wanted}")
        yield Check("cuda", "right" if found == wanted else "wrong", text)
