"""torchsmith: from one file that says which PyTorch builds you ship to builds that are proved."""

__version__ = "0.1.0"
