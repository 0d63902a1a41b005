"""`torchsmith pick`: the build of torch that suits a machine, and PyTorch's own wheel for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Self

import msgspec

from torchsmith.catalog import Catalog, CudaVersion, PythonVersion, Sm
from torchsmith.catalog.axes import BadValue
from torchsmith.catalog.runs import driver_runs
from torchsmith.cli.console import columns, command, command_lines, exit_if, print_json, warn, write
from torchsmith.cli.facts_view import print_facts
from torchsmith.cli.machine_options import MachineOptions, PackagesOption, WorkloadOption
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption
from torchsmith.cli.request import Option, Request
from torchsmith.core.problem import Conflict, Invalid, by_name
from torchsmith.core.text import counted, grouped, shell_word, some_of
from torchsmith.host import pick as host
from torchsmith.host.active import active_python
from torchsmith.host.answer import CandidateRow, machine_line, missing_builds, notes_on
from torchsmith.host.candidates import Holds, for_python, of_release, why_none
from torchsmith.host.commands import (
    Environment,
    build_commands,
    detect_environment,
    install_command,
)
from torchsmith.host.cost import Cost
from torchsmith.host.facts import HostFacts
from torchsmith.host.rank import Compatible, why_after
from torchsmith.host.wheels import WheelOffer, WheelWish, wheels_for
from torchsmith.matrix.select import is_product
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith pick --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"
FEW = 3  # findings, near misses and notes that are shown
ROOM = 12  # lines of an answer without --explain
LEAST_DROPPED = 2  # the rank from which lines may be left out of it


@dataclass(frozen=True, kw_only=True)
class PickRequest(Request):
    """Which build suits a machine: this one, or one that reports or options describe."""

    selectors: Selectors = ()
    machine: MachineOptions = field(default_factory=MachineOptions)
    workload: WorkloadOption = "general"
    package: PackagesOption = ()
    python: Annotated[str, Option("The Python, such as 3.12; by default the active environment's.")] = ""
    torch: Annotated[str, Option("The torch release, such as 2.12; by default the newest.")] = ""
    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    org: Annotated[
        str, Option("The Flox organisation that publishes; by default `org` of torchsmith.toml.")
    ] = ""
    explain: Annotated[bool, Option("Show everything, and for every candidate why it was not chosen.")] = (
        False
    )

    def opened(self) -> Workspace:
        """Return the workspace whose variants are candidates; without one, all that can be built."""
        return open_workspace(self.workspace, self.profile, alone="every")

    def with_products(self, catalog: Catalog) -> Self:
        """Return the request with the products among its selectors as the machine's GPUs."""
        products = tuple(word for word in self.selectors if is_product(word, catalog))
        selectors = tuple(word for word in self.selectors if word not in products)
        machine = replace(self.machine, gpu=(*self.machine.gpu, *products))
        return replace(self, selectors=selectors, machine=machine)


class BuildRow(msgspec.Struct, frozen=True, kw_only=True):
    """A build for this machine, and how to get it. Of one that would have to be added, less is known."""

    name: str
    torch: str  # the release
    assumptions: Sequence[str]  # what must be true for it that is not known
    cost: Cost  # of building it
    # By tool what installs it, and of the first row what builds all rows together; only what can run here.
    commands: dict[str, str]
    gpus: Sequence[str] = ()
    compiled_for: Sequence[str] = ()
    idle: Sequence[str] = ()  # GPUs that it leaves idle: it runs on the CPU alone
    reasons: Sequence[str] = ()
    companions: Sequence[str] = ()  # the same cell in other packages
    audit: Sequence[str] = ()  # findings of the audit in its recipe
    file: str = ""  # the torchsmith.toml to which a new one can be added; empty: none


