"""Words by which readers know what they have before them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from torchsmith.core.toml import read_cached


class KubernetesWords(msgspec.Struct, frozen=True):
    """What node feature discovery writes otherwise than /proc/cpuinfo."""

    vendors: dict[str, str]
    features: dict[str, str]
    implied: dict[str, tuple[str, ...]]


class _ReaderWords(msgspec.Struct, frozen=True):
    source: str
    features: frozenset[str]
    kubernetes: KubernetesWords


@cache
def _words() -> _ReaderWords:
    return msgspec.convert(read_cached(Path(__file__).with_name("words.toml")), _ReaderWords)


def known_features() -> frozenset[str]:
    """Common CPU features."""
    return _words().features


def kubernetes_words() -> KubernetesWords:
    """Node feature discovery's."""
    return _words().kubernetes
