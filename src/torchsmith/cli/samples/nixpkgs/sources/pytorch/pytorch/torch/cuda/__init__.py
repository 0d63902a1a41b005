"""What torch.cuda answers on a machine without a GPU."""

from torch import version


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def get_arch_list() -> list[str]:
    return list(version.arch_list)
