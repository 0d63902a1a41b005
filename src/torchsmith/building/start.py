"""`build` as a whole: open the workspace, plan, check, run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from torchsmith.building.backends import FloxBackend, NixBackend, require_flox
from torchsmith.building.compile_cache import with_compile_cache
from torchsmith.building.events import RecipeVerified, RunNote
from torchsmith.building.farm import LOCAL, Builder, ask_isas, configured, require_able
from torchsmith.building.job import Backend, Job, OnEvent, Outcome
from torchsmith.building.jobs import recipes_above
from torchsmith.building.plan import (
    BuildPlan,
    Machine,
    Resources,
    evaluate_recipes,
    plan_with_flox,
    plan_with_nix,
    require_room,
    this_machine,
)
from torchsmith.building.post_build import (
    Copier,
    PostBuild,
    Verifier,
    built_below,
    fetch_present,
)
from torchsmith.building.queue import JobQueue, Limits
from torchsmith.building.recorder import Recorder
from torchsmith.building.rehearsal import as_rehearsals, phases_of, renamed
from torchsmith.building.report import BuildReport
from torchsmith.building.retries import Retries
from torchsmith.building.run import Run
from torchsmith.catalog import Catalog
from torchsmith.core.files import exclusive
from torchsmith.core.problem import Conflict, Invalid, MissingRequirement
from torchsmith.core.state import state_folder
from torchsmith.nix.evaluate import EvaluationOptions, Listener
from torchsmith.nix.graph import Graph
from torchsmith.nix.keeper import Keeper
from torchsmith.nix.prepare import source_hashes
from torchsmith.nix.readable import readable_root
from torchsmith.nix.store import StoreOptions, public_key
from torchsmith.nix.tool import Nix, find_nix, settings_of, stored
from torchsmith.record import Built, Record
from torchsmith.workspace.checkout import RecipeFile, choose
from torchsmith.workspace.git import head
from torchsmith.workspace.load import Workspace

ROOTS = "roots"  # keeps what a run shares from being collected until it is done
MACHINE_TOOLS = ("/bin", "/usr", "/lib", "/lib64")
BackendName = Literal["nix", "flox"]

# A dry run without a network says what it knows at once; a build asks its caches again and again.
IMPATIENT = (("download-attempts", "1"), ("connect-timeout", "3"))


@dataclass(frozen=True)
class BuildSpec:
    """What a run is to do."""

    selectors: tuple[str, ...] = ()
    backend: BackendName = "nix"
    trees: Mapping[str, Path] = field(default_factory=dict)  # nixpkgs trees in place of downloads
    resources: Resources = field(default_factory=Resources)
    cache: str = ""
    sign: Path | None = None
    local: bool = False  # use no other machine
    keep_going: bool = True
    timeout: int = 0  # seconds that a build may take; 0: as nix.conf says
    silent_timeout: int = 0  # seconds without output
    verify: bool = False  # each build, also those that were there
    rehearse: bool = False  # compile a sample of each in place of all
    small: bool = False  # nixpkgs is our sample: a build needs far less than estimates

    @property
    def nixpkgs(self) -> list[str]:
        """The trees as --nixpkgs takes them, in any folder."""
        words = {rev: f"{rev}={tree.absolute()}" for rev, tree in self.trees.items()}
        if default := self.trees.get("default"):
            words["default"] = "sample" if self.small else str(default.absolute())
        return list(words.values())


@dataclass
class Prepared:
    """A planned run, ready to start."""

    request: BuildSpec
    workspace: Workspace
    record: Record
    plan: BuildPlan
    nix: Nix | None = None
    graph: Graph | None = None  # of the recipes that evaluate; None with Flox
    options: StoreOptions = field(default_factory=StoreOptions)
    builders: Sequence[Builder] = field(default_factory=tuple)
    recipes: Sequence[RecipeFile] = ()
    sources: Mapping[str, Built] = field(default_factory=dict)  # recipes as they were when the run began
    verifier: Verifier | None = None  # of each build, if requested
    keeper: Keeper | None = None  # holds on to derivations

    @property
    def folder(self) -> Path:
        """Where the workspace's record and logs are."""
        return state_folder(self.workspace.home)

    def close(self) -> None:
        """Let derivations be collected as garbage."""
        if self.keeper is not None:
            self.keeper.close()

    def backend(self) -> Backend:
        if self.nix is None:
            return FloxBackend(self.workspace.home, require_flox())
        remote = [builder for builder in self.builders if builder.address]
        builders = self.builders if remote else ()
        return NixBackend(self.nix, self.options, self.folder / "results", self.folder / ROOTS, builders)

    def limits(self) -> Limits:
        """How many jobs each system has room for."""
        share = self.plan.share
        systems = {job.system for job in self.plan.jobs}
        remote = [builder for builder in self.builders if builder.address]
        if not remote:
            return Limits(dict.fromkeys(systems, share.jobs), share.jobs, share.cores, share.memory_gb)
        slots = {
            system: sum(
                builder.max_jobs if builder.address else share.jobs
                for builder in self.builders
                if system in builder.systems
            )
            for system in systems
        }
        return Limits(slots, max(1, sum(slots.values())), share.cores)

    def run(self, on_event: OnEvent) -> BuildReport:
        """Build; two runs of a workspace exclude each other."""
        request, lock = self.request, self.folder / "build.lock"
        with exclusive(lock, what=f"building in {self.workspace.root}"):
            backend = self.backend()
            self.sources = sources_now(self.recipes)
            copier = Copier(self.nix, request.cache, request.sign) if self.nix and request.cache else None
            post_build = PostBuild(self.verifier, copier)
            present = self._take_present(post_build, on_event)
            number = self.record.start_run(request.backend, request.selectors, request.nixpkgs)
            finished = Run(
                jobs=JobQueue(self.plan.jobs, self.plan.expected, self.limits()),
                retries=Retries(),
                recorder=Recorder(self.record, number, self.folder / "logs" / str(number), on_event),
                backend=backend,
                catalog=self.workspace.catalog,
                built=self._built,
                post_build=post_build,
                keep_going=request.keep_going,
                broken=len(self.plan.broken),
            ).go()
            if finished.state == "done":
                shutil.rmtree(self.folder / ROOTS, ignore_errors=True)
            wrong = {**present.wrong, **finished.wrong}
            jobs, results = self.plan.jobs, self.folder / "results"
            built = [name for job in jobs if job.name in finished.done for name in job.recipes]
            right = (name for name in (*built, *present.settled) if name not in wrong)
            return replace(
                finished,
                notes=(*present.notes, *finished.notes),
                settled=present.settled,
                wrong=wrong,
                broken=self.plan.broken,
                jobs=len(jobs),
                above={name: recipes_above(jobs, name) for name in finished.failed},
                results={name: place for name in right if (place := stored(results / name)).exists()},
            )

    def _take_present(self, post_build: PostBuild, on_event: OnEvent) -> BuildReport:
        """Fetch, root, record, verify and copy recipes that need no build."""
        if self.nix is None or self.graph is None:
            return BuildReport("done")
        results = self.folder / "results"
        present, notes = fetch_present(self.nix, self.plan, self.graph, self.options, results, on_event)
        for recipe in present:
            self._note(recipe.name, recipe.derivation, recipe.outputs)
        wrong = {recipe.name: why for recipe in present if (why := self._why_wrong(recipe, on_event))}
        if post_build.copier is not None:
            outputs = {path for recipe in present for path in recipe.outputs}
            not_copied = {path for recipe in present if recipe.name in wrong for path in recipe.outputs}
            paths = {*outputs, *built_below(self.nix, self.graph, self.workspace.catalog)} - not_copied
            notes += filter(None, [post_build.copier.copy(sorted(paths))])
        for note in notes:
            on_event(RunNote(detail=note))
        names = tuple(recipe.name for recipe in present)
        return BuildReport("done", notes=tuple(notes), settled=names, wrong=wrong)

    def _why_wrong(self, recipe: Built, on_event: OnEvent) -> str:
        """What is wrong with a build that was there, by the record, or else verified now; empty: nothing."""
        if self.verifier is None or not recipe.outputs:
            return ""
        verdict = self.record.verdict(recipe.outputs[0], recipe.derivation, recipe.name)
        if verdict is None:
            verdict = self.verifier(recipe.name, recipe.outputs[0])
            if verdict is None:
                return ""
            self.record.note_verdict(msgspec.structs.replace(verdict, derivation=recipe.derivation))
        on_event(RecipeVerified(name=recipe.name, ok=verdict.ok, detail=verdict.detail))
        return "" if verdict.ok else verdict.detail or "no check says why"

    def _built(self, job: Job, outcome: Outcome) -> None:
        """Write down what each recipe of a job was when it was built."""
        for name in job.recipes:
            self._note(name, job.derivation, outcome.outputs)

    def _note(self, name: str, derivation: str, outputs: Sequence[str]) -> None:
        if self.request.rehearse:
            return  # a rehearsal is not a build
        was = self.sources.get(name, Built(name=name, outputs=()))
        self.record.note_built(msgspec.structs.replace(was, derivation=derivation, outputs=tuple(outputs)))


