"""What the catalog estimates for building a variant."""

from __future__ import annotations

from torchsmith.catalog import Catalog, Estimate
from torchsmith.matrix.variant import Variant


def estimate_of(variant: Variant, catalog: Catalog) -> Estimate | None:
    """The figures for a variant. None if there are none: of a package that was not measured or estimated, and
    of every backend but CUDA."""
    if variant.toolkit is not None and not variant.cuda:
        return None
    wanted = variant.package.name, bool(variant.cuda)
    rows = catalog.estimates.values()
    return next((row for row in rows if (row.package, row.gpu) == wanted), None)
