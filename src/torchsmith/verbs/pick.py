"""`torchsmith pick`: the build of torch that suits a machine, and PyTorch's own wheel for it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Self

import msgspec

from torchsmith.catalog import Catalog, PythonVersion
from torchsmith.catalog.axes import BadValue
from torchsmith.catalog.names import cpu_of_words
from torchsmith.cli.console import exit_if, print_json, warn
from torchsmith.cli.facts_view import print_facts
from torchsmith.cli.machine_options import MachineOptions, PackagesOption, WorkloadOption
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption, complete_from
from torchsmith.cli.pick_report import (
    BuildRow,
    CandidateRow,
    PickReport,
    machine_line,
    missing_builds,
    notes_on,
)
from torchsmith.cli.pick_view import print_pick, why_missing
from torchsmith.cli.request import Option, Request
from torchsmith.core.problem import Conflict, Invalid, NotKnown, Problem, by_name
from torchsmith.core.text import listed, shell_word
from torchsmith.host import pick as host
from torchsmith.host.candidates import Holds, built_pythons, for_python, of_release, why_none
from torchsmith.host.commands import Environment, build_commands, detect_environment
from torchsmith.host.facts import Fact, HostFacts
from torchsmith.host.rank import Compatible, why_after
from torchsmith.host.resolve import Capability, capability_of, resolve
from torchsmith.host.stated import names_gpus
from torchsmith.host.wheel_needs import WheelWish, why_no_wheel
from torchsmith.host.wheels import WheelOffer, wheels_for
from torchsmith.matrix import Cell
from torchsmith.matrix.select import Selector, is_of_axes, joined, plain_arch
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith pick --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"
FEW = 3  # findings of the audit that are shown
RELEASE = re.compile(r"(torch|python):(\d+(?:\.\d+)*)")


@dataclass(frozen=True, kw_only=True)
class PickRequest(Request):
    """Which build suits a machine: this one, or one that reports or options describe."""

    selectors: Selectors = ()
    machine: MachineOptions = field(default_factory=MachineOptions)
    workload: WorkloadOption = "general"
    package: PackagesOption = ()
    python: Annotated[str, Option("The Python, such as 3.12; by default the active environment's.")] = ""
    torch: Annotated[
        str,
        Option(
            "The torch release, such as 2.12; by default the newest.",
            complete=complete_from("wheel_releases"),
        ),
    ] = ""
    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    org: Annotated[
        str, Option("The Flox organisation that publishes; by default `org` of torchsmith.toml.")
    ] = ""

    def opened(self) -> Workspace:
        """Return the workspace whose variants are candidates; without one, all that can be built."""
        return open_workspace(self.workspace, self.profile, default_profile="every")

    def with_words(self, catalog: Catalog) -> Self:
        """Return the request with products (also without quotes) and releases (torch:2.12) as options, and
        packages by the names of the catalog."""
        releases = {match[1]: match[2] for word in self.selectors if (match := RELEASE.fullmatch(word))}
        words = [word for word in self.selectors if not RELEASE.fullmatch(word)]
        words = [*joined(words, lambda words: names_gpus(words, catalog) or bool(_cpu(words, catalog)))]
        archs = {*map(str, catalog.gpus), *catalog.gfx}
        products = [word for word in words if plain_arch(word) in archs or names_gpus(word, catalog)]
        cpus = {word: cpu for word in words if word not in products and (cpu := _cpu(word, catalog))}
        named = list(filter(None, dict.fromkeys((self.machine.cpu, *cpus.values()))))
        if len(named) > 1:
            raise Conflict(f"two CPUs are named: {', '.join(named)}")
        for axis, release in releases.items():
            if getattr(self, axis) not in ("", release):
                raise Conflict(f"--{axis} {getattr(self, axis)} and {axis}:{release} contradict each other")
        names = {package.attr: package.name for package in catalog.packages.values()}
        return replace(
            self,
            selectors=tuple(word for word in words if word not in products and word not in cpus),
            machine=replace(self.machine, gpu=(*self.machine.gpu, *products), cpu="".join(named)),
            package=tuple(names.get(name, name) for name in self.package),
            python=releases.get("python", self.python),
            torch=releases.get("torch", self.torch),
        )


def _cpu(word: str, catalog: Catalog) -> str:
    """The CPU that a word names, if it is not a selector: zen4, Ryzen 7950X."""
    cpu = cpu_of_words(word, catalog)
    return cpu.name if cpu and not is_of_axes(word, catalog) else ""


def pick(request: PickRequest = PickRequest()) -> PickReport:
    """Rank the builds for a machine, and choose. Raises a Problem for an unknown word."""
    for word in request.selectors if request.machine.from_ else ():
        if Path(word).is_file():
            raise Conflict(f"{word} is a file, not a selector", hint=f"write --from {shell_word(word)}")
    opened = request.opened()
    catalog = opened.catalog
    words = request.selectors
    request = request.with_words(catalog)
    facts = request.machine.facts(catalog)
    stated = _python(request.python, catalog) if request.python else None
    if stated:
        facts = msgspec.structs.replace(facts, python=Fact(stated, "the command line"))
    python = facts.python.value if facts.python else None
    # This machine's counts if something exists for it, one that is stated or that a report has always.
    wanted = python if stated or request.machine.from_ else None
    # Of a built-in matrix, the cells of torch are enough.
    complete = bool(opened.root or request.selectors or request.package)
    candidates = _selected(opened, request, words) if complete else opened.cells_of(catalog.torch)
    released = of_release(candidates, request.torch, catalog)
    cells = [cell for cell in released if cell.variant.python == python]
    has: Holds | None = None if complete else opened.has
    if not cells and wanted and opened.root is None:
        cells, has = for_python(wanted, released, has, catalog)
    if not cells and not stated:  # the active environment's Python counts if there is a build for it
        cells = [*released]
    workload = by_name("workload", request.workload, catalog.workloads)
    answer = host.pick(
        facts,
        cells,
        catalog,
        workload,
        request.package,
        has,
        python=stated,
        torch=request.torch,
    )
    if answer.host.conflict:
        hint = "the product decides the system: drop the option that contradicts it"
        raise Conflict(answer.host.conflict, hint=hint)
    wish = WheelWish(
        python,
        request.torch,
        tuple(name for name in request.package if name != catalog.torch.name),
        Selector.parse(request.selectors, catalog),
    )
    wheels = _wheels(answer.host, wish, catalog, required=wanted is not None)
    here = detect_environment(opened.root, request.org or opened.settings.org)
    missing, nearest, impossible = missing_builds(answer, catalog)
    if not cells and (request.torch or stated):
        missing = [*why_none(request.torch, request.python, request.selectors, catalog, here)]
    choice = _choice(answer, here, catalog)
    verified = bool(choice) and all(chosen.verified and not chosen.idle for chosen in choice)
    release = catalog.systems.get(answer.host.release)
    matrix = opened.source.name if opened.root else f"profile {request.profile}" if request.profile else ""
    whose = f"the builds of {matrix}" if matrix else "all possible builds (no torchsmith.toml here)"
    return PickReport(
        host=answer.facts,
        candidates=f"candidates: {whose}",
        matrix=matrix,
        in_workspace=opened.root is not None,
        machine=machine_line(answer, catalog, own_cpu=request.machine.mixes(answer.facts)),
        gpus_known=answer.host.sms is not None and not answer.host.unknown_gpus,
        served=answer.served or any(wheel.uses_gpus_of(answer.host) for wheel in wheels),
        workload=workload.name,
        workload_why=workload.why,
        choice=choice,
        unserved=answer.choice.unserved,
        notes=notes_on(answer, catalog, reported=bool(request.machine.from_)),
        missing=missing,
        nearest=nearest,
        impossible=impossible,
        create=_create(answer, here, opened),
        wheels=wheels,
        no_wheel="" if wheels else why_no_wheel(answer.host, catalog, wish),
        build_first=verified or bool(release and release.wheels),
        not_chosen=[*_not_chosen(answer, catalog)],
        no_tools=not (here.nix or here.flox or request.machine.from_ or request.machine.cpu),
    )


def _selected(opened: Workspace, request: PickRequest, words: Sequence[str]) -> Sequence[Cell]:
    """Return the selected candidates. Raises NotKnown for an unknown word, with how a sentence is read."""
    try:
        return opened.select(request.selectors).cells
    except NotKnown as problem:
        from torchsmith.host.read_report import read_report

        text = " ".join(words)
        with suppress(Problem):
            known = capability_of(resolve(read_report(text, "the words", opened.catalog), opened.catalog))
            if " " in text and (known.sms or known.targets) and not known.unknown_gpus:
                sentence = f"echo {shell_word(text)} | torchsmith pick --from -"
                problem = problem.replace(hint=f"{problem.hint}; to describe a machine: {sentence}")
        raise problem from None


def pick_facts(request: PickRequest = PickRequest()) -> HostFacts:
    """Return what is known about the machine, each fact with its source."""
    opened = request.opened()
    request = request.with_words(opened.catalog)
    if request.selectors:
        opened.select(request.selectors)  # raises NotKnown for a word that is misspelt
        raise Conflict(f"--facts takes GPUs only: {' '.join(request.selectors)} selects builds")
    return request.machine.facts(opened.catalog)


def _python(text: str, catalog: Catalog) -> PythonVersion:
    try:
        return PythonVersion.parse(text)
    except BadValue as error:
        free = "free-threaded Pythons are not known here; " if text.endswith("t") else ""
        hint = f"{free}builds are for {listed(map(str, built_pythons(catalog)))}"
        raise Invalid(str(error), hint=hint) from error


def _wheels(machine: Capability, wish: WheelWish, catalog: Catalog, *, required: bool) -> list[WheelOffer]:
    """The wheels that run; a Python that is not required counts if one for it uses the GPU."""
    found = wheels_for(machine, catalog, wish)
    if required or (found and not any(wheel.idle for wheel in found)):
        return found
    others = wheels_for(machine, catalog, msgspec.structs.replace(wish, python=None))
    return found if found and any(wheel.idle for wheel in others) else others


def _choice(answer: host.Pick, here: Environment, catalog: Catalog) -> list[BuildRow]:
    """The chosen builds; the first has the commands that make all of them."""
    fits = [assigned.fit for assigned in answer.choice.variants]
    # A cell whose packages come from Flox' catalog has no nixpkgs for Nix.
    flox = any(_by_flox(fit, catalog) for fit in fits)
    here = msgspec.structs.replace(here, nix=here.nix and not flox)
    rows = []
    for assigned in answer.choice.variants:
        variant = assigned.fit.variant
        # What an organisation has published to the Flox catalog.
        install = {"install": f"flox install {here.org}/{variant.name}"} if here.org else {}
        rows.append(
            msgspec.structs.replace(
                _row(assigned.fit, answer, catalog),
                gpus=[*map(str, assigned.gpus)],
                commands=install,
                companions=[name for name in answer.companions if name.endswith(variant.cell)],
                audit=_audit_findings(here.recipe(variant), here),
                verified=_is_verified(here.recipe(variant), here),
            )
        )
    return _with_commands(rows, fits, answer, here, included=True)


def _is_verified(recipe: Path, here: Environment) -> bool:
    """Whether the record has a verified build of the recipe as it is now."""
    if here.folder is None or not recipe.exists():
        return False
    from torchsmith.core.state import state_folder
    from torchsmith.nix.prepare import source_hash
    from torchsmith.record import open_record
    from torchsmith.record.database import FILE

    root = Path(here.folder)
    if not (state_folder(root) / FILE).is_file():
        return False
    with closing(open_record(root, read_only=True)) as record:
        built = record.built(recipe.stem)
        if built is None or not built.outputs or source_hash(recipe) != built.source:
            return False
        verdict = record.verdict(built.outputs[0], built.derivation, built.name)
    return verdict is not None and verdict.ok


def _create(answer: host.Pick, here: Environment, opened: Workspace) -> list[BuildRow]:
    """The builds that would suit better and would have to be added; the first has the commands."""
    rows = [
        msgspec.structs.replace(_row(fit, answer, opened.catalog), file=opened.adds(fit.variant))
        for fit in answer.wanted
    ]
    return _with_commands(rows, answer.wanted, answer, here, included=False)


def _row(fit: Compatible, answer: host.Pick, catalog: Catalog) -> BuildRow:
    line = catalog.lines.get(fit.cell.line)
    return BuildRow(
        name=fit.variant.name,
        torch=line.torch if line else "",
        isa=fit.variant.isa,
        gpus=[*map(str, fit.used)],
        compiled_for=[*map(str, fit.exact)],
        idle=[*answer.host.gpu_names] if not fit.used else (),
        reasons=fit.reasons,
        assumptions=[*map(str, fit.assumptions)],
        cost=answer.cost(fit.variant, catalog),
        commands={},
    )


def _by_flox(fit: Compatible, catalog: Catalog) -> bool:
    line = catalog.lines.get(fit.cell.line)
    build = line.build_for(fit.variant.toolkit) if line else None
    return build is not None and build.style == "flox"


def _with_commands(
    rows: list[BuildRow],
    fits: Sequence[Compatible],
    answer: host.Pick,
    here: Environment,
    *,
    included: bool,
) -> list[BuildRow]:
    variants = [fit.variant for fit in fits]
    also = [name for variant in variants for name in answer.also(variant)]
    if rows:
        rows[0].commands.update(build_commands(variants, here, also=also, included=included))
    return rows


def _not_chosen(answer: host.Pick, catalog: Catalog) -> Iterator[CandidateRow]:
    """Yield every other candidate that runs, and why it was not chosen."""
    chosen = [assigned.fit for assigned in answer.choice.variants]
    for fit in answer.ranking.fits if chosen else ():
        if fit not in chosen:
            why = why_after(fit, chosen[0], catalog, answer.workload)
            yield CandidateRow(fit.variant.name, f"runs, but {why}")


def _audit_findings(recipe: Path, here: Environment) -> list[str]:
    """Return the first few errors and warnings of the audit in a recipe of the workspace."""
    if here.folder is None or not recipe.exists():
        return []
    from torchsmith.auditing.finding import Severity
    from torchsmith.auditing.run import audit

    serious = audit((recipe,), Path(here.folder)).of(Severity.ERROR, Severity.WARNING)
    findings = [f"{finding.rule} {finding.message}" for finding in serious]
    if len(findings) <= FEW:
        return findings
    return [*findings[: FEW - 1], f"{len(findings) - FEW + 1} more: torchsmith audit"]


def run(
    *,
    request: PickRequest,
    facts: Annotated[bool, Option("Show what is known about the machine, with sources, and stop.")] = False,
    explain: Annotated[bool, Option("Show everything, and why other builds that run were not chosen.")] = (
        False
    ),
    names: Annotated[bool, Option("Print only the chosen names.")] = False,
    pip: Annotated[bool, Option("Print only the pip command for PyTorch's own wheel.")] = False,
    uv: Annotated[bool, Option("Print only the uv command for PyTorch's own wheel.")] = False,
    json: JsonOption = False,
) -> None:
    """Pick the build that runs best on this machine, or on one described by reports or options.

    The candidates are the builds of the workspace, or without one all that can be built. PyTorch's own wheel
    is offered too: the newest one that runs; [bold]$(torchsmith pick --uv)[/bold] installs it. The exit code
    is 0 if a wheel or build of the answer uses the machine's GPUs, or it has none, and else 1.
    [bold]--from[/bold] reads what [bold]--facts --json[/bold] printed on another machine.
    """
    if names + pip + uv + (json or facts) > 1:
        given = "--names, --pip, --uv, --facts and --json"
        raise Conflict(f"{given} exclude each other, except --facts --json", hint="give one of them")
    if facts:
        known = pick_facts(request)
        if json:
            print_json(known)
        else:
            print_facts(known, request.opened().catalog)
        return
    report = pick(request)
    if pip or uv:
        wheel = next(iter(report.wheels), None)
        if wheel is None:
            why = next((f": {text}" for text in (report.no_wheel, *report.missing) if text), "")
            build = "; torchsmith pick shows a build that does" if report.choice or report.create else ""
            warn(f"no wheel runs on the machine{why}{build}")
        elif wheel.uses_no_gpu:
            warn(f"the wheel {wheel.drawbacks[0]}; --gpu none installs it")
        else:
            sys.stdout.write(f"{wheel.uv if uv else wheel.pip}\n")
            unknown = not (report.gpus_known or wheel.cuda or wheel.rocm or wheel.gpu)
            needs = [f"needs {', '.join(wheel.needs)}"] * bool(wheel.needs)
            for text in (*[report.machine] * unknown, *needs, *wheel.about, *report.host.notes):
                warn(f"note: {text}")
        if wheel and wheel.other:
            warn(f"note: {wheel.other.when}:  {wheel.other.pip}")
        exit_if(wheel is None or wheel.uses_no_gpu)
        return
    if names:
        useful = [chosen.name for chosen in report.choice if not chosen.idle]
        sys.stdout.write("".join(f"{name}\n" for name in useful))
        for chosen in report.choice:
            if chosen.idle:
                warn(f"{chosen.name} leaves {', '.join(chosen.idle)} idle")
        for text in why_missing(report) if not useful else ():
            warn(text)
        exit_if(not useful or bool(report.unserved))
    elif json:
        print_json(report)
    else:
        print_pick(report, everything=explain)
    exit_if(not report.served)
