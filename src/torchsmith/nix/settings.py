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


def nix_settings(nix: Nix) -> NixSettings:
    """Ask Nix; where it does not say, what it usually is."""
    words = ("config", "show") if nix.version >= RENAMED else ("show-config",)
    done = nix.run(nix.nix(*words, "--json"), timeout=30)
    try:
        told = msgspec.json.decode(done.stdout) if done.ok else {}
    except msgspec.DecodeError:
        told = {}
    extra = _value(told, "extra-platforms")
    features = _value(told, "system-features")
    return NixSettings(frozenset((nix.current_system, *extra)), frozenset(features) or USUAL_FEATURES)


def _value(told: object, name: str) -> list[str]:
    entry = told.get(name, {}) if isinstance(told, dict) else {}
    value = entry.get("value", []) if isinstance(entry, dict) else []
    return [str(one) for one in value] if isinstance(value, list) else []