def prepare(
    request: BuildSpec,
    workspace: Workspace,
    record: Record,
    *,
    on_event: Listener = lambda _: None,
    verifier: Verifier | None = None,
) -> Prepared:
    """Evaluate and plan; builds nothing. Raises Invalid, Conflict, MissingRequirement."""
    if urlsplit(request.cache).password:
        hint = "put it into the netrc file that Nix reads"
        raise Invalid("the cache's address holds a password", hint=hint)
    recipes = choose(request.selectors, workspace, workspace.home).recipes
    past = record.past()
    if request.backend == "flox":
        require_flox("build with --backend nix")
        machine = this_machine()
        plan = plan_with_flox(recipes, workspace, past, machine, request.resources)
        plan = with_compile_cache(plan, workspace.catalog) if workspace.settings.ccache else plan
        plan = _checked(plan, request, machine, ())
        return Prepared(request, workspace, record, plan, recipes=recipes, verifier=verifier)
    nix = find_nix()
    keeper = Keeper(nix)
    options = _store_options(nix, request)
    phases = phases_of(recipes, workspace.catalog) if request.rehearse else {}
    evaluated = EvaluationOptions(
        trees=request.trees, addresses=workspace.addresses, phases=phases, keeper=keeper
    )
    evaluation = evaluate_recipes(nix, recipes, evaluated, on_event)
    if request.rehearse:
        evaluation = renamed(evaluation)
    first = next(iter(evaluation.graph.recipes.values()), "/nix/store/none")
    machine = this_machine(nix.store_file(first).parent)
    asked = replace(options, extra=(*options.extra, *IMPATIENT)) if record.read_only else options
    plan = plan_with_nix(nix, evaluation, workspace.catalog, past, machine, request.resources, asked)
    if request.rehearse:
        plan = as_rehearsals(plan)
    elif workspace.settings.ccache:
        plan = with_compile_cache(plan, workspace.catalog)
    builders = _builders(request, workspace, nix, plan)
    return Prepared(
        request=request,
        workspace=workspace,
        record=record,
        plan=_checked(plan, request, machine, builders),
        nix=nix,
        graph=evaluation.graph,
        options=options,
        builders=builders,
        recipes=recipes,
        verifier=verifier,
        keeper=keeper,
    )


