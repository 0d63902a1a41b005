"""The data of the page: a workspace, its cells and what is known of each, as one document."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from torchsmith.core.text import shell_word

# If several are true of a cell, the last one counts.
CellState = Literal[
    "building",
    "failed",
    "wrong",
    "unhashed",
    "published",
    "verified",
    "built",
    "edited",
    "foreign",
    "generated",
    "wanted",
]
STATES: dict[CellState, tuple[str, str, str]] = {
    "wanted": ("○", "not built", "in the matrix, without a recipe yet"),
    "generated": ("●", "recipe written", "its recipe is as generated, and not built yet"),
    "foreign": ("◇", "by hand", "its recipe is not managed by torchsmith"),
    "edited": ("✎", "hand-edited", "its recipe was generated and changed by hand"),
    "wrong": ("✗", "wrong", "the audit found an error, or its build is not what its name says"),
    "unhashed": ("?", "hash missing", "a source has no hash yet; torchsmith fix-hashes learns it"),
    "building": ("▶", "building", "it is being built"),
    "failed": ("!", "failed", "its last build failed, or what it needs did"),
    "built": ("■", "built", "it was built and has not changed since"),
    "verified": ("✓", "verified", "it was built and verified"),
    "published": ("★", "published", "it was published"),
}


class PageFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the audit says of some cells: the same words once, with the cells and lines they are about."""

    rule: str
    title: str
    severity: str
    sure: str
    message: str
    hint: str = ""
    places: tuple[tuple[str, int], ...] = ()  # file below the workspace, and line; 0 is the whole file


class PageBuild(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The last build of a cell, as the record has it."""

    run: int
    state: str
    started: float = 0.0
    seconds: float = 0.0
    builder: str = ""
    error: str = ""
    log: tuple[str, ...] = ()  # its last lines


class PageCell(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A cell of the matrix, or a recipe whose name says which cell it is."""

    name: str
    state: CellState
    why: tuple[str, ...] = ()  # of its state, and what to be warned of
    package: str = ""
    version: str = ""
    python: str = ""
    cuda: str = ""  # its release, or another backend with its own; empty: for the CPU alone
    sm: str = ""
    isa: str = ""
    system: str = ""
    line: str = ""
    flavor: str = ""
    owner: str = ""  # ours, edited or foreign; empty: no recipe
    file: str = ""  # below the workspace
    derivation: str = ""
    outputs: tuple[str, ...] = ()
    findings: tuple[int, ...] = ()  # of the document's, by place
    build: PageBuild | None = None
    verified: str = ""  # what verification said; empty: not verified
    recipe: str = ""

    @property
    def toolkit(self) -> str:
        """What its GPU code is compiled with: CUDA 13.0, ROCm 6.4; empty for the CPU alone."""
        return f"CUDA {self.cuda}" if self.cuda[:1].isdigit() else self.cuda


class PageReport(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace as the page shows it."""

    FORMAT: ClassVar = 5
    title: str
    made: float  # when, in seconds since 1970
    version: str  # of torchsmith
    profile: str
    cells: tuple[PageCell, ...]
    findings: tuple[PageFinding, ...]
    in_workspace: bool = True  # otherwise a profile is shown, and commands start with init
    folder: str = ""  # of the workspace, as it was given; empty: this one
    notes: tuple[str, ...] = ()  # what could not be read, and why

    @property
    def where(self) -> str:
        """The option that names the workspace in a command."""
        return f" -w {shell_word(self.folder)}" if self.folder else ""
