"""One machine of a cluster, as its record has it."""

from __future__ import annotations

from dataclasses import dataclass

from torchsmith.host.facts import HostFacts

MOST_GPUS = 64  # a machine with more is a record that is wrong, or counts slices


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a cluster."""

    name: str
    facts: HostFacts
    lost: str = ""  # why nothing is known of it
