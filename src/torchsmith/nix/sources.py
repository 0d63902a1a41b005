"""What a recipe's text is: the content of its file and of every file of its repository that it reads."""

from __future__ import annotations

import hashlib
from pathlib import Path

from torchsmith.nix.cache import Fingerprints
from torchsmith.nix.prepare import Preparation
from torchsmith.nix.readable import root_of


def source_hash(recipe: Path) -> str:
    """One hash for all of it, by which a recipe that Nix cannot evaluate alone is known again."""
    preparation = Preparation()
    preparation.add(recipe.name, recipe)
    root, prints = root_of(recipe), Fingerprints()
    digest = hashlib.sha256()
    reads = {path.resolve() for path in preparation.jobs[0].reads}
    for path in sorted(path for path in reads if path.is_relative_to(root)):
        if path.is_dir() and not path.is_relative_to(root / ".flox/pkgs"):
            continue  # such as the repository itself, which changes with every log in it
        digest.update(f"{path.relative_to(root)}\0{prints.content(path)}\n".encode())
    return digest.hexdigest()
