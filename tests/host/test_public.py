"""Reports that strangers pasted into public trackers, cut to the lines that matter, read as they stand."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import msgspec
import pytest

from torchsmith.catalog import CudaVersion, Sm, builtin_catalog
from torchsmith.core.problem import Invalid
from torchsmith.host.facts import HostFacts
from torchsmith.host.pick import pick
from torchsmith.host.read_report import machine_of, read_report
from torchsmith.host.resolve import capability_of, resolve
from torchsmith.host.wheels import wheels_for
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
CELLS = open_workspace(None, "every").cells_of(CATALOG.torch)


class Public(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report, where it was found, and what a person reads in it."""

    address: str
    text: str
    system: str = ""
    gpus: tuple[str, ...] | None = None  # architectures; None: it says nothing of GPUs
    unknown: bool = False  # there is a GPU, and it does not say which
    driver: str = ""
    others: bool = False  # GPUs of another maker
    targets: tuple[str, ...] = ()  # the architectures of those, and of a Mac's
    cut: bool = False  # its list of CPU features breaks off, so that it does not count
    refused: bool = False  # it states no fact that is used


REPORTS = {
    report["address"].removeprefix("https://github.com/"): msgspec.convert(report, Public)
    for report in tomllib.loads((Path(__file__).parent / "public.toml").read_text())["reports"]
}


@cache
def facts_of(name: str) -> HostFacts:
    return machine_of([read_report(REPORTS[name].text, "report.txt")])


def test_there_are_enough_of_them() -> None:
    assert len(REPORTS) >= 235


READ = [name for name, report in REPORTS.items() if not report.refused]


@pytest.mark.parametrize("name", [name for name in REPORTS if name not in READ])
def test_a_report_without_facts_is_refused_with_the_commands_that_print_them(name: str) -> None:
    with pytest.raises(Invalid, match="says nothing") as caught:
        facts_of(name)
    assert "nvidia-smi --query-gpu" in caught.value.hint


@pytest.mark.parametrize("name", READ)
def test_a_public_report_is_read_as_a_person_reads_it(name: str) -> None:
    report = REPORTS[name]
    host = capability_of(resolve(facts_of(name), CATALOG))
    assert (host.system or "") == report.system
    assert (None if host.sms is None else tuple(map(str, host.sms))) == report.gpus
    assert bool(host.unknown_gpus) is report.unknown
    assert str(host.driver or "") == report.driver
    assert bool(host.non_nvidia_gpus) is report.others
    assert tuple(arch for arch in host.archs if isinstance(arch, str)) == report.targets
    assert not (report.cut and host.features)


@pytest.mark.parametrize("name", READ)
def test_no_public_report_gets_an_unsafe_answer(name: str) -> None:
    """A build that needs what a report does not state says so; a GPU is never served by a CPU build."""
    report = REPORTS[name]
    answer = pick(facts_of(name), CELLS, CATALOG, CATALOG.workloads["general"])
    if report.gpus or report.unknown or report.others:
        assert not answer.served or answer.choice.variants[0].gpus
    for chosen in answer.choice.variants:
        fit = chosen.fit
        assert fit.assumes("system") or report.system
        for gpu in chosen.gpus:
            assert isinstance(gpu, Sm) is (fit.variant.backend == "cuda")
            if not isinstance(gpu, Sm):
                assert fit.variant.arch == gpu
                assert gpu in report.targets
                assert fit.assumes("driver") or answer.host.macos
            elif not report.driver:
                floor = CATALOG.gpus[gpu].min_driver
                assert fit.variant.cuda is not None
                assert fit.assumes("driver") or floor >= CATALOG.cuda[fit.variant.cuda].min_driver
    for wheel in wheels_for(answer.host, CATALOG):
        if not wheel.cuda or report.driver:
            continue
        needs = CATALOG.cuda[CudaVersion.parse(wheel.cuda)].min_driver
        floors = [CATALOG.gpus[sm].min_driver for sm in answer.host.sms or () if sm in CATALOG.gpus]
        assert any(floor >= needs for floor in floors) or any("driver" in text for text in wheel.assumptions)


def test_forty_and_more_reports_are_of_amd_gpus_or_macs() -> None:
    others = [one for one in REPORTS.values() if one.others or one.targets or one.system.endswith("-darwin")]
    assert len(others) >= 40
    assert {arch for one in others for arch in one.targets} >= {"gfx1010", "gfx1030", "gfx1151", "mps"}
