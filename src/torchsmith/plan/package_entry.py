"""The entry of packages.toml that says what a person and Nix told of a package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from torchsmith.catalog import Package, builtin_catalog
from torchsmith.catalog.package import CPU, GpuList, SourceRepository
from torchsmith.edge.toml_edit import plain_key, written
from torchsmith.edge.words import some_of
from torchsmith.plan.package_probe import PackageProbe, cells_to_ask, pin_of
from torchsmith.workspace.load import Workspace


class PackageRow(msgspec.Struct, frozen=True):
    """A package that is known: `own` where the workspace's catalog has it, and its cells in the matrix."""

    name: str
    title: str
    attr: str
    needs: list[str]
    releases: Mapping[str, str]  # by line
    own: bool
    cells: int


def package_row(package: Package, workspace: Workspace) -> PackageRow:
    """What a workspace knows of a package."""
    catalog = workspace.catalog
    releases = {}
    for name, line in catalog.lines.items():
        build = next((one for one in (*line.cuda.values(), line.cpu) if one and one.pin), None)
        release = catalog.release_of(package, line, build) if build and line.builds(package) else ""
        if release := line.torch if package.is_torch else release:
            releases[name] = release
    cells = sum(cell.variant.package == package for cell in workspace.matrix.cells)
    own = package.name not in builtin_catalog().packages
    return PackageRow(package.name, package.title, package.attr, list(package.needs), releases, own, cells)


@dataclass(frozen=True, slots=True)
class NewPackage:
    """What a person says of a package; the rest is asked of Nix."""

    name: str
    attr: str = ""  # empty: as its name
    title: str = ""
    upstream: SourceRepository | None = None
    version: str = ""  # empty: the one that each nixpkgs has
    gpu_list: tuple[GpuList, ...] = ()

    @property
    def attribute(self) -> str:
        return self.attr or self.name


def entry_text(workspace: Workspace, new: NewPackage, probes: Sequence[PackageProbe]) -> str:
    """A table of TOML, its limits after it; without answers one that can be asked about."""
    catalog = workspace.catalog
    good = [one for one in probes if not one.error]
    uses = {name for one in good for name in one.uses}
    needs = [name for name in catalog.packages if name in uses]
    asked = list(dict.fromkeys(cell.line for cell in cells_to_ask(workspace)))
    lines = list(dict.fromkeys(one.cell.line for one in good))
    if not probes:  # before Nix was asked
        needs, lines = [catalog.torch.name], asked
    rows = [f"[{new.name}]", f"title = {written(new.title or new.name)}", f"attr = {written(new.attribute)}"]
    if new.upstream:
        where = {"owner": new.upstream.owner, "repo": new.upstream.repo, "tag": new.upstream.tag}
        rows.append(f"upstream = {_inline(where)}")
    if needs:
        rows.append(f"needs = {written(needs)}")
    if _needs_cuda(probes):
        rows.append("needs_cuda = true # without it Nix refuses")
    if lines != asked:
        rows.append(f"lines = {written(lines)}")
    rows += _gpu_rows(new, good)
    rows.append(f"modules = {written([*dict.fromkeys(name for one in good for name in one.modules)])}")
    if new.version:
        rows.append(f"versions = {_inline(dict.fromkeys(lines, new.version))}")
    pins = ", ".join(sorted({pin_of(workspace, one) for one in good}))
    cells = some_of(list(dict.fromkeys(one.cell.variant.cell for one in good)), 3)
    source = f"Nix, asked at nixpkgs {pins} for {cells}"
    rows.append(f"source = {written(source)}")
    rows.append('unproved = "evaluated there, never compiled"')
    return "\n".join([*rows, *_limits(workspace, new.name, probes, lines)]) + "\n"


def _needs_cuda(probes: Sequence[PackageProbe]) -> bool:
    """Whether Nix refuses it wherever there is no CUDA, and not everywhere."""
    without = [one for one in probes if one.cell.variant.cuda is None]
    return bool(without) and all(one.error for one in without)


def _gpu_rows(new: NewPackage, good: Iterable[PackageProbe]) -> list[str]:
    """How its build is told its GPU: as a person says, or as its derivation holds it."""
    ways = new.gpu_list or tuple(dict.fromkeys(way for one in good for way in one.gpu_lists))
    if not ways:
        return []
    told = [_inline({"by": way.by, "name": way.name, "form": way.form}) for way in ways]
    return [f"gpu_list = {told[0]}" if len(told) == 1 else f"gpu_list = [{', '.join(told)}]"]


def _limits(
    workspace: Workspace, name: str, probes: Sequence[PackageProbe], lines: Sequence[str]
) -> list[str]:
    """What Nix refuses of the lines that have it, each with Nix's own error."""
    rows = []
    for one in probes:
        cuda = one.cell.variant.cuda
        if not one.error or one.cell.line not in lines or (cuda is None and _needs_cuda(probes)):
            continue
        release = str(cuda or CPU)
        platform = workspace.catalog.isas[one.cell.variant.isa].platform
        key = f"{one.cell.line}-{release}-{platform.removesuffix('-linux')}"
        rows += [
            "",
            f"[{name}.limits.{written(key)}]",
            f"lines = {written([one.cell.line])}",
            f"cuda = {written(f'=={cuda}' if cuda else CPU)}",
            f"platforms = {written([platform])}",
            f"reason = {written(f'Nix: {one.error}')}",
        ]
    return rows


def _inline(table: dict[str, str]) -> str:
    words = (f"{plain_key(key)} = {written(value)}" for key, value in table.items())
    return f"{{ {', '.join(words)} }}"
