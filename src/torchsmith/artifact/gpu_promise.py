"""Whether the GPU code is what a name promises, and what is in it beyond that."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.artifact.check import Check, megabytes
from torchsmith.artifact.gpu import Service, gpu_code, launched, service_of, waste
from torchsmith.artifact.inspect import Inspection
from torchsmith.catalog import Catalog, Gpu
from torchsmith.matrix.variant import Cuda, Variant


def gpu_promise(seen: Inspection, variant: Variant, catalog: Catalog) -> Iterator[Check]:
    """The target of the name is there, throughout, and how much is there for others."""
    code = gpu_code(library.containers for library in seen.own)
    if not isinstance(variant.target, Cuda):
        if code.size:
            yield Check("gpu", "wrong", f"{megabytes(code.size)} of GPU code, the name says cpu")
        else:
            yield Check("gpu", "right", "no GPU code, as the name says")
        return
    gpu = catalog.gpus.get(variant.target.sm)
    if gpu is None:
        text = f"{variant.target.sm} is no GPU of the catalog: nothing can be said for it"
        yield Check("gpu", "wrong", text)
        return
    if not code.containers:
        yield Check("gpu", "wrong", f"no GPU code at all, the name says {gpu.name}")
        return
    yield from _by_library(seen, gpu, catalog)
    spare = waste(code, gpu.sm)
    if spare:
        others = [str(target) for target in sorted({row.target for row in code.rows}) if target.sm != gpu.sm]
        amount = f"{megabytes(spare)} of {megabytes(code.size)} of GPU code are for others"
        hint = f"a build for {gpu.name} alone leaves them out"
        yield Check("waste", "note", f"{amount}: {', '.join(others)}", hint)


def _by_library(seen: Inspection, gpu: Gpu, catalog: Catalog) -> Iterator[Check]:
    """One check for each library that does not hold the target throughout, or one for all that do."""
    right = total = 0
    wrong = []
    for library in seen.own:
        containers = launched(library.containers)
        if not containers:
            continue
        service = service_of(containers, gpu, catalog)
        check = _served(service, library.name)
        if check is None:
            right, total = right + service.native, total + service.total
        else:
            wrong.append(check)
    yield from wrong
    if not wrong:
        yield Check("gpu", "right", f"{gpu.name} code in {right} of {total} containers")


def _served(service: Service, library: str) -> Check | None:
    """What is wrong with a library's code for a GPU."""
    if service.exact and service.verdict == "native":
        return None
    if service.verdict == "native":
        text = f"runs on {service.sm}, but its code was compiled for another GPU of the same generation"
        hint = "TORCH_CUDA_ARCH_LIST did not arrive, or named another target"
    elif service.verdict == "jit":
        text = f"{service.jit} of {service.total} containers have only PTX for {service.sm}: slow first start"
        hint = "build with the target's own cubins"
    elif service.verdict == "partly":
        text = f"{service.none} of {service.total} containers hold nothing that runs on {service.sm}"
        hint = "calls into them fail with `no kernel image`"
    else:
        text, hint = f"nothing in it runs on {service.sm}: `no kernel image` on every call", ""
    return Check("gpu", "wrong", f"{library}: {text}", hint)