class PickReport(msgspec.Struct, frozen=True, kw_only=True):
    """The choice for a machine, what would suit better, and PyTorch's own wheel."""

    FORMAT: ClassVar = 5
    host: HostFacts
    candidates: str  # whose matrix they are from
    matrix: str  # the same in a word or two; empty: all possible builds
    in_workspace: bool  # it is a torchsmith.toml
    machine: str  # in a line
    gpus_known: bool
    served: bool  # a build runs here, and every GPU has one that uses it
    workload: str
    workload_why: str
    choice: Sequence[BuildRow]
    unserved: Sequence[Sm]
    bundled: Sequence[str]  # packages without a cell of their own that the chosen recipe brings
    by_driver: dict[str, Sequence[str]]  # if the driver is unknown: what this one or a newer one gets instead
    by_system: dict[str, Sequence[str]]  # if the system is unknown: what another one gets
    compiled_for_one: dict[str, str]  # for a GPU that runs compatible code: the build for it alone
    notes: Sequence[str]  # about GPUs that the choice leaves out
    missing: Sequence[str]  # what no build serves, and why
    nearest: Sequence[CandidateRow]
    impossible: Sequence[CandidateRow]  # what would suit and cannot be built
    create: Sequence[BuildRow]
    wheels: Sequence[WheelOffer]  # PyTorch's own, one for each maker of the machine's GPUs
    newer: str  # the command that says what a newer torch that runs here lacks; empty: there is none
    not_chosen: Sequence[CandidateRow]  # with --explain
    no_tools: bool  # neither Nix nor Flox is installed


def pick(request: PickRequest | None = None) -> PickReport:
    """Rank the builds for a machine, and choose. Raises a Problem for an unknown word."""
    request = request or PickRequest()
    for word in request.selectors if request.machine.from_ else ():
        if Path(word).is_file():
            raise Conflict(f"{word} is a file, not a selector", hint=f"write --from {shell_word(word)}")
    opened = request.opened()
    catalog = opened.catalog
    request = request.with_products(catalog)
    facts = request.machine.facts(catalog)
    python = _python(request.python) if request.python else active_python()
    # Of a built-in matrix, the cells of torch are enough.
    complete = bool(opened.root or request.selectors or request.package)
    candidates = opened.select(request.selectors).cells if complete else opened.cells_of(catalog.torch)
    released = of_release(candidates, request.torch, catalog)
    stated = python if request.python else None
    cells = [cell for cell in released if cell.variant.python == python]
    if not cells and not stated:  # the active environment's Python counts if there is a build for it
        cells = [*released]
    has: Holds | None = None if complete else opened.has
    if not cells and stated and has:
        cells, has = for_python(stated, released, has, catalog)
    workload = by_name("workload", request.workload, catalog.workloads)
    answer = host.pick(
        facts,
        cells,
        catalog,
        workload,
        request.package,
        has,
        misses=request.explain,
        python=stated,
        torch=request.torch,
    )
    if answer.host.conflict:
        hint = "the product decides the system: drop the option that contradicts it"
        raise Conflict(answer.host.conflict, hint=hint)
    here = detect_environment(opened.root, request.org or opened.settings.org)
    missing, nearest, impossible = missing_builds(answer, catalog)
    if not cells and (request.torch or stated):
        missing = [*why_none(request.torch, request.python, catalog)]
    if not answer.has_variant and not answer.host.sms:
        archs = [word for word in request.selectors if word in map(str, catalog.gpus)]
        missing += [f"for a machine with an {arch}: torchsmith pick --gpu {arch}" for arch in archs]
    assigned = answer.choice.variants
    choice = [_chosen(one, answer, catalog, here) for one in assigned]
    create = [_create(fit, answer, opened) for fit in answer.wanted]
    # A cell whose packages come from Flox' catalog has no nixpkgs for Nix.
    flox = any(_by_flox(one.fit, catalog) for one in assigned)
    tools = msgspec.structs.replace(here, nix=here.nix and not flox)
    _add_commands(choice, [one.fit for one in assigned], answer, tools, included=True)
    _add_commands(create, answer.wanted, answer, here, included=False)
    wheels = _wheels(answer, python, request, catalog)
    matrix = opened.source.name if opened.root else f"profile {request.profile}" if request.profile else ""
    whose = f"the builds of {matrix}" if matrix else "all possible builds (no torchsmith.toml here)"
    return PickReport(
        host=answer.facts,
        candidates=f"candidates: {whose}",
        matrix=matrix,
        in_workspace=opened.root is not None,
        machine=machine_line(answer, catalog, own_cpu=request.machine.mixes(answer.facts)),
        gpus_known=answer.host.sms is not None,
        served=answer.served,
        workload=workload.name,
        workload_why=workload.why,
        choice=choice,
        unserved=answer.choice.unserved,
        bundled=answer.bundled,
        by_driver={str(driver): names for driver, names in answer.by_driver},
        by_system=dict(answer.by_system),
        compiled_for_one={str(sm): fit.variant.name for sm, fit in answer.exact},
        notes=notes_on(answer, catalog, reported=bool(request.machine.from_)),
        missing=missing,
        nearest=nearest,
        impossible=impossible,
        create=create,
        wheels=wheels,
        newer=_newer(answer, catalog),
        not_chosen=[*_not_chosen(answer, catalog)] if request.explain else (),
        no_tools=not here.nix and not here.flox,
    )


