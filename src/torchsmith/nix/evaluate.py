"""Evaluating a whole workspace: cached results first, then few processes, each failure on its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import msgspec

from torchsmith.core.nixtext import nix_value
from torchsmith.core.problem import Exit, Failed, Invalid
from torchsmith.core.text import grouped
from torchsmith.nix.cache import Fingerprints, ResultCache, key_of
from torchsmith.nix.errors import Cause
from torchsmith.nix.fetch import Tarball, fetch_all, tree_for
from torchsmith.nix.keeper import Keeper
from torchsmith.nix.prepare import EvalJob
from torchsmith.nix.readable import without_git
from torchsmith.nix.tool import Nix
from torchsmith.nix.worker import EvalResult as EvalResult
from torchsmith.nix.worker import Evaluated, Session, WorkerLimits, run_batch

MOST_ATTEMPTS = 5  # at a derivation that was collected as garbage before it could be held on to
SMALLEST_BATCH = 24  # below this, importing nixpkgs again costs more than a second worker saves


class Evaluable(Protocol):
    """A file under a name; `system` is for recipes whose arguments a package set fills."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def system(self) -> str: ...


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A file to evaluate that is in no checkout, or under another name."""

    name: str
    path: Path
    system: str = ""


TREE_HINT = "--nixpkgs PATH, or TORCHSMITH_NIXPKGS, takes a nixpkgs tree on this machine instead"


def reachable(results: list[EvalResult]) -> list[EvalResult]:
    """The results. Raises Failed if every recipe failed because of a download or of its nixpkgs."""
    causes = failures_of(results)
    if len(causes) == len(results) and exit_of(causes.values()) is Exit.ENVIRONMENT:
        raise Failed(results[0].cause.message if results[0].cause else "", hint=TREE_HINT)
    return results


def failures_of(results: Iterable[EvalResult]) -> dict[str, Cause]:
    """The recipes that do not evaluate, by name."""
    return {result.name: result.cause for result in results if result.cause is not None}


def exit_of(causes: Collection[Cause]) -> Exit:
    """The exit code for failures: ENVIRONMENT if all are due to downloads, or to trees of nixpkgs."""
    if not causes:
        return Exit.OK
    return Exit.ENVIRONMENT if all(map(needs_tree, causes)) else Exit.CHECK_FAILED


def needs_tree(cause: Cause) -> bool:
    """Whether a recipe failed for want of a nixpkgs: it was not downloaded, or not made for the system."""
    return cause.code in ("fetch", "system")


Listener = Callable[[EvalResult], None]
Evaluate = Callable[[Sequence[Evaluable]], list[EvalResult]]


def check_tree(path: Path) -> Path:
    """The resolved path of a nixpkgs tree. Raises Invalid if it is not one."""
    resolved = path.resolve()
    for part in ("default.nix", "lib/default.nix"):
        if not (resolved / part).is_file():
            hint = "give the folder that holds nixpkgs' default.nix, lib and pkgs"
            raise Invalid(f"{path} is not a nixpkgs tree: it has no {part}", hint=hint)
    return resolved


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How recipes are evaluated, and what is collected besides."""

    trees: Mapping[str, Path] = field(default_factory=dict)  # in place of nixpkgs at a revision, or "default"
    addresses: Collection[str] = ()  # that may be downloaded besides nixpkgs at a revision, each whole
    limits: WorkerLimits | None = None
    cache: ResultCache | None = None
    instantiate: bool = False  # also put the derivations into the store
    twin: bool = False  # evaluate recipes of any system for this machine's: their sources are the same
    phases: Mapping[str, str] = field(default_factory=dict)  # build phases by name, in place of their own
    keeper: Keeper | None = None  # protects derivations in the store from garbage collection


def evaluate(
    requests: Sequence[Evaluable],
    nix: Nix,
    options: EvaluationOptions | None = None,
    *,
    on_event: Listener = lambda _: None,
) -> list[EvalResult]:
    """Evaluate recipes; results in the order of the requests. A recipe whose nixpkgs cannot be used for its
    system is not at fault: its cause has the code `system`."""
    options = options or EvaluationOptions()
    results, failed = _evaluate(requests, nix, options, on_event)
    if failed and not options.twin:
        refused = _refused_systems(failed, nix, options)
        for job in failed:
            for cause in (refused[use] for use in _uses(job) if use in refused):
                results[job.name] = replace(results[job.name], cause=cause)
    return [results[request.name] for request in requests]


