from typing import Optional

__version__ = "2.10.0"
cuda: Optional[str] = "13.0"  # noqa: UP045 (as torch writes it)
