"""Options that state releases: of torch's companions, and of the nixpkgs that they are built from."""

from __future__ import annotations

from typing import Annotated

from torchsmith.cli.params import Option

PAIR = "Its pair, where the catalog has none."
VisionOption = Annotated[str, Option(PAIR)]
AudioOption = Annotated[str, Option(PAIR)]
PairOption = Annotated[
    list[str] | None, Option("The release of another package that goes with it.", metavar="NAME=VERSION")
]
TarballHashOption = Annotated[str, Option("The hash of its tarball, where it is known.")]
