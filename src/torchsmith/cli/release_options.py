"""Options that state releases: of torch's companions, and of the nixpkgs that they are built from."""

from __future__ import annotations

from typing import Annotated

from torchsmith.cli.params import Option

PAIR = "Its pair, where the catalog has none."
VisionOption = Annotated[str, Option("--torchvision", help=PAIR)]
AudioOption = Annotated[str, Option("--torchaudio", help=PAIR)]
PairOption = Annotated[
    list[str] | None,
    Option("--pair", metavar="NAME=VERSION", help="The release of another package that goes with it."),
]
TarballHashOption = Annotated[str, Option("--sha256", help="The hash of its tarball, where it is known.")]
