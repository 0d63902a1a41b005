"""What a build would do, as a program reads it."""

from __future__ import annotations

import msgspec

from torchsmith.building.plan import Broken, Share
from torchsmith.building.start import Prepared
from torchsmith.core.problem import Exit, Problem
from torchsmith.nix.evaluate import exit_of
from torchsmith.record import Expected


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job: what it builds, after which others, and at what cost."""

    key: str  # as events name it
    name: str
    package: str
    targets: tuple[str, ...]
    recipes: tuple[str, ...]
    builds: int  # derivations in it
    system: str
    needs: list[str]
    expected: Expected


class BuildPlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a build would do."""

    recipes: tuple[str, ...]
    present: tuple[str, ...]
    fetched: tuple[str, ...]
    download_mib: float
    broken: tuple[Broken, ...]
    share: Share
    jobs: list[PlannedJob]
    per_core_gb: float  # of memory, for each compiler
    own_builds: int  # that no public cache of nixpkgs can have, among those below the recipes
    builds_below: int  # 0 where the backend does not tell
    own_store: str  # where builds go if the user may not use the machine's store; else empty
    problem: Problem | None  # where memory, disk or builders cannot suffice

    @property
    def exit(self) -> Exit:
        return exit_of([recipe.why for recipe in self.broken])


def plan_report(ready: Prepared) -> BuildPlanReport:
    """A prepared run as data."""
    plan, problem = ready.plan, None
    try:
        ready.check()
    except Problem as raised:
        problem = raised
    names = {job.key: job.name for job in plan.jobs}
    return BuildPlanReport(
        recipes=plan.recipes,
        present=plan.present,
        fetched=plan.fetched,
        download_mib=plan.download_mib,
        broken=plan.broken,
        share=plan.share,
        jobs=[
            PlannedJob(
                key=job.key,
                name=job.name,
                package=job.package,
                targets=job.targets,
                recipes=job.recipes,
                builds=job.size,
                system=job.system,
                needs=sorted(names[need] for need in job.needs if need in names),
                expected=plan.expected[job.key],
            )
            for job in plan.jobs
        ],
        per_core_gb=plan.per_core_gb,
        own_builds=len(plan.graph.own) if plan.graph else 0,
        builds_below=plan.builds_below,
        own_store=str(ready.nix.store_file("/nix/store")) if ready.nix and ready.nix.store else "",
        problem=problem,
    )
