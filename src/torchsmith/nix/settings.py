"""What the installed Nix is set up for: systems and features of this machine."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from torchsmith.nix.tool import Nix

RENAMED = (2, 20)  # `nix show-config` became `nix config show`
USUAL_FEATURES = frozenset(("benchmark", "big-parallel", "nixos-test"))


@dataclass(frozen=True, slots=True)
class NixSettings:
    """The settings that decide what can be built here."""

    systems: frozenset[str]
    features: frozenset[str]


class _Setting(msgspec.Struct):
    value: list[str] = []


class _Told(msgspec.Struct):
    platforms: _Setting = msgspec.field(name="extra-platforms", default_factory=_Setting)
    features: _Setting = msgspec.field(name="system-features", default_factory=_Setting)


def nix_settings(nix: Nix) -> NixSettings:
    """Ask Nix; where it does not say, what it usually is."""
    words = ("config", "show") if nix.version >= RENAMED else ("show-config",)
    done = nix.run(nix.nix(*words, "--json"), timeout=30)
    try:
        told = msgspec.json.decode(done.stdout if done.ok else "{}", type=_Told)
    except msgspec.MsgspecError:
        told = _Told()
    features = frozenset(told.features.value) or USUAL_FEATURES
    return NixSettings(frozenset((nix.current_system, *told.platforms.value)), features)