def pick_facts(request: PickRequest | None = None) -> HostFacts:
    """Return what is known about the machine, each fact with its source."""
    request = request or PickRequest()
    opened = request.opened()
    request = request.with_products(opened.catalog)
    if request.selectors:
        opened.select(request.selectors)  # raises NotKnown for a word that is misspelt
        raise Conflict(f"--facts takes GPUs only: {' '.join(request.selectors)} selects builds")
    return request.machine.facts(opened.catalog)


def _python(text: str) -> PythonVersion:
    try:
        return PythonVersion.parse(text)
    except BadValue as error:
        raise Invalid(str(error)) from error


def _wheels(
    answer: host.Pick, python: PythonVersion | None, request: PickRequest, catalog: Catalog
) -> list[WheelOffer]:
    """The wheels that run; the active environment's Python counts if one for it uses the GPU."""
    glibc = answer.facts.glibc.value if answer.facts.glibc else ""
    packages = tuple(name for name in request.package if name != catalog.torch.name)
    wish = WheelWish(python, request.torch, glibc, packages)
    found = wheels_for(answer.host, catalog, wish)
    if request.python or (found and not any(wheel.idle for wheel in found)):
        return found
    others = wheels_for(answer.host, catalog, msgspec.structs.replace(wish, python=None))
    return others if not found or not any(wheel.idle for wheel in others) else found


def _newer(answer: host.Pick, catalog: Catalog) -> str:
    """The command that says what the newest torch that runs here lacks; empty if that is chosen."""
    chosen = [catalog.lines[one.fit.cell.line] for one in answer.choice.variants if one.fit.cell.line]
    machine, sms = answer.host, answer.host.sms or ()
    for line in catalog.releases if chosen else ():
        toolkits = [
            catalog.cuda[cuda] for text in line.cuda if (cuda := CudaVersion.parse(text)) in catalog.cuda
        ]
        runs = not sms or any(
            all(map(toolkit.compiles, sms)) and (not machine.driver or driver_runs(toolkit, machine.driver))
            for toolkit in toolkits
        )
        if line in chosen:
            return ""
        if runs:
            return f"torchsmith pick --torch {line.name}"
    return ""


def _chosen(assigned: host.Assigned, answer: host.Pick, catalog: Catalog, here: Environment) -> BuildRow:
    fit, variant = assigned.fit, assigned.fit.variant
    line = catalog.lines.get(fit.cell.line)
    install = install_command(variant, here.org)
    companions = tuple(name for name in answer.companions if name.endswith(variant.cell))
    return BuildRow(
        name=variant.name,
        torch=line.torch if line else "",
        gpus=[*map(str, assigned.gpus)],
        compiled_for=[*map(str, fit.exact)],
        idle=[*map(str, fit.idle)] if not fit.used else (),
        reasons=fit.reasons,
        assumptions=[*map(str, fit.assumptions)],
        cost=answer.cost(variant, catalog),
        companions=companions,
        commands={"install": install} if install else {},
        audit=_audit_findings(here.recipe(variant), here),
    )


