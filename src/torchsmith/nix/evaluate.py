"""Evaluating a whole workspace: cached results first, then few processes, each failure on its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import msgspec

from torchsmith.core.problem import Exit, Failed, Invalid
from torchsmith.core.text import grouped
from torchsmith.nix.cache import Fingerprints, ResultCache, key_of
from torchsmith.nix.errors import Cause
from torchsmith.nix.fetch import fetch_all, tree_for
from torchsmith.nix.keeper import Keeper
from torchsmith.nix.prepare import PreparedRecipe
from torchsmith.nix.readable import without_git
from torchsmith.nix.tool import Nix
from torchsmith.nix.worker import EvalResult as EvalResult
from torchsmith.nix.worker import Evaluated, Session, WorkerLimits, run_batch

TRIES = 5  # at a derivation that was collected as garbage before it could be held on to
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
    """A file to evaluate that no checkout holds, or under a name of its own."""

    name: str
    path: Path
    system: str = ""


LACKING = {
    "cannot download": "--nixpkgs PATH, or TORCHSMITH_NIXPKGS, takes a nixpkgs tree that is here instead",
    "cannot connect to socket": "start nix-daemon, or be let in by it; torchsmith doctor says how it stands",
}


def reachable(results: list[EvalResult]) -> list[EvalResult]:
    """The results; a Problem where nothing evaluates because nixpkgs or the store is out of reach."""
    causes = [result.cause.message if result.cause else "" for result in results if not result.ok]
    if len(causes) == len(results) and exit_of(causes) is Exit.LACKING:
        hint = next(hint for words, hint in LACKING.items() if words in causes[0])
        raise Failed(causes[0], hint=hint)
    return results


def exit_of(causes: Collection[str]) -> Exit:
    """What failures make of a verb's exit code: what is merely out of reach says nothing of a recipe."""
    if not causes:
        return Exit.FINE
    beyond = all(any(words in cause for words in LACKING) for cause in causes)
    return Exit.LACKING if beyond else Exit.NOT_RIGHT


Listener = Callable[[EvalResult], None]
Evaluate = Callable[[Sequence[Evaluable]], list[EvalResult]]


