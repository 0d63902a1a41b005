"""The answer of `pick` for people: twelve lines, or with --explain all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchsmith.cli.console import columns, command, command_lines, warn, width, wrapped, write
from torchsmith.cli.pick_report import BuildRow, PickReport
from torchsmith.core.text import grouped, some_of
from torchsmith.host.wheels import WheelOffer

FEW = 3  # findings, near misses and notes that are shown
ROOM = 12  # lines of an answer without --explain
PIPED = 120  # columns if there is no terminal


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """A line of the answer, or a command of several; those of the highest rank are left out first, those of
    rank 0, such as conditions, never."""

    text: str
    style: str = ""
    rank: int = 0
    wrap: bool = True  # a command is not broken


def print_pick(report: PickReport, *, everything: bool) -> None:
    """Print the machine, PyTorch's wheels, and the builds with their commands."""
    wheels = [*_wheel_lines(report)]
    builds = [*_build_lines(report)]
    answer = builds + wheels if report.build_first else wheels + builds
    lines = [AnswerLine(report.machine, "dim"), *answer]
    lines.append(AnswerLine(report.candidates, "dim", rank=5))
    while not everything and sum(line.text.count("\n") + 1 for line in lines) > ROOM:
        place, last = max(enumerate(lines), key=lambda row: (row[1].rank, row[0]))
        if last.rank == 0:
            break
        del lines[place]
    for line in lines:
        for part in wrapped(line.text, width() or PIPED, 2) if line.wrap else [line.text]:
            write(part, line.style, wrap=False)
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


def _build_lines(report: PickReport) -> Iterator[AnswerLine]:
    """Yield what the machine gets. First a build that uses the GPU, then one that leaves it idle."""
    if not report.served:
        yield from _missing_lines(report)
    for chosen in report.choice:
        yield from _chosen_lines(chosen, report)
    if len(report.choice) > 1:
        by_cuda = all(gpu.startswith("sm") for chosen in report.choice for gpu in chosen.gpus)
        selecting = "; CUDA_VISIBLE_DEVICES selects one for a program" if by_cuda else ""
        yield AnswerLine(f"no single build runs on all GPUs{selecting}", rank=3)
    for text in report.notes:
        yield AnswerLine(text, "yellow")
    if report.served:
        yield from _missing_lines(report)
    if report.no_tools:
        text = "neither Nix nor Flox is installed; torchsmith doctor says how to get them"
        yield AnswerLine(text, "yellow", rank=2)


def _chosen_lines(chosen: BuildRow, report: PickReport) -> Iterator[AnswerLine]:
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
        yield AnswerLine(f"  runs on the CPU only and leaves {', '.join(chosen.idle)} idle", "yellow")
    if chosen.reasons:
        yield AnswerLine(f"  {'; '.join(chosen.reasons)}", rank=2)
    if conditions and first:
        yield AnswerLine(f"  {conditions}", "yellow")
    for text in chosen.audit:
        yield AnswerLine(f"  audit: {text}", "yellow")
    if not last:
        return
    if report.wheels and first and not chosen.idle:
        yield AnswerLine(f"  unlike the wheel: {'; '.join(_differences(chosen, report.wheels[0]))}", rank=1)
    each = "" if first else ", each"
    second = bool(chosen.idle and report.create)  # another build would use the GPU
    yield AnswerLine(f"  to build it alone{each}: {chosen.cost}", rank=4 if second else 0)
    build = report.choice[0].commands.get("build", "")
    if build.startswith("torchsmith build "):  # the recipes are written
        yield AnswerLine(f"  dependencies that are in no cache: {build} --dry-run", rank=4, wrap=False)
    commands = {name: text for row in report.choice for name, text in row.commands.items()}
    yield from _commands(commands, rank=4 if second else 0)


def _differences(chosen: BuildRow, wheel: WheelOffer) -> Iterator[str]:
    """Yield how a build differs from the wheel."""
    if chosen.torch and chosen.torch != wheel.torch:
        yield f"torch {chosen.torch}, not {wheel.torch}"
    yield f"all CPU code for {chosen.isa}"
    if wheel.unused and chosen.compiled_for:
        size = f" (the wheel: {wheel.installed_mb / 1000:.1f} GB installed)" if wheel.installed_mb else ""
        yield f"GPU code for {', '.join(chosen.compiled_for)} alone{size}"


def why_missing(report: PickReport) -> Iterator[str]:
    """Yield what is not served and why, and what would suit and cannot be built."""
    yield from report.missing
    yield from (f"nearest: {row.name}: {row.why}" for row in report.nearest)
    yield from (f"{row.name} cannot be built: {row.why}" for row in report.impossible)


def _missing_lines(report: PickReport) -> Iterator[AnswerLine]:
    """Yield what is not served, the nearest builds, and what to make."""
    for text in why_missing(report):
        yield AnswerLine(text, "yellow")
    better = "would be compiled for this GPU" if report.served else "would run here"
    for wanted in report.create:
        rank = 2 if wanted.file else 0
        yield AnswerLine(f"own build: {wanted.name} {better}", "bold green")
        if wanted.assumptions:
            yield AnswerLine(f"  provided that {'; '.join(wanted.assumptions)}", "yellow")
        yield AnswerLine(f"  to build it alone: {wanted.cost}", rank=rank)
        if wanted.file:
            then = command("apply", workspace=Path(wanted.file).parent)
            add = f'  add "{wanted.name}" to include in {wanted.file}, then: {then}'
            yield AnswerLine(add)
    for wanted in report.create[:1]:
        yield from _commands(wanted.commands, rank=2 if wanted.file else 0)


def _wheel_lines(report: PickReport) -> Iterator[AnswerLine]:
    if report.no_wheel:
        yield AnswerLine(f"PyTorch has no wheel: {report.no_wheel}", "yellow")
    for wheel in report.wheels:
        alone = len(report.choice) > 1 and len(report.wheels) == 1 and not wheel.idle
        about = "; ".join([*wheel.about, *(["one for all GPUs"] if alone else [])])
        lines = [*_commands({"pip": wheel.pip})]
        if wheel.other:
            known = bool(report.host.driver and wheel.other.driver and not wheel.idle)
            text = f"  {wheel.other.when}:  {wheel.other.pip}"
            place = 0 if wheel.uses_no_gpu else 1  # before the command of the wheel that leaves it idle
            lines.insert(place, AnswerLine(text, rank=3 if known else 0, wrap=False))
        yield AnswerLine(f"{wheel.title}: {about}" if about else wheel.title, "bold")
        yield from lines


def _commands(commands: dict[str, str], rank: int = 0) -> Iterator[AnswerLine]:
    for label, text in commands.items():
        yield AnswerLine("\n".join(command_lines({label: text})), rank=rank, wrap=False)
