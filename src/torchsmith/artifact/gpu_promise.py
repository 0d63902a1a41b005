"""Whether the GPU code is what a name promises, and what is in it beyond that."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.artifact.check import Check, megabytes
from torchsmith.artifact.gpu import Service, gpu_code, services, waste
from torchsmith.artifact.inspect import Inspection
from torchsmith.catalog import Catalog
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
        yield Check("gpu", "note", f"{variant.target.sm} is not in the catalog")
        return
    if not code.containers:
        yield Check("gpu", "wrong", f"no GPU code at all, the name says {gpu.name}")
        return
    service = services(seen.containers, [gpu], catalog)[0]
    yield _served(service)
    yield from _missing_in(seen, service, catalog)
    spare = waste(code, gpu.sm)
    if spare:
        others = [str(target) for target in sorted({row.target for row in code.rows}) if target.sm != gpu.sm]
        yield Check(
            "waste",
            "note",
            f"{megabytes(spare)} of {megabytes(code.size)} of GPU code are for others: {', '.join(others)}",
            f"a build for {gpu.name} alone leaves them out",
        )


def _served(service: Service) -> Check:
    if service.exact and service.verdict == "native":
        return Check("gpu", "right", f"{service.sm} code in {service.native} of {service.total} containers")
    if service.verdict == "native":
        text = f"runs on {service.sm}, but its code was compiled for another GPU of the same generation"
        return Check("gpu", "wrong", text, "TORCH_CUDA_ARCH_LIST did not arrive, or named another target")
    if service.verdict == "jit":
        text = f"{service.jit} of {service.total} containers have only PTX for {service.sm}: slow first start"
        return Check("gpu", "wrong", text, "build with the target's own cubins")
    if service.verdict == "partly":
        text = f"{service.none} of {service.total} containers hold nothing that runs on {service.sm}"
        return Check("gpu", "wrong", text, "calls into them fail with `no kernel image`")
    return Check("gpu", "wrong", f"nothing in it runs on {service.sm}: `no kernel image` on every call")


def _missing_in(seen: Inspection, whole: Service, catalog: Catalog) -> Iterator[Check]:
    """Single libraries that do not serve the GPU, where the artifact as a whole does."""
    if whole.verdict != "native":
        return
    for library in seen.own:
        if any(container.entries for container in library.containers):
            service = services(library.containers, [catalog.gpus[whole.sm]], catalog)[0]
            if service.verdict in ("no", "partly"):
                text = f"{library.name}: {service.none} containers hold nothing that runs on {whole.sm}"
                yield Check("gpu", "note", text)