def check_tree(path: Path) -> Path:
    """A nixpkgs tree, or a Problem that says why it is none."""
    resolved = path.resolve()
    for part in ("default.nix", "lib/default.nix"):
        if not (resolved / part).is_file():
            hint = "give the folder that holds nixpkgs' default.nix, lib and pkgs"
            raise Invalid(f"{path} is not a nixpkgs tree: it has no {part}", hint=hint)
    return resolved


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How recipes are evaluated, and what is asked of them besides."""

    trees: Mapping[str, Path] = field(default_factory=dict)  # in place of nixpkgs at a revision, or "default"
    addresses: Collection[str] = ()  # that may be downloaded besides nixpkgs at a revision, each whole
    limits: WorkerLimits | None = None
    cache: ResultCache | None = None
    alone: bool = False  # share nothing: a process for each
    instantiate: bool = False  # also put the derivations into the store
    twin: bool = False  # as if recipes of any system were for this machine's, whose sources are the same
    phases: Mapping[str, str] = field(default_factory=dict)  # build phases by name, in place of their own
    inventory: bool = False  # also tell what recipes are made of
    keeper: Keeper | None = None  # holds on to each derivation from the moment that it is in the store


def evaluate(
    requests: Sequence[Evaluable],
    nix: Nix,
    options: EvaluationOptions | None = None,
    *,
    tell: Listener = lambda _: None,
) -> list[EvalResult]:
    """Evaluate recipes; results in the order of the requests."""
    options = options or EvaluationOptions()
    phases, keeper, twin = options.phases, options.keeper, options.twin
    known_trees = {rev: str(check_tree(path)) for rev, path in options.trees.items()}
    identity = {"nix": nix.version_text, "current": nix.current_system, "twin": str(twin)}
    identity |= {"inventory": "1"} if options.inventory else {}
    memory = _Memory(options.cache, identity, known_trees, nix if options.instantiate else None)
    results: dict[str, EvalResult] = {}

    def done(result: EvalResult) -> None:
        results[result.name] = result
        tell(result)

    recalled = {request.name: memory.recall(request, phases.get(request.name, "")) for request in requests}
    known = {name: kept for name, kept in recalled.items() if kept is not None}
    derivations = {name: kept.evaluated.drv_path for name, kept in known.items() if kept.evaluated}
    there = keeper.keep(derivations.values()) if keeper else frozenset(derivations.values())
    pending: list[Evaluable] = []
    for request in requests:
        kept = known.get(request.name)
        if kept is None or (kept.evaluated and kept.evaluated.drv_path not in there):
            pending.append(request)
        else:
            done(EvalResult(request.name, request.path, 0.0, kept.evaluated, kept.cause, cached=True))
    for left in range(TRIES, 0, -1):
        if not pending:
            break
        limits = options.limits or WorkerLimits(workers=default_workers())
        system = nix.current_system if twin else ""
        session = Session(nix, limits, options.instantiate, system, options.inventory, keeper=keeper)
        for one in pending:
            phase = phases.get(one.name, "")
            session.preparation.add(
                one.name, one.path, system=one.system, alone=options.alone, build_phase=phase
            )
        jobs = {job.name: job for job in session.preparation.jobs}
        lost: set[str] = set()

        def finish(
            result: EvalResult,
            left: int = left,
            jobs: Mapping[str, PreparedRecipe] = jobs,
            lost: set[str] = lost,
        ) -> None:
            if result.lost and left > 1:
                lost.add(result.name)
                return
            memory.keep(jobs[result.name], result)
            done(result)

        _work_off(session, known_trees, options.addresses, options.alone, finish)
        pending = [one for one in pending if one.name in lost]
    return [results[request.name] for request in requests]


class _Kept(msgspec.Struct, frozen=True):
    """A result, and the files that it was made from."""

    read: Mapping[str, str]
    evaluated: Evaluated | None = None
    cause: Cause | None = None


class _Memory:
    """Results of earlier runs that still hold: the same Nix, trees and files. With `nix` a result counts only
    where its derivation is in the store."""

    def __init__(
        self,
        cache: ResultCache | None,
        identity: Mapping[str, str],
        trees: Mapping[str, str],
        nix: Nix | None,
    ) -> None:
        self.cache, self.nix = cache, nix
        self.prints = Fingerprints()
        self.keys: dict[str, str] = {}
        used = trees if cache is not None else {}
        prints = {f"tree {rev}": self.prints.tree(Path(path)) for rev, path in used.items()}
        self.identity = {**identity, **prints}

    def recall(self, request: Evaluable, build_phase: str) -> _Kept | None:
        if self.cache is None:
            return None
        path = request.path
        own = {"recipe": self.prints.of(path), "path": os.path.realpath(path), "system": request.system}
        own |= {"phase": build_phase} if build_phase else {}
        key = self.keys[request.name] = key_of({**self.identity, **own})
        kept = self.cache.load(key, _Kept)
        if kept is None:
            return None
        if self.nix and kept.evaluated and not self.nix.store_file(kept.evaluated.drv_path).exists():
            return None
        same = all(self.prints.of(file) == was for file, was in kept.read.items())
        return kept if same else None

    def keep(self, job: PreparedRecipe, result: EvalResult) -> None:
        """Keep a derivation, or an error that the recipe itself gives rise to."""
        lasting = result.ok or (result.cause is not None and result.cause.lasting)
        if self.cache is not None and lasting and job.text is not None:
            read = {str(path): self.prints.of(path) for path in job.reads}
            self.cache.keep(self.keys[job.name], _Kept(read, result.evaluated, result.cause))


def _work_off(
    session: Session, trees: Mapping[str, str], addresses: Collection[str], alone: bool, finish: Listener
) -> None:
    """Fetch what recipes pin, plan which of them go together, and evaluate them."""
    jobs = session.preparation.jobs
    places = {rev: Path(tree) for rev, tree in trees.items()}
    wanted = [tarball for job in jobs for tarball in job.tarballs if tree_for(places, tarball.url) is None]
    session.nix.make_store()
    downloads = fetch_all(session.nix, wanted, addresses)
    if session.keeper is not None:
        session.keeper.keep(download.path for download in downloads.values() if download.path)
    batches = [[job] for job in jobs] if alone else plan_batches(jobs, session.limits.workers)
    with tempfile.TemporaryDirectory(prefix="torchsmith-eval-") as folder:
        place = Path(folder).resolve()
        own = {rev: str(without_git(Path(tree), place / f"tree-{rev}")) for rev, tree in trees.items()}
        session = replace(session, folder=place, trees=own, downloads=downloads)
        session.write()
        _side_by_side(session, batches, finish)


def plan_batches(jobs: Iterable[PreparedRecipe], workers: int) -> list[list[PreparedRecipe]]:
    """Which recipes go into one process: those that share their imports, split where workers would idle."""
    batches: list[list[PreparedRecipe]] = []
    for group in grouped((job.shares or job.group or id(job), job) for job in jobs).values():
        parts = max(1, min(workers, len(group) // SMALLEST_BATCH))
        batches += [group[part::parts] for part in range(parts)]
    return sorted(batches, key=len, reverse=True)


def _side_by_side(session: Session, batches: list[list[PreparedRecipe]], finish: Listener) -> None:
    """Run batches side by side; what a worker leaves undone goes to a new one."""
    with ThreadPoolExecutor(max(1, session.limits.workers)) as pool:
        running: dict[Future[list[PreparedRecipe]], int] = {}
        waiting = list(batches)
        results: list[EvalResult] = []
        while waiting or running:
            while waiting and len(running) < max(1, session.limits.workers):
                batch = waiting.pop(0)
                running[pool.submit(run_batch, session, batch, results.append)] = len(batch)
            ended, _ = wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
            while results:
                finish(results.pop(0))
            for future in ended:
                size = running.pop(future)
                left = future.result()
                if left and len(left) == size:
                    raise Failed("a worker ended without evaluating anything")
                if left:
                    waiting.insert(0, left)


def default_workers() -> int:
    """Half of the cores, at most four: the collector has threads of its own."""
    return max(1, min(4, (os.cpu_count() or 2) // 2 + 1))
