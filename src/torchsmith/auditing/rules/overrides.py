"""Overrides in recipes: what they pass to the wrong place, drop, or take from the wrong package set."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.auditing.finding import FindingFix
from torchsmith.auditing.rule import NOTE, Defect, rule
from torchsmith.catalog import Isa
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK, RECORD
from torchsmith.matrix import Variant
from torchsmith.recipe.read import Edit, Located, Override, Value
from torchsmith.workspace.subject import Subject


def replaced_meta(subject: Subject, override: Override) -> Located[Value] | None:
    """The meta that an override puts in place of that of nixpkgs."""
    meta = override.arguments.get("meta") if override.kind != "override" else None
    return meta if meta and subject.body.syntax.data.startswith(b"{", meta.span.start) else None


@rule("TS508", "compiler flags that are not recorded", NOTE, unless=("wraps_nightly", "torch_from_elsewhere"))
def flags_are_recorded(subject: Subject, isa: Isa, variant: Variant) -> Iterator[Defect]:
    """`torchsmith verify` reads the compiler flags that GCC recorded in a build. Generated recipes have
    `-frecord-gcc-switches` in NIX_CFLAGS_COMPILE and a mark beside the CPU flags and, for CUDA, in
    NVCC_APPEND_FLAGS. `--unsafe-fixes` adds the lines; the build is another one then, of the same code."""
    package = variant.package
    if not isa.flags or not (package.is_torch or package.needs_torch):
        return
    lines = {
        CXX_MARK: [f'export {name}="{CXX_MARK} ${name}"' for name in ("CFLAGS", "CXXFLAGS")],
        RECORD: [f'export NIX_CFLAGS_COMPILE="$NIX_CFLAGS_COMPILE {RECORD}"'],
        HOST_MARK: [f'export NVCC_APPEND_FLAGS="$NVCC_APPEND_FLAGS -Xcompiler={HOST_MARK}"'],
    }
    wanted = [option for option in lines if option != HOST_MARK or variant.cuda]
    missing = [option for option in wanted if option not in subject.code]
    if missing:
        note = "# changes no code: the flags are recorded in the result, where torchsmith verify reads them"
        exports = [export for export in subject.body.exports if export.variable in ("CFLAGS", "CXXFLAGS")]
        at = exports[-1].span if exports else None
        text = [note, *(line for option in missing for line in lines[option])]
        fix = _added_lines(subject, at.end, text) if at else None
        yield Defect(f"the build does not record its flags: {', '.join(missing)}", at, fix=fix)


def _added_lines(subject: Subject, end: int, lines: list[str]) -> FindingFix | None:
    """Lines of shell code below the line of a place in an indented string."""
    data = subject.body.syntax.data
    start, stop = data.rfind(b"\n", 0, end) + 1, data.find(b"\n", end)
    line = data[start:stop].decode()
    indent = line[: len(line) - len(line.lstrip())]
    if stop < 0 or "''" in line[len(indent) :].replace("''${", "") or not indent:
        return None  # the string begins or ends in this line
    text = "".join(f"\n{indent}{added}" for added in lines)
    return FindingFix("add the lines that record them", (Edit(stop, stop, text),), safe=False)
