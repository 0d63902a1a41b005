"""A compile cache that cells share: which objects a torch has in common with others, and what that saves."""

from __future__ import annotations

from dataclasses import replace

from torchsmith.building.job import Job
from torchsmith.building.jobs import variant_of
from torchsmith.building.plan import BuildPlan
from torchsmith.catalog import TORCH, Catalog
from torchsmith.record.estimate import estimate_row

BUILT = ("own_build", "kind_build")  # bases that hold what a cache gave already


def with_compile_cache(plan: BuildPlan, catalog: Catalog) -> BuildPlan:
    """The plan of a workspace with `ccache`, from an empty cache: the first cell of a GPU compiles its CUDA
    objects, the first of an instruction set the others."""
    jobs = tuple(replace(job, objects=_objects(job, catalog)) for job in plan.jobs)
    expected, compiled = dict(plan.expected), set[str]()
    for job in jobs:
        row, cost = estimate_row(catalog, job.package, job.gpu), expected[job.key]
        shares = zip(job.objects, (row.gpu_share, row.isa_share), strict=False)
        saved = cost.seconds * sum(share for objects, share in shares if objects in compiled)
        if cost.basis not in BUILT:
            expected[job.key] = replace(cost, seconds=cost.seconds - saved, cached_seconds=saved)
        compiled.update(job.objects)
    return replace(plan, jobs=jobs, expected=expected)


def _objects(job: Job, catalog: Catalog) -> tuple[str, ...]:
    """What a torch's CUDA objects are the same for, and what its others are; nothing for other jobs."""
    variant = variant_of(job.recipes, catalog)
    if variant is None or variant.cuda is None or variant.package.name != TORCH:
        return ()
    alike = f"{variant.stem}-{variant.python.slug}-cuda{variant.cuda.slug}"
    return f"{alike}-{variant.sm} on {job.system}", f"{alike}-{variant.isa}"