def _by_flox(fit: Compatible, catalog: Catalog) -> bool:
    line = catalog.lines.get(fit.cell.line)
    build = line.build_for(fit.variant.toolkit) if line else None
    return build is not None and build.style == "flox"


def _add_commands(
    rows: Sequence[BuildRow],
    fits: Sequence[Compatible],
    answer: host.Pick,
    here: Environment,
    *,
    included: bool,
) -> None:
    """Give the first row the commands that build all of them together."""
    variants = [fit.variant for fit in fits]
    also = [name for variant in variants for name in answer.also(variant)]
    if rows:
        rows[0].commands.update(build_commands(variants, here, also=also, included=included))


def _create(fit: Compatible, answer: host.Pick, opened: Workspace) -> BuildRow:
    return BuildRow(
        name=fit.variant.name,
        torch=opened.catalog.lines[fit.cell.line].torch,
        assumptions=[*map(str, fit.assumptions)],
        cost=answer.cost(fit.variant, opened.catalog),
        commands={},
        file=opened.adds(fit.variant),
    )


def _not_chosen(answer: host.Pick, catalog: Catalog) -> Iterator[CandidateRow]:
    """Yield every other candidate and why it was not chosen."""
    chosen = [assigned.fit for assigned in answer.choice.variants]
    for fit in answer.ranking.fits:
        if fit not in chosen:
            why = f"runs, but {why_after(fit, chosen[0], catalog, answer.workload)}" if chosen else "runs"
            yield CandidateRow(fit.variant.name, why)
    for miss in answer.ranking.misses:
        yield CandidateRow(miss.variant.name, "; ".join(map(str, miss.reasons)))


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
    names: Annotated[bool, Option("Print only the chosen names.")] = False,
    pip: Annotated[bool, Option("Print only the pip command for PyTorch's own wheel.")] = False,
    uv: Annotated[bool, Option("Print only the uv command for PyTorch's own wheel.")] = False,
    json: JsonOption = False,
) -> None:
    """Pick the build that runs best on this machine, or on one described by reports or options.

    The candidates are the builds of the workspace, or without one all that can be built. PyTorch's own wheel
    is offered too: the newest one that runs; [bold]$(torchsmith pick --uv)[/bold] installs it. The exit code
    is 1 if no build runs, or none uses a GPU of the machine; with --pip and --uv, if no wheel runs.
    [bold]--from[/bold] reads what [bold]--facts --json[/bold] printed on another machine.
    """
    if names + pip + uv + (json or facts) > 1:
        given = "--names, --pip, --uv, --facts and --json"
        raise Conflict(f"{given} exclude each other, except --facts --json", hint="give one of them")
    if facts:
        known = pick_facts(request)
        if json:
            print_json(known, sort=True)
        else:
            print_facts(known, request.opened().catalog)
        return
    report = pick(replace(request, explain=True) if json else request)
    if pip or uv:
        for wheel in report.wheels[:1]:
            sys.stdout.write(f"{wheel.uv if uv else wheel.pip}\n")
            for text in (
                *(f"provided that {text}" for text in wheel.assumptions),
                *wheel.drawbacks,
                wheel.newer,
            ):
                if text:
                    warn(f"note: {text}")
        if not report.wheels:
            wanted = f" of torch {request.torch}" if request.torch else ""
            wanted += f" for Python {request.python}" if request.python else ""
            warn(f"no wheel{wanted} runs on this machine; torchsmith pick shows what does")
        exit_if(not report.wheels)
        return
    if names:
        sys.stdout.write("".join(f"{chosen.name}\n" for chosen in report.choice))
        for text in _why_missing(report) if not report.served else ():
            warn(text)
    elif json:
        print_json(report, sort=True)
    else:
        _print_report(report, everything=request.explain)
    exit_if(not report.served)


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """A line of the answer, or a command of several; those of the highest rank are left out first, conditions
    (1) never."""

    text: str
    style: str = ""
    rank: int = 0
    wrap: bool = True  # a command is not broken


