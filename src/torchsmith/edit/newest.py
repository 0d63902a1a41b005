"""What is newest: the releases on the Python index, and the head of a channel of nixpkgs."""

from __future__ import annotations

import msgspec

from torchsmith.core.problem import MissingRequirement
from torchsmith.edit import python_index
from torchsmith.edit.channel import Channel, ChannelHead
from torchsmith.edit.python_index import PublishedWheel

PACKAGES = ("torch", "torchvision", "torchaudio")


class Newest(msgspec.Struct, frozen=True):
    """The newest releases on the Python index, and the head of a channel; null: no answer."""

    index: list[PublishedWheel]
    head: ChannelHead | None


def ask_newest(channel: Channel) -> Newest:
    """What the index and the channel answer; the channel's `note` says why one of them did not. Raises
    MissingRequirement if neither does."""
    index, head = list[PublishedWheel](), None
    unanswered: list[MissingRequirement] = []
    address = channel.workspace.settings.sources.python_index
    try:
        head = channel.head()
    except MissingRequirement as problem:
        unanswered.append(problem)
    try:
        index = list(python_index.newest(PACKAGES, address).values())
    except MissingRequirement as problem:
        unanswered.append(problem)
    if len(unanswered) > 1:
        raise unanswered[0]
    for missing in unanswered:
        channel.note(missing.message)
    return Newest(index, head)
