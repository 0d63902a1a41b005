"""The built-in catalog with a workspace's own files laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchsmith.catalog.load import SHIPPED, Catalog, Layer, builtin_catalog
from torchsmith.core.files import read_text


def load_catalog(folder: Path | None, texts: Mapping[str, str] | None = None) -> Catalog:
    """The built-in catalog with a workspace's own files laid over it, checked as a whole; `texts` by file
    name replace files."""
    layer = Layer.folder(folder) if folder is not None and folder.is_dir() else Layer({})
    if texts:
        paths = {**layer.paths, **{name: f"catalog/{name}.toml" for name in texts}}
        layer = Layer({**layer.texts, **texts}, paths)
    files = sorted((folder.parent / "templates").glob("*.nix")) if folder is not None else []
    templates = {str(path): read_text(path) for path in files if path.is_file()}
    if not layer.texts and not templates:
        return builtin_catalog()
    from torchsmith.catalog.check import check

    catalog = Catalog([SHIPPED, layer], templates)
    check(catalog)
    return catalog
