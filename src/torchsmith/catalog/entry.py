"""What every fact carries."""

# No `from __future__ import annotations`: the decoder would have to compile the text of every type.
import msgspec

from torchsmith.catalog.axes import CudaVersion, Platform, Sm
from torchsmith.catalog.ranges import in_range


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every entry names its `source`; `unproved` says what nobody could check, and is empty otherwise."""

    source: str
    unproved: str = ""


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cells that cannot be built though their CUDA knows their GPU; an axis left out means all of it."""

    reason: str
    cuda: str = ""  # a version range such as ">=13"
    sms: tuple[Sm, ...] = ()
    platforms: tuple[Platform, ...] = ()

    def holds(self, cuda: CudaVersion, sm: Sm, platform: Platform) -> bool:
        """Whether a cell is one of those."""
        return (
            in_range(str(cuda), self.cuda)
            and sm in (self.sms or (sm,))
            and platform in (self.platforms or (platform,))
        )
