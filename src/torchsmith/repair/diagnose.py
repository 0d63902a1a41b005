"""Why a build failed: the known error with its cause and fix, its class, and the ten lines that matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar, Literal

from torchsmith.catalog import Catalog, KnownError
from torchsmith.catalog.axes import Sm
from torchsmith.catalog.facts import Certainty, ErrorClass, Policy
from torchsmith.nix.errors import plain

EXCERPT_LINES = 10
LINES_BEFORE = 4  # of the excerpt, at most so many are before the line with the error
TAIL_LINES = 200  # an error further from the log's end does not explain a build's failure
HARMLESS_LINES = 15  # ... nor one of a HARMLESS class this far from it, which a test may print
HARMLESS = ("memory", "disk", "network")
# Nix says that the build ran and gave up by itself: the reason is in the build's own lines.
BUILD_FAILED = re.compile(r"builder (?:for \S+ )?failed(?: with exit code|$)")
FAILED_DRV = re.compile(r"(?:builder for|Cannot build) '?([^' ]+\.drv)")  # from Nix 2.29 on one line before
# What GitHub Actions and nix-output-monitor put before a line.
FRAME = re.compile(r"^(?:\d{4}-\d\d-\d\dT[\d:.]+Z ?)?┃?")
QUOTED = re.compile(r"^\s+> ?")  # the build's last lines, as Nix repeats them
BUILD_PREFIX = re.compile(r"^([A-Za-z0-9][\w.+?=-]*)> ")  # a line of one of several builds
PROGRESS = re.compile(r"^\[ *\d+(?:/\d+|%)\] ")
FAILED_STEP = re.compile(r"^FAILED: ")
BUILD_OUTPUT = re.compile(r"^\[ *\d+(?:/\d+|%)\] |^FAILED: |^ninja: |^make(?:\[\d+\])?: \*\*\* |^CMake Error")
# A place in a source or the name of a tool before `error:`; many programs that compile nothing write it too.
COMPILER = (
    r"[:(]\d+\)?: (?:fatal |catastrophic )?error: "
    r"|(?:^|[/ -])(?:nvcc|ptxas|ld(?:\.\w+)?|collect2|cc1(?:plus)?|g?cc|[cg]\+\+"
    r"|clang(?:\+\+)?(?:-\d+)?|ninja): (?:fatal )?error: "
    r"|^(?:nvcc|nvlink|ptxas) (?:error|fatal)|^error: (?:command '|could not compile)"
)
# What gcc, clang, nvcc and Microsoft's compiler say of a header that they do not find.
MISSING_HEADER = (
    r"(?:fatal error: '?|cannot open source file \"|Cannot open include file: ')"
    r"(?P<header>{})(?:'? file not found|'?: No such file|\")"
)
# What a failure without an entry in the catalog is taken for.
SIGNS: tuple[tuple[ErrorClass, re.Pattern[str]], ...] = (
    ("compile", re.compile(rf"{COMPILER}|: error [A-Z]|undefined reference|CMake Error")),
    ("runtime", re.compile(r"^(?:E +)?(?:\w+\.)*\w*(?:Error|Exception)\b|AssertionError|Segmentation fault")),
    ("runtime", re.compile(r"^FAILED \S+::|^=+ .*\b\d+ failed\b")),
    ("compile", re.compile(r"^FAILED: |ninja: build stopped|make(?:\[\d+\])?: \*\*\* ")),
)
LAST_RESORT = re.compile(r"\b(?:error|failed|fatal)\b", re.IGNORECASE)
TITLES = {
    "compile": "the compiler or its build system refused",
    "runtime": "a program failed",
}
# Messages that only follow from an earlier failure.
CONSEQUENCE = re.compile(
    r"CalledProcessError|Error compiling objects|returned (?:non-zero |\d+ )?exit status|ld returned"
    r"|compilation terminated|build stopped|\*\*\* |^FAILED: |[Ff]ailed building wheel"
    r"|[Ee]rrors? (?:generated|detected)"
)
WENT_WELL = re.compile(r"\b(?:ok|passed|simulated|expected|skipped)\b[.)\]]*$", re.IGNORECASE)
Class = ErrorClass | Literal["unknown"]
KnownPatterns = Sequence[tuple[KnownError, re.Pattern[str]]]
NumberedLine = tuple[int, str]  # its place in the log, and its text without what Nix put before it


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A failure: its class, what to do about it, and the lines that show it."""

    FORMAT: ClassVar = 3
    kind: Class
    policy: Policy
    title: str
    cause: str
    fix: str
    lines: tuple[str, ...]
    entry: str = ""  # of the catalog; empty if none matches
    line_number: int = 0  # of the line that shows it, counted from 1; 0 if there is none
    sure: Certainty = "certain"

    @property
    def summary(self) -> str:
        return f"{self.title} ({self.kind})"


