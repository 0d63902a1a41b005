"""A package that goes into a recipe, and its licences, as Nix tells them."""

from __future__ import annotations

import msgspec


class License(msgspec.Struct, frozen=True):
    """A licence as nixpkgs states it; None where it says nothing."""

    spdx: str | None = None
    short_name: str | None = None
    full_name: str | None = None
    url: str | None = None
    free: bool | None = None
    redistributable: bool | None = None

    @property
    def title(self) -> str:
        return self.spdx or self.full_name or self.short_name or "licence without a name"


class Component(msgspec.Struct, frozen=True):
    """A package that goes into what runs."""

    drv_path: str
    name: str
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()  # their derivations
    pname: str | None = None
    version: str | None = None
    homepage: str | None = None
    licenses: tuple[License, ...] | None = None
