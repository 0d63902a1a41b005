"""A chosen set of cells as the text of a torchsmith.toml."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from torchsmith.core.toml_edit import table_text
from torchsmith.matrix.expand import Cell
from torchsmith.matrix.variant import Accelerator


def matrix_text(cells: Sequence[Cell], about: str) -> str:
    """The file's text. Cells of one line name it; else each takes the newest line that has its CUDA."""
    lines = {cell.line for cell in cells}
    comment = "\n".join(f"# {line}" for line in about.splitlines())
    names = [cell.name for cell in sorted(cells, key=lambda cell: cell.variant.sort_key)]
    line = {"line": lines.pop()} if len(lines) == 1 else {}
    return f"{comment}\n" + table_text({"format": 1, **line, "include": names})


@dataclass(frozen=True, slots=True)
class AxesProduct:
    """Axes whose product has cells that are wanted, and no other."""

    line: str
    prefix: bool  # names state the release
    packages: tuple[str, ...]
    python: tuple[str, ...]
    cuda: tuple[str, ...]
    sm: tuple[str, ...]
    target: tuple[str, ...]  # of other backends
    isa: tuple[str, ...]

    def text(self) -> str:
        """As a block of torchsmith.toml."""
        axes = {axis: getattr(self, axis) for axis in ("packages", "python", "cuda", "sm", "target", "isa")}
        stated = {"prefix": True} if self.prefix else {}
        block = {"line": self.line, **stated, **{axis: values for axis, values in axes.items() if values}}
        return table_text({"matrix": [block]})


def products_of(cells: Iterable[Cell]) -> list[AxesProduct]:
    """Cells as few products: what is equal but for one axis is put together, one axis after another."""
    products = []
    for cell in sorted(cells, key=lambda cell: cell.variant.sort_key):
        variant = cell.variant
        other = isinstance(variant.target, Accelerator)
        product = AxesProduct(
            line=cell.line,
            prefix=variant.release is not None,
            packages=(variant.package.name,),
            python=(str(variant.python),),
            cuda=() if other else (str(variant.cuda or "cpu"),),
            sm=(str(variant.sm),) if variant.sm else (),
            target=(str(variant.target),) if other else (),
            isa=() if variant.implies_isa else (variant.isa,),
        )
        products.append(product)
    for axis in ("packages", "isa", "sm", "target", "cuda", "python"):
        products = _merged(products, axis)
    return products


def _merged(products: Iterable[AxesProduct], axis: str) -> list[AxesProduct]:
    """Products that differ in one axis alone, as one; without GPUs no product has a place on their axis."""
    alike: dict[AxesProduct, dict[str, None]] = {}
    for product in products:
        values: tuple[str, ...] = getattr(product, axis)
        rest = replace(product, **{axis: ()}) if values else product  # type: ignore[arg-type]
        alike.setdefault(rest, {}).update(dict.fromkeys(values))
    return [replace(rest, **{axis: tuple(values)}) for rest, values in alike.items()]  # type: ignore[arg-type]