NixpkgsUse = tuple[
    Tarball | None, str
]  # a nixpkgs as a recipe fetches it, None: the given tree; and a system


def _uses(job: EvalJob) -> list[NixpkgsUse]:
    """Each nixpkgs that a recipe takes, with its system."""
    if not job.system:
        return []
    fetched = [(tarball, job.system) for tarball in job.tarballs if "nixpkgs" in tarball.url]
    return [*fetched] or [(None, job.system)]


def _refused_systems(
    failed: Sequence[EvalJob], nix: Nix, options: EvaluationOptions
) -> dict[NixpkgsUse, Cause]:
    """Why the nixpkgs of failed recipes make nothing at all for their systems, if they do not."""
    uses = list(dict.fromkeys(use for job in failed for use in _uses(job)))
    uses = [use for use in uses if use[0] or "default" in options.trees]
    with tempfile.TemporaryDirectory(prefix="torchsmith-system-") as folder:
        probes = []
        for number, (tarball, system) in enumerate(uses):
            probe = '{ stdenv }: stdenv.mkDerivation { name = "probe"; }'
            if tarball is not None:
                nixpkgs = f"(fetchTarball {nix_value(tarball.arguments())}) {nix_value({'system': system})}"
                probe = f"({probe}) {{ inherit (import {nixpkgs}) stdenv; }}"
            path = Path(folder).resolve() / f"{number}.nix"
            path.write_text(probe)
            probes.append(EvaluationRequest(str(number), path, system))
        plain = replace(options, cache=None, instantiate=False, phases={}, keeper=None)
        results, _ = _evaluate(probes, nix, plain, lambda _: None)
    causes = zip(uses, (results[probe.name].cause for probe in probes), strict=True)
    return {
        (tarball, system): Cause(f"nixpkgs cannot be used for {system}: {cause.message}", code="system")
        for (tarball, system), cause in causes
        if cause is not None and cause.code == "recipe"
    }


def _evaluate(
    requests: Sequence[Evaluable], nix: Nix, options: EvaluationOptions, on_event: Listener
) -> tuple[dict[str, EvalResult], list[EvalJob]]:
    """The results by name, and the recipes that failed by an error that may be their own."""
    failed: list[EvalJob] = []
    phases, keeper, twin = options.phases, options.keeper, options.twin
    known_trees = {rev: str(check_tree(path)) for rev, path in options.trees.items()}
    identity = {"nix": nix.version_text, "current": nix.current_system, "twin": str(twin)}
    memory = _Memory(options.cache, identity | nix.store_settings, known_trees)
    results: dict[str, EvalResult] = {}

    def done(result: EvalResult) -> None:
        results[result.name] = result
        on_event(result)

    recalled = {request.name: memory.recall(request, phases.get(request.name, "")) for request in requests}
    known = {name: cached for name, cached in recalled.items() if cached is not None}
    there: Collection[str] = {cached.evaluated.drv_path for cached in known.values()}
    if options.instantiate:
        there = {path for path in there if nix.store_file(path).exists()}
    there = keeper.keep(there) if keeper else there
    pending: list[Evaluable] = []
    for request in requests:
        cached = known.get(request.name)
        if cached is None or cached.evaluated.drv_path not in there:
            pending.append(request)
        else:
            done(EvalResult(request.name, request.path, 0.0, cached.evaluated, cached=True))
    for attempts in range(MOST_ATTEMPTS, 0, -1):
        if not pending:
            break
        limits = options.limits or WorkerLimits(workers=default_workers())
        system = nix.current_system if twin else ""
        session = Session(nix, limits, options.instantiate, system, keeper=keeper)
        for request in pending:
            phase = phases.get(request.name, "")
            session.preparation.add(request.name, request.path, system=request.system, build_phase=phase)
        jobs = {job.name: job for job in session.preparation.jobs}
        lost: set[str] = set()
        with closing(_evaluate_jobs(session, known_trees, options.addresses)) as evaluating:
            for result in evaluating:
                if result.lost and attempts > 1:
                    lost.add(result.name)
                else:
                    memory.keep(jobs[result.name], result)
                    done(result)
                    if result.cause and result.cause.code == "recipe":
                        failed.append(jobs[result.name])
        pending = [request for request in pending if request.name in lost]
    return results, failed


