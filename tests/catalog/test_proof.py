"""The catalog says what ptxas, gcc and archspec say, and a wrong entry does not go unseen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tools.proof import readings as proof_readings
from tools.proof.__main__ import main
from tools.proof.checks import (
    FactCheck,
    check_catalog,
    check_cpu,
    check_feature,
    check_gfx,
    check_isa,
    check_targets,
)
from tools.proof.readings import Absent, Readings, read_ptxas_help, read_tools
from torchsmith.catalog import CudaVersion, GpuTarget, builtin_catalog

CATALOG = builtin_catalog()
READ = ("12.8", "12.9", "13.0")  # `make facts` reads them all
pytestmark = pytest.mark.needs("cross-gcc")


@pytest.fixture(scope="module")
def readings() -> Readings:
    toolkits = [CATALOG.cuda[CudaVersion.parse(version)] for version in READ]
    found = read_tools(toolkits, download=True)
    for version, said in found.ptxas.items():
        assert not isinstance(said, Absent), f"CUDA {version}: {said}"
    return found


def test_every_fact_that_was_asked_of_a_tool_holds(readings: Readings) -> None:
    checks = check_catalog(CATALOG, readings)
    assert [check for check in checks if check.outcome == "wrong"] == []
    unread = [check.detail for check in checks if check.outcome == "not checked"]
    assert set(unread) == {"not asked for"}
    assert sum(check.outcome == "holds" for check in checks) > 50


def test_a_feature_that_gcc_does_not_switch_on_with_another_is_wrong(readings: Readings) -> None:
    feature = CATALOG.features["avx512dq"]
    for wrong in (replace(feature, flag="-mavx2"), replace(feature, flag="-mavx512vl")):
        checks = [one for one in check_feature(wrong, CATALOG, readings) if one.tool == "gcc"]
        assert [one.outcome for one in checks] == ["wrong"]


@pytest.mark.needs("hip")
def test_every_target_of_amd_that_two_releases_of_llvm_list_is_in_the_catalog(readings: Readings) -> None:
    assert not isinstance(readings.llc, Absent)
    assert {14, 19} <= set(readings.llc)
    for release, targets in readings.llc.items():
        listed = {name for name in targets if re.fullmatch(r"gfx(9..|1[012]..)", name)}
        listed -= {"gfx940", "gfx941"}  # of the first MI300, which were never sold: LLVM 20 has them no more
        older = {name for name, gfx in CATALOG.gfx.items() if gfx.llvm <= release and not gfx.retired}
        assert older == {name for name in listed if name <= "gfx1201" or name.startswith("gfx9")}, release


@pytest.mark.needs("hip")
def test_a_target_that_llvm_does_not_have_is_wrong(readings: Readings) -> None:
    gfx = CATALOG.gfx["gfx1100"]
    for flipped in (replace(gfx, name="gfx1109"), replace(gfx, llvm=14), replace(gfx, llvm=20)):
        assert wrong(check_gfx(flipped, readings))
    new = Readings(
        {}, proof_readings.gcc_macros, Absent(""), llc={20: frozenset({"gfx1100", "gfx11-generic"})}
    )
    assert not wrong(check_gfx(gfx, new))
    assert wrong(check_gfx(replace(gfx, generic="gfx10-generic"), new))
    none = Readings({}, proof_readings.gcc_macros, Absent(""), llc=Absent("no llc"))
    assert [check.outcome for check in check_gfx(gfx, none)] == ["not checked"]


def wrong(checks: Iterator[FactCheck]) -> bool:
    return any(check.outcome == "wrong" for check in checks)


def target_flips(readings: Readings) -> Iterator[tuple[str, bool]]:
    """Every target of every toolkit that was read, taken out or put in."""
    everything = {target for toolkit in CATALOG.cuda.values() for target in toolkit.targets}
    for version in readings.ptxas:
        toolkit = CATALOG.cuda[version]
        for target in everything:
            flipped = tuple({*toolkit.targets} ^ {target})
            check = check_targets(replace(toolkit, targets=flipped), readings)
            yield f"CUDA {version} {target}", check.outcome == "wrong"


def isa_flips(readings: Readings) -> Iterator[tuple[str, bool]]:
    """Every macro and feature taken out or put in, and every flag taken out whose absence gcc can see."""
    for isa in CATALOG.isas.values():
        macros = {macro for other in CATALOG.isas.values() for macro in other.macros}
        for macro in macros:
            flipped = replace(isa, macros=tuple({*isa.macros} ^ {macro}))
            yield f"{isa.name} {macro}", wrong(check_isa(flipped, CATALOG, readings))
        features = {one.name for one in CATALOG.features.values() if one.platform == isa.platform}
        for feature in features:
            flipped = replace(isa, features=isa.features ^ {feature})
            yield f"{isa.name} {feature}", wrong(check_isa(flipped, CATALOG, readings))
        for flag in isa.flags:
            without = tuple(other for other in isa.flags if other != flag)
            if readings.macros(isa.platform, without) != readings.macros(isa.platform, isa.flags):
                flipped = replace(isa, flags=without)
                yield f"{isa.name} {flag}", wrong(check_isa(flipped, CATALOG, readings))


def cpu_flips(readings: Readings) -> Iterator[tuple[str, bool]]:
    """Every instruction set of every CPU, given or taken."""
    for cpu in CATALOG.cpus.values():
        for isa in CATALOG.isas.values():
            if isa.platform == cpu.platform:
                flipped = replace(cpu, isas=tuple({*cpu.isas} ^ {isa.name}))
                yield f"{cpu.name} {isa.name}", wrong(check_cpu(flipped, CATALOG, readings))


@pytest.mark.parametrize("flips", [target_flips, isa_flips, cpu_flips])
def test_every_flipped_fact_that_a_tool_can_see_is_caught(readings: Readings, flips, record_property) -> None:  # type: ignore[no-untyped-def]
    tried = dict(flips(readings))
    missed = [name for name, caught in tried.items() if not caught]
    record_property("flips", len(tried))
    print(f"{flips.__name__}: {len(tried) - len(missed)} of {len(tried)} flips caught")
    assert len(tried) > 90
    assert missed == []


def test_virtual_targets_in_the_help_text_are_no_targets() -> None:
    text = "Allowed values: 'compute_90','lto_90','sm_90','sm_90a','sm_100f'. Default value: 'sm_75'."
    assert read_ptxas_help(text) == {GpuTarget.parse(word) for word in ("90", "90a", "100f", "75")}


def test_a_wheel_of_another_release_is_noticed(readings: Readings) -> None:
    said = dict(readings.ptxas)
    said[CudaVersion(12, 8)], said[CudaVersion(12, 9)] = said[CudaVersion(12, 9)], said[CudaVersion(12, 8)]
    swapped = Readings(said, readings.macros, readings.archspec)
    check = check_targets(CATALOG.cuda[CudaVersion(12, 8)], swapped)
    assert check.outcome == "wrong"
    assert "release 12.9" in check.detail


def test_names_that_newer_compilers_have_for_old_instructions_are_no_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {(): frozenset({"__x86_64__"}), ("-mnew",): frozenset({"__x86_64__", "__AVX__", "__EVEX512__"})}
    told |= {("-march=new",): frozenset({"__x86_64__", "__ARM_FEATURE_PAUTH", "__ARM_FEATURE_SVE"})}
    monkeypatch.setattr(proof_readings, "_defined", lambda _, flags: told[flags])
    monkeypatch.setattr(proof_readings, "find", Path)
    ask = proof_readings.gcc_macros.__wrapped__
    monkeypatch.setattr(proof_readings, "gcc_macros", ask)
    assert ask("x86_64-linux", ("-mnew",)) == frozenset({"__AVX__"})
    assert ask("aarch64-linux", ("-march=new",)) == frozenset({"__ARM_FEATURE_SVE"})


def test_flags_that_no_compiler_here_knows_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_readings, "find", lambda program: None)
    proof_readings.gcc_macros.cache_clear()
    absent = proof_readings.gcc_macros("aarch64-linux", ("-march=armv9-a",))
    proof_readings.gcc_macros.cache_clear()
    assert isinstance(absent, Absent)
    assert "apt-get install" in str(absent)


def test_cpus_are_not_checked_without_archspec() -> None:
    absent = Absent("archspec is not installed")
    readings = Readings(ptxas={}, macros=lambda platform, flags: absent, archspec=absent)
    cpu = next(cpu for cpu in CATALOG.cpus.values() if cpu.archspec)
    (check,) = (check for check in check_cpu(cpu, CATALOG, readings) if check.tool == "archspec")
    assert (check.outcome, check.detail) == ("not checked", absent.why)


def test_the_command_counts_what_no_tool_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--offline", "--cuda", "13.0"]) == 0
    *_, counts, left = capsys.readouterr().out.splitlines()
    assert ", 0 wrong, " in counts
    assert left.startswith("not looked at: ")
    assert main(["--cuda", "12.7"]) == 2
    assert "12.7" in capsys.readouterr().err
