"""`torchsmith sbom`: what a cell is made of, and under which terms."""

from __future__ import annotations

from torchsmith.api.derivations import GraphRequest, SbomReport, sbom
from torchsmith.cli.console import exit_if, paint, print_json, tell, warn, write
from torchsmith.cli.options import JsonOption
from torchsmith.core.text import counted, some_of
from torchsmith.publishing.sbom import CUDA_TERMS, Terms, holds_cuda
from torchsmith.verbs.evaluation import print_failed
from torchsmith.verbs.progress import Terminal

PACKAGES_NAMED = 6  # packages under a free licence that are named; the rest is counted
EXAMPLE = "torchsmith init b && torchsmith apply -w b && torchsmith sbom -w b sm120 avx512 --nixpkgs sample"


def run(*, request: GraphRequest, json: JsonOption = False) -> None:
    """List the packages that go into recipes, with versions and licences; --json prints CycloneDX.

    Nix evaluates the recipes for name, version and licence of every input, direct or not. Where all results
    are in the store, it lists what they contain. Non-free licences, such as CUDA's, come first. The exit code
    is 1 when a recipe does not evaluate, 3 when only downloads failed; no document is printed then, since it
    would be incomplete.
    """
    report = sbom(request, Terminal())
    print_failed(report.failed)
    if json and not report.failed:
        print_json(report.bom, format=None)
    elif report.packages and not json:
        _print_terms(report)
    exit_if(report.exit)


def _print_terms(report: SbomReport) -> None:
    """Licences, those that are not free first and with all of their packages."""
    for licence in report.terms:
        _print_license(licence)
    bound = sum(licence.bound for licence in report.terms)
    basis = "what the results in the store hold" if report.built else "inputs by evaluation, nothing built"
    sums = f"{counted(report.packages, 'package')}, {counted(len(report.terms), 'licence')}"
    tell(f"{report.title}: {sums}, {bound} of them not free ({basis})")
    if holds_cuda(report.terms):
        warn(CUDA_TERMS)
    if bound:
        warn(
            "read the terms of non-free packages before you redistribute a result; --json lists every package"
        )


def _print_license(terms: Terms) -> None:
    license, stated = terms.license, ""
    if terms.bound:
        allowed = "may be redistributed" if license.redistributable else "no right to redistribute is stated"
        stated = paint(f"  not free; nixpkgs: {allowed}", "red")
    write(f"{len(terms.packages):5}  {paint(license.title, 'bold red' if terms.bound else 'bold')}{stated}")
    if terms.bound and license.url:
        write(f"       {license.url}", whole=True)
    count = len(terms.packages) if terms.bound else PACKAGES_NAMED
    write(f"       {some_of(terms.packages, count)}", "dim", hang=0)
