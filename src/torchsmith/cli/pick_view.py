"""The answer of `pick` for people: twelve lines, or with --explain all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    @property
    def parts(self) -> list[str]:
        """The lines that it is printed in."""
        return wrapped(self.text, width() or PIPED, 2) if self.wrap else self.text.split("\n")


def print_pick(report: PickReport, *, everything: bool) -> None:
    """Print the machine, PyTorch's wheels, and the builds with their commands."""
    wheels = [*_wheel_lines(report)]
    builds = [*_build_lines(report, everything=everything)]
    answer = builds + wheels if report.build_first else wheels + builds
    lines = [AnswerLine(report.machine, "dim"), *answer]
    lines.append(AnswerLine(report.candidates, "dim", rank=5))
    while not everything and sum(len(line.parts) for line in lines) > ROOM:
        place, last = max(enumerate(lines), key=lambda row: (row[1].rank, row[0]))
        if last.rank == 0:
            break
        del lines[place]
    for line in lines:
        for part in line.parts:
            write(part, line.style, wrap=False)
    if everything:
        write(f"for {report.workload} use: {report.workload_why}", "dim")
        reasons = grouped((row.why, row.name) for row in report.not_chosen)
        rows = [(some_of(names, FEW), why) for why, names in reasons.items()]
        columns([[("not chosen", "cyan"), ("why", "cyan")], *rows])
    notes = [note for note in report.host.notes if report.choice or note.code != "gpu"]
    few = notes if everything or len(notes) <= FEW else notes[: FEW - 1]
    for note in few:
        warn(f"note: {note}")
    if len(few) < len(notes):
        warn(f"note: {len(notes) - len(few)} more: --explain")


def _build_lines(report: PickReport, *, everything: bool) -> Iterator[AnswerLine]:
    """Yield what the machine gets. First builds that use the GPU, in the matrix or not; without --explain,
    one that leaves it idle is left out if they exist, and one for the CPU that has a wheel is only named."""
    brief = bool(report.wheels) and not (everything or report.build_first)
    chosen = [row for row in report.choice if everything or not (row.idle and report.create)]
    complete = bool(report.choice) and not (report.unserved or any(row.idle for row in report.choice))
    better = " would be compiled for this GPU" if complete else " would run here"
    missing = [AnswerLine(text, "yellow") for text in why_missing(report)]
    missing += _rows(report.create, "own build", better, report, brief=brief)
    own = [
        *_rows(chosen, f"build of {report.matrix}" if report.matrix else "own build", "", report, brief=brief)
    ]
    if len(chosen) > 1:
        by_cuda = all(gpu.startswith("sm") for row in chosen for gpu in row.gpus)
        selecting = "; CUDA_VISIBLE_DEVICES selects one for a program" if by_cuda else ""
        own.append(AnswerLine(f"no single build runs on all GPUs{selecting}", rank=3))
    own += [AnswerLine(text, "yellow") for text in report.notes]
    yield from own + missing if complete else missing + own
    if report.no_tools:
        text = "neither Nix nor Flox is installed; torchsmith doctor says how to get them"
        yield AnswerLine(text, "yellow", rank=2)


def _rows(
    rows: Sequence[BuildRow], heading: str, ending: str, report: PickReport, *, brief: bool
) -> Iterator[AnswerLine]:
    """Yield builds, and the commands that make all of them."""
    for row in rows:
        several = f" for {', '.join(row.gpus)}" if len(report.choice) > 1 and not ending else ""
        also = ", ".join(name.partition("-")[0] for name in row.companions)
        words = [f"torch {row.torch}"] * bool(row.torch) + [f"also {also}"] * bool(also)
        release = f" ({'; '.join(words)})" if words else ""
        if brief and not row.gpus:
            how = "" if row.file or report.in_workspace else "; --explain says how to build it"
            idle = f", leaves {', '.join(row.idle)} idle" if row.idle else ""
            yield AnswerLine(f"{heading}: {row.name}{release}, for the CPU alone{idle}{how}")
            yield from _commands(row.commands if report.in_workspace else {})
            continue
        yield AnswerLine(f"{heading}{several}: {row.name}{release}{ending}", "bold green")
        if row.idle:
            yield AnswerLine(f"  runs on the CPU only and leaves {', '.join(row.idle)} idle", "yellow")
        if row.reasons and not ending:
            yield AnswerLine(f"  {'; '.join(row.reasons)}", rank=2)
        if row.assumptions:
            yield AnswerLine(f"  provided that {'; '.join(row.assumptions)}", "yellow")
        yield from (AnswerLine(f"  audit: {text}", "yellow") for text in row.audit)
        if row.file:
            then = command("apply", workspace=Path(row.file).parent)
            yield AnswerLine(f'  add "{row.name}" to include in {row.file}, then: {then}')
        if row != rows[-1]:
            continue
        rank = 2 if row.file else 0
        each = ", each" if len(rows) > 1 else ""
        besides = "; dependencies not counted" if row.cost.cores else ""
        if report.wheels and len(rows) == 1 and not (ending or row.idle):
            yield AnswerLine(f"  unlike the wheel: {'; '.join(_differences(row, report.wheels[0]))}", rank=1)
        yield AnswerLine(f"  cost{each}: {row.cost}{besides}", rank=rank or bool(each))
        if not row.file:
            yield from _commands({name: text for row in rows for name, text in row.commands.items()})


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
        if about and len(report.wheels) > 1:
            yield AnswerLine(f"{wheel.title}: {about}", "bold")
        else:
            yield AnswerLine(wheel.title, "bold")
            yield from [AnswerLine(f"  {about}")] if about else []
        yield from lines


def _commands(commands: dict[str, str]) -> Iterator[AnswerLine]:
    for label, text in commands.items():
        if label == "missing":
            yield AnswerLine(f"  dependencies that are in no cache: {text}", rank=4, wrap=False)
        else:
            yield AnswerLine("\n".join(command_lines({label: text})), wrap=False)
