"""The vocabulary of readers: common CPU features, and how Kubernetes spells them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from torchsmith.core.toml import read_cached


class KubernetesVocabulary(msgspec.Struct, frozen=True):
    """What node feature discovery writes otherwise than /proc/cpuinfo."""

    vendors: dict[str, str]
    features: dict[str, str]
    implied: dict[str, tuple[str, ...]]


class ReportVocabulary(msgspec.Struct, frozen=True):
    """vocabulary.toml."""

    source: str
    features: frozenset[str]  # common ones of CPUs
    kubernetes: KubernetesVocabulary


@cache
def vocabulary() -> ReportVocabulary:
    return msgspec.convert(read_cached(Path(__file__).with_name("vocabulary.toml")), ReportVocabulary)
