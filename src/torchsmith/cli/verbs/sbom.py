"""`torchsmith sbom`: what a cell is made of, and under which terms."""

from __future__ import annotations

from torchsmith.api.nix_options import NixOptions, Recipes, open_recipes
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.cli.console import exit_if, paint, print_json, tell, warn, write
from torchsmith.cli.evaluation import evaluation, print_failures
from torchsmith.core.words import counted, some_of
from torchsmith.nix.graph import Inventory, take_stock
from torchsmith.publishing.sbom import CUDA_TERMS, Terms, cyclonedx, holds_cuda, terms

NAMED = 6  # packages under a free licence that are named; the rest is counted
EXAMPLE = (
    "torchsmith init b && torchsmith generate -w b && torchsmith sbom -w b sm120 avx512 --nixpkgs sample"
)


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    *,
    nix: NixOptions,
    json: JsonOption = False,
) -> None:
    """List the packages that go into recipes, with versions and licences; --json prints CycloneDX.

    Nix evaluates the recipes and tells name, version and licence of every input for the host, and of theirs.
    Where all results are in the store, it is what they really hold. Terms that are not free, CUDA's among
    them, come first. The exit code is 1 where a recipe does not evaluate, 3 where all that failed are
    downloads; there is no document then, which would lack packages.
    """
    opened, chosen = open_recipes(recipes, workspace)
    tool, evaluate = evaluation(nix, workspace=opened, inventory=True)
    results = evaluate(chosen)
    code = print_failures(results)
    inventory = take_stock(tool, results)
    title = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} recipes"
    if json and not code:
        print_json(cyclonedx(inventory, title), format=None)
    elif inventory.components and not json:
        _print_terms(inventory, title)
    exit_if(code)


def _print_terms(inventory: Inventory, title: str) -> None:
    """Licences, those that are not free first and with all of their packages."""
    listed = terms(inventory)
    for one in listed:
        _print_license(one)
    packages, bound = len(inventory.components) + len(inventory.strangers), sum(one.bound for one in listed)
    basis = "what the results in the store hold" if inventory.built else "inputs by evaluation, nothing built"
    sums = f"{counted(packages, 'package')}, {counted(len(listed), 'licence')}"
    tell(f"{title}: {sums}, {bound} of them not free ({basis})")
    if holds_cuda(listed):
        warn(CUDA_TERMS)
    if bound:
        warn("read terms that are not free before you hand on a result or an image; --json has every package")


def _print_license(one: Terms) -> None:
    license, stated = one.license, ""
    if one.bound:
        allowed = "may be redistributed" if license.redistributable else "no right to redistribute is stated"
        stated = paint(f"  not free; nixpkgs: {allowed}", "red")
    write(f"{len(one.packages):5}  {paint(license.title, 'bold red' if one.bound else 'bold')}{stated}")
    if one.bound and license.url:
        write(f"       {license.url}", whole=True)
    shown = len(one.packages) if one.bound else NAMED
    write(f"       {some_of(one.packages, shown)}", "dim", hang=0)