@dataclass(frozen=True, slots=True)
class _Reason:
    """A known error, or for none a class, at a line."""

    at: int
    error: KnownError | None
    kind: Class = "unknown"
    found: Mapping[str, str | None] = field(default_factory=dict)  # what named groups of its pattern matched

    @property
    def stops(self) -> bool:
        return self.error is None or self.error.policy == "stop"


def diagnose_log(log: str, catalog: Catalog) -> Diagnosis:
    """Read a log from its end: what Nix says of the failure, else what the build that failed said last."""
    lines = [FRAME.sub("", plain(line)).rstrip() for line in log.splitlines()]
    known = [(error, re.compile(_pattern(error))) for error in catalog.errors.values()]
    of_nix = [pair for pair in known if pair[0].says == "nix"]
    of_build = [pair for pair in known if pair[0].says == "build"]
    stated, end, drv = _by_nix(lines, of_nix)
    if stated is not None:
        return _diagnosis(catalog, lines, stated)
    body = [line for line in _lines_of(lines, end, drv) if line[1].strip()]
    if not body:  # pasted without the marks of Nix
        body = [*enumerate(lines)][end + 1 :]
    # Nix' own fetchers log as a build does, and a lost builder ends in a message that the build failed.
    reason = _last_match(body[-2:], of_nix) or _in_build(body, of_build)
    if reason is not None and (reason.error or reason.kind != "unknown"):
        return _diagnosis(catalog, lines, reason, drv=drv)
    at_end = [pair for pair in known if pair[0].says == "end"]
    if stated := _last_match([*enumerate(lines)], at_end):
        return _diagnosis(catalog, lines, stated, drv=drv)
    guess = _last_match(body, of_build) or reason or _Reason(end if end < len(lines) else -1, None)
    return _diagnosis(catalog, lines, guess, guess=True, drv=drv)


def _by_nix(lines: Sequence[str], known: KnownPatterns) -> tuple[_Reason | None, int, str]:
    """What Nix itself gives as the reason, else where its own words begin and which build failed."""
    for index in range(len(lines) - 1, -1, -1):
        text = lines[index].lstrip()
        if QUOTED.match(lines[index]) or BUILD_PREFIX.match(text):
            continue
        if BUILD_FAILED.search(text):
            for start in (index, max(index - 1, 0)):
                if named := FAILED_DRV.search(lines[start]):
                    return None, start, named[1]
            return None, index, ""
        if BUILD_OUTPUT.match(text):
            break  # a build's own log, which Nix did not end
        reason = _match((index, text), known)
        if reason is not None:
            return _deeper(reason, enumerate(lines[:index]), known), index, ""
    return None, len(lines), ""


def _deeper(reason: _Reason, before: Iterable[NumberedLine], known: KnownPatterns) -> _Reason:
    """The reason that an entry gives way to, if an earlier line shows it."""
    earlier = list(before)
    for name in reason.error.gives_way_to if reason.error else ():
        behind = [pair for pair in known if pair[0].name == name]
        for line in earlier:
            if _match(line, behind) and (deeper := _match(line, known)) and deeper.error is behind[0][0]:
                return deeper
    return reason