def _print_report(report: PickReport, *, everything: bool) -> None:
    """Print the machine, PyTorch's wheels, and the builds with their commands; those of a workspace, and what
    uses a GPU that the wheels leave idle, come before the wheels."""
    wheels = [*_wheel_lines(report, everything=everything)]
    builds = [*_build_lines(report, everything=everything)]
    builds_first = report.in_workspace or any(wheel.idle for wheel in report.wheels)
    lines = [AnswerLine(report.machine, "dim"), *(builds + wheels if builds_first else wheels + builds)]
    lines.append(AnswerLine(report.candidates, "dim", rank=5))
    while not everything and sum(line.text.count("\n") + 1 for line in lines) > ROOM:
        place, last = max(enumerate(lines), key=lambda row: (row[1].rank, row[0]))
        if last.rank < LEAST_DROPPED:
            break
        del lines[place]
    for line in lines:
        write(line.text, line.style, wrap=line.wrap)
    if everything:
        write(f"for {report.workload} use: {report.workload_why}", "dim")
        reasons = grouped((row.why, row.name) for row in report.not_chosen)
        rows = [(some_of(names, FEW), why) for why, names in reasons.items()]
        columns([[("not chosen", "cyan"), ("why", "cyan")], *rows])
    notes = [note for note in report.host.notes if report.choice or not note.gpu]
    few = notes if everything or len(notes) <= FEW else notes[: FEW - 1]
    for note in few:
        warn(f"note: {note}")
    if len(few) < len(notes):
        warn(f"note: {len(notes) - len(few)} more: --explain")


def _build_lines(report: PickReport, *, everything: bool) -> Iterator[AnswerLine]:
    """Yield what the machine gets. First a build that uses the GPU, then one that leaves it idle."""
    if not report.served:
        yield from _missing_lines(report)
    for chosen in report.choice:
        yield from _chosen_lines(chosen, report, everything=everything)
    if len(report.choice) > 1:
        by_cuda = all(gpu.startswith("sm") for chosen in report.choice for gpu in chosen.gpus)
        selecting = "; CUDA_VISIBLE_DEVICES selects one for a program" if by_cuda else ""
        yield AnswerLine(f"no single build runs on all GPUs{selecting}", rank=3)
    for text in report.notes:
        yield AnswerLine(text, "yellow", rank=1)
    for driver, names in report.by_driver.items():
        yield AnswerLine(f"with driver {driver} or newer: {', '.join(names)}", rank=4)
    for system, names in report.by_system.items():
        yield AnswerLine(f"on {system}: {', '.join(names)}", rank=3)
    for sm, name in report.compiled_for_one.items():
        yield AnswerLine(f"for {sm} only, {name} is compiled for it", rank=6)
    if report.served:
        yield from _missing_lines(report)
    if report.newer and report.choice:
        yield AnswerLine(f"newer torch, and what it lacks: {report.newer}", rank=5)
    if report.no_tools:
        text = "neither Nix nor Flox is installed; torchsmith doctor says how to get them"
        yield AnswerLine(text, "yellow", rank=2)