def _checked(plan: BuildPlan, request: BuildSpec, machine: Machine, builders: Sequence[Builder]) -> BuildPlan:
    """The plan with its `problem`, if memory, disk or builders do not suffice."""
    here = not builders or any(not builder.address for builder in builders)
    try:
        if here and not request.small:
            require_room(machine, plan.share, list(plan.expected.values()), plan.largest_gb)
        if builders:
            require_able(builders, plan.jobs)
    except MissingRequirement as problem:
        return replace(plan, problem=problem)
    return plan


def _store_options(nix: Nix, request: BuildSpec) -> StoreOptions:
    keys = (public_key(nix, request.sign),) if request.sign else ()
    caches = (request.cache,) if request.cache else ()
    limits = (("timeout", request.timeout), ("max-silent-time", request.silent_timeout))
    extra = tuple((name, str(seconds)) for name, seconds in limits if seconds)
    if request.small and nix.store:  # a store of our own is a sandbox; the sample uses the machine's compiler
        extra += (("extra-sandbox-paths", " ".join(path for path in MACHINE_TOOLS if Path(path).exists())),)
    return StoreOptions(caches, keys, extra=extra)


def _builders(request: BuildSpec, workspace: Workspace, nix: Nix, plan: BuildPlan) -> list[Builder]:
    """This machine and Nix's other builders, with the instruction sets that they run."""
    settings = settings_of(nix)
    remote = [] if request.local else configured(workspace.settings.builder, settings.builders)
    systems, features = settings.systems, settings.features
    own = [Builder(LOCAL, systems, plan.share.jobs, features=features)]
    if request.resources.jobs == 0:
        if not remote:
            hint = "add [[builder]] to torchsmith.toml; torchsmith doctor --builders tests them"
            raise Conflict("--jobs 0 builds nothing here, and there is no other builder", hint=hint)
        own = []
    return [_with_isas(builder, workspace.catalog, nix) for builder in [*own, *remote]]


def _with_isas(builder: Builder, catalog: Catalog, nix: Nix) -> Builder:
    """A builder with the instruction sets that it runs; what this machine only emulates counts as run."""
    isas = ask_isas(builder, catalog) if builder.isas is None else None
    if isas is None:
        return builder
    emulated = frozenset() if builder.address else builder.systems - {nix.current_system}
    foreign = {isa.name for isa in catalog.isas.values() if isa.platform in emulated}
    return replace(builder, isas=isas | foreign)


def sources_now(recipes: Sequence[RecipeFile]) -> dict[str, Built]:
    """Recipes before they are built: what changes while they build was not built."""
    revision = cache(lambda folder: head(readable_root(folder / "x.nix")))
    hashes = source_hashes(recipe.path for recipe in recipes)
    return {
        recipe.name: Built(name=recipe.name, source=source, revision=revision(recipe.path.parent), outputs=())
        for recipe, source in zip(recipes, hashes, strict=True)
    }
