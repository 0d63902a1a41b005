"""A miniature of PyTorch: versions, the compiled module, and what a smoke test asks."""

from torch import _C, cuda, version

__version__ = version.__version__


class __config__:
    """What torch.__config__ answers."""

    @staticmethod
    def show() -> str:
        return _C.build_settings()


def ones_sum(count: int) -> float:
    """The sum of `count` ones, computed by the compiled code."""
    return _C.ones_sum(count)