def _lines_of(lines: Sequence[str], end: int, drv: str) -> Iterator[NumberedLine]:
    """The lines of the build that failed, also those that Nix repeats after its verdict."""
    name = re.sub(r"^.*/[a-z0-9]{32}-|\.drv$", "", drv)
    if not name:  # no line names the failed build, as with Flox: the one with the last line
        name = next((match[1] for line in reversed(lines[:end]) if (match := BUILD_PREFIX.match(line))), "")
    own = f"{name}> "
    alone = not drv or not any(line.startswith(own) for line in lines)
    for index, line in enumerate(lines[:end]):
        other = BUILD_PREFIX.match(line)
        if line.startswith(own) and name:
            yield index, line.removeprefix(own)
        elif alone and not other and not QUOTED.match(line):
            yield index, line
    for index in range(end + 1 if end < len(lines) else 0, len(lines)):
        if QUOTED.match(lines[index]):
            yield index, QUOTED.sub("", lines[index])


def _in_build(body: Sequence[NumberedLine], known: KnownPatterns) -> _Reason | None:
    """The reason in a build's own lines; a step that cannot succeed outweighs one that may."""
    blocks = list(_failed_steps(body)) or [_tail(body)]
    reasons = [reason for reason in (_last_reason(block, known) for block in blocks) if reason is not None]
    if not any(reason.error for reason in reasons):
        # nvcc runs ptxas, whose words may come before ninja says that the step failed.
        before = (_last_match(_before_step(body, block[0][0]), known) for block in blocks if block)
        reasons += [reason for reason in before if reason is not None and reason.stops]
    sound = [reason for reason in reasons if reason.error or reason.kind != "unknown"] or reasons
    sound.sort(key=lambda reason: reason.error is None)
    return next((reason for reason in sound if reason.stops), sound[-1] if sound else None)


def _failed_steps(body: Sequence[NumberedLine]) -> Iterator[list[NumberedLine]]:
    """What ninja shows of each step that failed."""
    block: list[NumberedLine] | None = None
    for line in body:
        if block is not None and (PROGRESS.match(line[1]) or line[1].startswith(("ninja: ", "FAILED: "))):
            yield block
            block = None
        if FAILED_STEP.match(line[1]):
            block = []
        if block is not None:
            block.append(line)
    if block:
        yield block


def _before_step(body: Sequence[NumberedLine], start: int) -> list[NumberedLine]:
    """The lines between the last step that was reported and a line."""
    before = [line for line in body if line[0] < start]
    steps = [index for index, line in enumerate(before) if PROGRESS.match(line[1])]
    return before[steps[-1] + 1 :] if steps else []


def _tail(body: Sequence[NumberedLine]) -> list[NumberedLine]:
    """The end of a log, back to the last step that went well."""
    last = list(body[-TAIL_LINES:])
    steps = [index for index, line in enumerate(last) if PROGRESS.match(line[1])]
    return last[steps[-1] + 1 :] if steps and steps[-1] + 1 < len(last) else last


def _last_reason(block: Sequence[NumberedLine], known: KnownPatterns) -> _Reason | None:
    """The last known error of a block, else what its lines look like."""
    text = [line for line in block if line[1].strip()]
    for back, line in enumerate(reversed(text)):
        reason = _match(line, known)
        if reason is None:
            continue
        alone = FAILED_STEP.match(text[0][1]) is None
        if alone and reason.kind in HARMLESS and (back >= HARMLESS_LINES or _overcome(line, text)):
            continue
        return _deeper(reason, text, known)
    for kind, pattern in SIGNS:
        at = next((index for index, text in block if pattern.search(text)), None)
        if at is not None:
            return _Reason(at, None, kind)
    last = [index for index, text in block if LAST_RESORT.search(text)]
    return _Reason(last[-1], None) if last else None


