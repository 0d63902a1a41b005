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


class _Vocabulary(msgspec.Struct, frozen=True):
    source: str
    features: frozenset[str]
    kubernetes: KubernetesVocabulary


@cache
def _vocabulary() -> _Vocabulary:
    return msgspec.convert(read_cached(Path(__file__).with_name("vocabulary.toml")), _Vocabulary)


def known_features() -> frozenset[str]:
    """Common CPU features."""
    return _vocabulary().features


def kubernetes_vocabulary() -> KubernetesVocabulary:
    """The spellings of node feature discovery."""
    return _vocabulary().kubernetes
