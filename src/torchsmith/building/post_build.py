"""Fetching recipes that need no build, and what happens to builds afterwards: verified, copied to a cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchsmith.building.events import RunNote
from torchsmith.building.job import Job, OnEvent
from torchsmith.building.jobs import outputs_of
from torchsmith.building.plan import BuildPlan
from torchsmith.building.processes import Processes, Stopped
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Problem
from torchsmith.nix.errors import shorten
from torchsmith.nix.graph import Graph
from torchsmith.nix.store import StoreOptions, cache_address, realise_command, valid_paths
from torchsmith.nix.tool import Nix
from torchsmith.record import Built, VerificationRow

Verifier = Callable[[str, str], VerificationRow | None]  # of a recipe's name and output; None: no promise


def fetch_present(
    nix: Nix, plan: BuildPlan, graph: Graph, options: StoreOptions, results: Path, on_event: OnEvent
) -> tuple[list[Built], list[str]]:
    """Fetch recipes that need no build, and keep them from being collected: those that are present then, and
    why others are not."""
    present, failures = [], []
    for name in (*plan.present, *plan.fetched):
        derivation = graph.recipes[name]
        if name in plan.fetched:
            on_event(RunNote(name=name, detail="fetched from a binary cache"))
        root = results / name
        done = nix.run(realise_command(nix, [derivation], options, root=root))
        if done.ok:
            outputs = outputs_of(graph.derivations[derivation])
            present.append(Built(name=name, derivation=derivation, outputs=outputs))
        else:
            failures.append(f"{name}: could not be fetched: {shorten(done.stderr).message}")
    return present, failures


def built_below(nix: Nix, graph: Graph, catalog: Catalog) -> set[str]:
    """Outputs of the long builds below recipes that are in the store, which the next machine needs too."""
    builds = (graph.derivations[build.drv_path] for build in graph.long_builds(catalog))
    return valid_paths(nix, (path for derivation in builds for path in outputs_of(derivation)))


@dataclass
class Copier:
    """Copies outputs to a binary cache; `stop` ends a copy from any thread."""

    nix: Nix
    cache: str
    secret_key: Path | None
    _processes: Processes = field(default_factory=Processes)

    def copy(self, paths: Sequence[str]) -> str:
        """Copy paths with their closures. Returns why that failed, or nothing."""
        if not paths:
            return ""
        command = self.nix.nix("copy", "--to", cache_address(self.cache, self.secret_key), *paths)
        output: list[str] = []
        try:
            code = self._processes.run(command, self.nix.environment(), output.append)
        except Stopped:
            return "was not copied to the cache: interrupted"
        if code == 0:
            return ""
        reason = shorten("\n".join(output)).message
        return f"cannot copy to the cache {self.cache}: {reason}; build again to repeat it"

    def stop(self) -> None:
        self._processes.stop()


@dataclass(frozen=True, slots=True)
class PostBuildResult:
    """The verdict on each recipe, and what went wrong."""

    job: Job
    verdicts: tuple[VerificationRow, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class PostBuild:
    """Verifies and copies builds in a separate thread, so that the times of jobs do not include it."""

    verifier: Verifier | None = None
    copier: Copier | None = None

    def of(self, job: Job, outputs: Sequence[str]) -> PostBuildResult:
        """Verify a build, then copy it if it is what its name promises."""
        done = PostBuildResult(job)
        try:
            if self.verifier is not None and outputs:
                verdicts = (self.verifier(name, outputs[0]) for name in job.recipes)
                done = replace(done, verdicts=tuple(verdict for verdict in verdicts if verdict is not None))
            if self.copier is not None and outputs and all(verdict.ok for verdict in done.verdicts):
                done = replace(done, failure=self.copier.copy(outputs))
        except Problem as problem:
            done = replace(done, failure=str(problem))
        return done

    def stop(self) -> None:
        if self.copier is not None:
            self.copier.stop()