def _overcome(line: NumberedLine, block: Sequence[NumberedLine]) -> bool:
    """Whether the build went on after a line that may be harmless: it says so, or fails later of itself."""
    later = [text for index, text in block if index > line[0] and not CONSEQUENCE.search(text)]
    fails = any(pattern.search(text) for text in later for _, pattern in SIGNS)
    return fails or WENT_WELL.search(line[1]) is not None


def _match(line: NumberedLine, known: KnownPatterns) -> _Reason | None:
    """The first entry of the catalog that a line shows."""
    index, text = line
    for error, pattern in known:
        if match := pattern.search(text):
            return _Reason(index, error, error.kind, match.groupdict())
    return None


def _last_match(lines: Sequence[NumberedLine], known: KnownPatterns) -> _Reason | None:
    return next(filter(None, (_match(line, known) for line in reversed(lines))), None)


def _pattern(error: KnownError) -> str:
    """The entry's own pattern, or what compilers say if they do not find one of its headers."""
    headers = "|".join(re.escape(name).replace(r"\*", r"[^'\":\s]*") for name in error.headers)
    return "|".join(filter(None, (error.pattern, headers and MISSING_HEADER.replace("{}", headers))))


def _filled(text: str, error: KnownError, found: Mapping[str, str | None], catalog: Catalog) -> str:
    """A text of an entry, with what the line names."""
    values = {name: value for name, value in found.items() if value}
    if header := values.get("header"):
        packages = (package for name, package in error.headers.items() if fnmatchcase(header, name))
        values["package"] = next(packages, "")
    if (sm := values.get("sm", "")).isdecimal():
        values["releases"] = _releases_for(Sm(int(sm)), catalog)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _releases_for(sm: Sm, catalog: Catalog) -> str:
    """The CUDA releases of the catalog that compile for a GPU."""
    able = [version for version, toolkit in catalog.cuda.items() if toolkit.compiles(sm)]
    if not able:
        return "a CUDA release that has it (the catalog knows none)"
    oldest, *_, newest = catalog.cuda
    if able[-1] == newest:
        return f"CUDA {able[0]} or newer"
    # The catalog begins long after the first release.
    return f"CUDA {able[-1]} or older" if able[0] == oldest else f"CUDA {able[0]} to {able[-1]}"


def _diagnosis(
    catalog: Catalog, lines: Sequence[str], reason: _Reason, *, guess: bool = False, drv: str = ""
) -> Diagnosis:
    error = reason.error
    excerpt = excerpt_at(lines, reason.at if reason.at >= 0 else len(lines) - 1)
    command = f"nix log {drv or 'DRV'} | torchsmith diagnose -"
    if error is None:
        fix = f"Read the lines below; `{command}` reads the whole log." if drv else "Read the lines below."
        title = TITLES.get(reason.kind, "an unknown error")
        sure: Certainty = "guess" if guess else "likely"
        cause = "The catalog has no entry for it."
        return Diagnosis(reason.kind, "stop", title, cause, fix, excerpt, "", reason.at + 1, sure)
    # A line far from the end may have nothing to do with it, and is not a reason to build again.
    policy: Policy = "stop" if guess else error.policy
    sure = "guess" if guess else error.sure
    found = {**reason.found, "command": command}
    title, cause, fix = (
        _filled(text, error, found, catalog) for text in (error.title, error.cause, error.fix)
    )
    return Diagnosis(error.kind, policy, title, cause, fix, excerpt, error.name, reason.at + 1, sure)


def excerpt_at(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """The lines around a place, ten at most, without empty and repeated ones."""
    before = _distinct(lines[max(0, at - 40) : max(at, 0)])[-LINES_BEFORE:]
    after = _distinct(lines[max(at, 0) : at + 60])[: EXCERPT_LINES - len(before)]
    return (*before, *after)


def _distinct(lines: Sequence[str]) -> list[str]:
    return [line for line in dict.fromkeys(lines) if line.strip()]