def _chosen_lines(chosen: BuildRow, report: PickReport, *, everything: bool) -> Iterator[AnswerLine]:
    several = f" for {', '.join(chosen.gpus)}" if len(report.choice) > 1 else ""
    first, last = chosen == report.choice[0], chosen == report.choice[-1]
    also = ", ".join(name.partition("-")[0] for name in chosen.companions if first)
    words = [f"torch {chosen.torch}"] * bool(chosen.torch) + [f"also {also}"] * bool(also)
    release = f" ({'; '.join(words)})" if words else ""
    conditions = f"provided that {'; '.join(chosen.assumptions)}" if chosen.assumptions else ""
    heading = f"build of {report.matrix}" if report.matrix else "own build"
    headline = f"{heading}{several}: {chosen.name}{release}"
    yield AnswerLine(headline if first or not conditions else f"{headline}: {conditions}", "bold green")
    if chosen.idle:
        yield AnswerLine(f"  runs on the CPU only and leaves {', '.join(chosen.idle)} idle", "yellow", rank=1)
    if chosen.reasons:
        yield AnswerLine(f"  {'; '.join(chosen.reasons)}", rank=2)
    if conditions and first:
        yield AnswerLine(f"  {conditions}", "yellow", rank=1)
    for text in chosen.audit:
        yield AnswerLine(f"  audit: {text}", "yellow", rank=1)
    if not last:
        return
    wheel = next((wheel for wheel in report.wheels if wheel.unused and chosen.compiled_for), None)
    if wheel and first:
        size = f" ({wheel.installed_mb / 1000:.1f} GB installed)" if wheel.installed_mb else ""
        others = counted(wheel.unused, "other GPU architecture")
        yield AnswerLine(f"  saves over the wheel: code for {others}{size}", rank=3)
    if report.bundled:
        yield AnswerLine(f"  brings {', '.join(report.bundled)}: its recipe holds them", rank=4)
    each = "" if first else ", each"
    yield AnswerLine(f"  to build{each}: {chosen.cost}", rank=2)
    second = bool(chosen.idle and report.create)  # another build would use the GPU
    commands = {
        name: text
        for row in report.choice
        for name, text in row.commands.items()
        if everything or name not in ("nix", "flox")
    }
    yield from _commands(commands, rank=4 if second else 0)


def _why_missing(report: PickReport) -> Iterator[str]:
    """Yield what is not served and why, and what would suit and cannot be built."""
    yield from report.missing
    yield from (f"nearest: {row.name}: {row.why}" for row in report.nearest)
    yield from (f"{row.name} cannot be built: {row.why}" for row in report.impossible)


def _missing_lines(report: PickReport) -> Iterator[AnswerLine]:
    """Yield what is not served, the nearest builds, and what to make."""
    for text in _why_missing(report):
        yield AnswerLine(text, "yellow", rank=1)
    better = "would be compiled for this GPU" if report.served else "would run here"
    for wanted in report.create:
        yield AnswerLine(f"own build: {wanted.name} {better}", "bold green")
        if wanted.assumptions:
            yield AnswerLine(f"  provided that {'; '.join(wanted.assumptions)}", "yellow", rank=1)
        yield AnswerLine(f"  to build: {wanted.cost}", rank=3)
        if wanted.file:
            then = command("apply", workspace=Path(wanted.file).parent)
            add = f'  add "{wanted.name}" to include in {wanted.file}, then: {then}'
            yield AnswerLine(add)
    for wanted in report.create[:1]:
        yield from _commands(wanted.commands, rank=2 if wanted.file else 0)


def _wheel_lines(report: PickReport, *, everything: bool) -> Iterator[AnswerLine]:
    for wheel in report.wheels:
        kind = f"CUDA {wheel.cuda}" if wheel.cuda else f"ROCm {wheel.rocm}" if wheel.rocm else wheel.gpu
        texts = [f"provided that {'; '.join(wheel.assumptions)}"] if wheel.assumptions else []
        alone = len(report.wheels) == 1 and not wheel.idle
        texts += ["one for all GPUs"] if len(report.choice) > 1 and alone else []
        about = "; ".join((*wheel.drawbacks, *texts))
        headline = f"PyTorch's own wheel ({wheel.torch}, {kind or 'CPU'})"
        yield AnswerLine(f"{headline}: {about}" if about else headline, "bold")
        if everything and wheel.unproved:
            yield AnswerLine(f"  {wheel.unproved}", "yellow")
        yield from _commands({"pip": wheel.pip})
        if wheel.newer:
            yield AnswerLine(f"  {wheel.newer}", rank=3)


def _commands(commands: dict[str, str], rank: int = 0) -> Iterator[AnswerLine]:
    for label, text in commands.items():
        yield AnswerLine("\n".join(command_lines({label: text})), rank=rank, wrap=False)
