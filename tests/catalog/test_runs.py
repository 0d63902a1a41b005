"""What runs on what, against the rules that NVIDIA and the CPU makers publish."""

import msgspec
import pytest

from tests.catalog.second import contains as isa_contains
from torchsmith.catalog import CudaVersion, DriverVersion, Gpu, GpuTarget, Sm, builtin_catalog
from torchsmith.catalog.gpu_names import host_of_name
from torchsmith.catalog.runs import Code, Verdict, driver_reaches, driver_runs, gpu_code_runs, isa_runs

CATALOG = builtin_catalog()


def gpu(name: str) -> Gpu:
    return CATALOG.gpus[Sm.parse(name)]


def code(kind: Code, target: str, on: str) -> Verdict:
    parsed = GpuTarget.parse(target)
    return gpu_code_runs(kind, parsed, CATALOG.gpus.get(parsed.sm), gpu(on))


@pytest.mark.parametrize(
    ("kind", "target", "on", "how"),
    [
        ("cubin", "86", "sm86", "native"),
        ("cubin", "80", "sm86", "native"),
        ("cubin", "80", "sm89", "native"),
        ("cubin", "86", "sm80", None),
        ("cubin", "90", "sm100", None),
        ("cubin", "120", "sm121", "native"),
        ("cubin", "121", "sm120", None),
        ("cubin", "90a", "sm90", "native"),
        ("cubin", "100a", "sm103", None),
        ("cubin", "100f", "sm103", "native"),
        ("cubin", "103f", "sm100", None),
        ("cubin", "120f", "sm121", "native"),
        ("cubin", "86", "sm87", None),
        ("cubin", "87", "sm89", None),
        ("cubin", "100", "sm110", None),
        ("ptx", "80", "sm80", "jit"),
        ("ptx", "80", "sm121", "jit"),
        ("ptx", "86", "sm87", "jit"),
        ("ptx", "90", "sm89", None),
        ("ptx", "90a", "sm100", None),
        ("ptx", "100f", "sm103", "jit"),
        ("ptx", "100f", "sm120", None),
    ],
)
def test_gpu_code_runs_where_the_rules_say(kind: Code, target: str, on: str, how: str | None) -> None:
    verdict = code(kind, target, on)
    assert bool(verdict) is (how is not None)
    assert getattr(verdict, "how", None) == how
    assert verdict.reason
    if how and kind == "cubin":
        assert ("compatible" in verdict.reason) is (f"sm{target.rstrip('af')}" != on)


def test_a_driver_runs_what_its_release_notes_promise() -> None:
    def runs(cuda: str, driver: str) -> str | None:
        verdict = driver_runs(CATALOG.cuda[CudaVersion.parse(cuda)], DriverVersion.parse(driver))
        return getattr(verdict, "how", None)

    assert runs("13.0", "580.95.05") == "native"
    assert runs("13.0", "570.124") is None
    assert runs("12.8", "570.124") == "native"
    assert runs("12.9", "550.54.14") == "compatible"
    assert runs("12.4", "470.82") is None
    assert runs("13.1", "580.95.05") == "compatible"
    newest = driver_runs(CATALOG.cuda[CudaVersion.parse("13.4")], DriverVersion.parse("999"))
    assert "not known" in newest.reason, "which driver came with it"


def test_an_instruction_set_contains_those_below_it_and_no_others() -> None:
    isas = CATALOG.isas

    def contains(wider: str, narrower: str) -> bool:
        return isa_contains(isas[wider], isas[narrower])

    assert contains("avx512bf16", "avx512")
    assert contains("avx512", "avx2")
    assert contains("avx2", "avx")
    assert contains("armv9", "armv8_2")
    assert not contains("avx512bf16", "avx512vnni")
    assert not contains("avx512vnni", "avx512bf16")
    assert not contains("armv9", "avx")


def test_a_missing_feature_is_named() -> None:
    verdict = isa_runs(CATALOG.isas["avx2"], {"avx", "avx2", "popcnt", "sse4_2", "f16c"})
    assert not verdict
    assert "fma" in verdict.reason


@pytest.mark.parametrize(
    ("driver", "needed", "reaches"),
    [
        ("580.65.06", "580.65.06", True),
        ("580.95.05", "580.65.06", True),
        ("575.57.08", "580.65.06", False),
        ("580", "580.65.06", None),  # a branch has older and newer ones
        ("575", "580.65.06", False),
        ("581", "580.65.06", True),
    ],
)
def test_a_driver_reaches_another_or_only_its_branch_is_known(
    driver: str, needed: str, reaches: bool | None
) -> None:
    assert driver_reaches(DriverVersion.parse(driver), DriverVersion.parse(needed)) is reaches


def test_a_fix_of_torch_serves_what_needs_torch_and_one_without_packages_serves_all() -> None:
    torch, others = CATALOG.torch, [package for package in CATALOG.packages.values() if not package.is_torch]
    fix = next(fix for fix in CATALOG.fixes.values() if fix.packages == (torch.name,))
    assert [fix.serves(package) for package in (torch, *others)] == [
        True,
        *(package.needs_torch for package in others),
    ]
    assert all(msgspec.structs.replace(fix, packages=()).serves(package) for package in (torch, *others))


def test_memory_is_that_of_the_largest_unit_beside_usual_ones() -> None:
    estimate = next(iter(CATALOG.estimates.values()))
    for compilers in (1, 2, 7):
        assert estimate.compilers_within(estimate.memory_gb(compilers) + 0.01) == compilers
    assert estimate.compilers_within(0) == 1


def test_a_gpu_on_a_board_with_a_cpu_names_that_cpu() -> None:
    board, cpu = next(item for one in CATALOG.gpus.values() for item in one.superchips.items())
    assert host_of_name(f"NVIDIA {board}", CATALOG) == cpu
    assert host_of_name("RTX 4090", CATALOG) == ""


def test_a_patch_names_the_commit_that_its_address_has() -> None:
    patches = [patch for fix in CATALOG.fixes.values() for patch in fix.patches.values()]
    assert any(len(patch.rev) == 40 and patch.rev in patch.url for patch in patches)
    assert msgspec.structs.replace(patches[0], url="https://example.org/a.patch").rev == ""