class _CachedResult(msgspec.Struct, frozen=True):
    """A result, and the files that it was made from."""

    read: Mapping[str, str]
    evaluated: Evaluated


class _Memory:
    """Results of earlier runs that still hold: the same Nix, store, trees and files."""

    def __init__(
        self, cache: ResultCache | None, identity: Mapping[str, str], trees: Mapping[str, str]
    ) -> None:
        self.cache = cache
        self.prints = Fingerprints()
        self.keys: dict[str, str] = {}
        used = trees if cache is not None else {}
        prints = {f"tree {rev}": self.prints.tree(Path(path)) for rev, path in used.items()}
        self.identity = {**identity, **prints}

    def recall(self, request: Evaluable, build_phase: str) -> _CachedResult | None:
        if self.cache is None:
            return None
        path = request.path
        own = {"recipe": self.prints.of(path), "path": os.path.realpath(path), "system": request.system}
        own |= {"phase": build_phase} if build_phase else {}
        key = self.keys[request.name] = key_of({**self.identity, **own})
        cached = self.cache.load(key, _CachedResult)
        if cached is None:
            return None
        same = all(self.prints.of(file) == was for file, was in cached.read.items())
        return cached if same else None

    def keep(self, job: EvalJob, result: EvalResult) -> None:
        """Keep a derivation; an error may be due to a file or a network that is missing only now."""
        if self.cache is not None and result.evaluated is not None and job.text is not None:
            read = {str(path): self.prints.of(path) for path in job.reads}
            self.cache.keep(self.keys[job.name], _CachedResult(read, result.evaluated))


def _evaluate_jobs(
    session: Session, trees: Mapping[str, str], addresses: Collection[str]
) -> Generator[EvalResult, None, None]:
    """Fetch what recipes pin, plan which of them go together, and evaluate them; results as they come."""
    jobs = session.preparation.jobs
    places = {rev: Path(tree) for rev, tree in trees.items()}
    wanted = [tarball for job in jobs for tarball in job.tarballs if tree_for(places, tarball.url) is None]
    session.nix.make_store()
    downloads = fetch_all(session.nix, wanted, addresses)
    if session.keeper is not None:
        session.keeper.keep(download.path for download in downloads.values() if download.path)
    batches = plan_batches(jobs, session.limits.workers)
    with tempfile.TemporaryDirectory(prefix="torchsmith-eval-") as folder:
        place = Path(folder).resolve()
        own = {rev: str(without_git(Path(tree), place / f"tree-{rev}")) for rev, tree in trees.items()}
        session = replace(session, folder=place, trees=own, downloads=downloads)
        session.write()
        yield from _run_batches(session, batches)


def plan_batches(jobs: Iterable[EvalJob], workers: int) -> list[list[EvalJob]]:
    """Which recipes go into one process: those of one system that share their imports, split if workers would
    idle."""
    batches: list[list[EvalJob]] = []
    for group in grouped(((job.system, job.shares or job.group or id(job)), job) for job in jobs).values():
        parts = max(1, min(workers, len(group) // SMALLEST_BATCH))
        batches += [group[part::parts] for part in range(parts)]
    return sorted(batches, key=len, reverse=True)


def _run_batches(session: Session, batches: list[list[EvalJob]]) -> Iterator[EvalResult]:
    """Run batches side by side; what a worker leaves undone goes to a new one."""
    with ThreadPoolExecutor(max(1, session.limits.workers)) as pool:
        running: dict[Future[list[EvalJob]], int] = {}
        waiting = list(batches)
        results: list[EvalResult] = []
        while waiting or running:
            while waiting and len(running) < max(1, session.limits.workers):
                batch = waiting.pop(0)
                running[pool.submit(run_batch, session, batch, results.append)] = len(batch)
            ended, _ = wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
            while results:
                yield results.pop(0)
            for future in ended:
                size = running.pop(future)
                remaining = future.result()
                if remaining and len(remaining) == size:
                    raise Failed("a worker ended without evaluating anything")
                if remaining:
                    waiting.insert(0, remaining)


def default_workers() -> int:
    """Half of the cores, at most four: the collector has threads of its own."""
    return max(1, min(4, (os.cpu_count() or 2) // 2 + 1))
