"""Options that several verbs share, and what they lead to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.api.options import AdoptedPaths as AdoptedPaths
from torchsmith.api.options import DryRunOption as DryRunOption
from torchsmith.api.options import JsonOption as JsonOption
from torchsmith.api.options import Name as Name
from torchsmith.api.options import Pair as Pair
from torchsmith.api.options import PairOptions as PairOptions
from torchsmith.api.options import ProfileChoice as ProfileChoice
from torchsmith.api.options import ProfileOption as ProfileOption
from torchsmith.api.options import Selectors as Selectors
from torchsmith.api.options import SvgOption as SvgOption
from torchsmith.api.options import TarballHashOption as TarballHashOption
from torchsmith.api.options import VariantOption as VariantOption
from torchsmith.api.options import WaitOption as WaitOption
from torchsmith.api.options import WorkspaceOption as WorkspaceOption
from torchsmith.api.options import WriteOptions as WriteOptions
from torchsmith.api.options import complete_cells as complete_cells
from torchsmith.api.options import complete_cpus as complete_cpus
from torchsmith.api.options import complete_gpus as complete_gpus
from torchsmith.api.options import complete_names as complete_names
from torchsmith.api.options import complete_profiles as complete_profiles
from torchsmith.api.options import complete_selectors as complete_selectors
from torchsmith.cli.console import warn

if TYPE_CHECKING:
    from torchsmith.page.draw import Picture


def check_svg(path: Path | None) -> None:
    """A Problem, before the answer, where a drawing of it could not be written."""
    from torchsmith.core.files import check_own

    if path is not None:
        check_own(path, "<svg")


def write_svg(picture: Picture, path: Path) -> None:
    """A picture as a file."""
    from torchsmith.core.files import write_atomic

    write_atomic(path, picture.file())
    warn(f"written: {path}")
