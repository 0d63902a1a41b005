"""What is picked must run; between candidates that run, the order is the one that was promised."""

from __future__ import annotations

import contextlib
import re
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.host.machines import stated
from torchsmith.catalog import DriverVersion, GpuTarget, Sm
from torchsmith.catalog.runs import driver_runs, gpu_code_runs
from torchsmith.core.problem import Conflict, Invalid, NotKnown, Problem
from torchsmith.host.commands import Environment, build_commands
from torchsmith.host.facts import Fact, GpuFacts, HostFacts
from torchsmith.host.pick import Assigned, Pick, PickedVariants, pick
from torchsmith.host.rank import Ranking, rank, why_after
from torchsmith.host.resolve import capability_of, resolve
from torchsmith.host.stated import find_cpu_name
from torchsmith.matrix import Cuda, Variant
from torchsmith.workspace.load import open_workspace

WIDE = open_workspace(None, "wide")
CATALOG = WIDE.catalog
CELLS = WIDE.matrix.cells
FEATURES = sorted(frozenset().union(*(isa.needs for isa in CATALOG.isas.values())))
DRIVERS = [
    "35.4.1",
    "470.256.02",
    "525.60.13",
    "535.183.01",
    "550.54",
    "570.26",
    "575.51",
    "580",
    "590.44.01",
]

known_cpus = st.sampled_from(sorted(CATALOG.cpus)).map(
    lambda name: frozenset().union(*(CATALOG.isas[isa].needs for isa in CATALOG.cpus[name].isas))
)
features = st.one_of(st.none(), known_cpus, st.frozensets(st.sampled_from(FEATURES)))
drivers = st.one_of(st.none(), st.sampled_from(DRIVERS).map(DriverVersion.parse))
capabilities = st.sampled_from([*(sm.number for sm in CATALOG.gpus), 60, 72, 88])
systems = st.sampled_from([None, "x86_64-linux", "aarch64-linux", "aarch64-darwin"])


T = TypeVar("T")


def fact(value: T | None) -> Fact[T] | None:
    return None if value is None else Fact(value, "drawn")


@st.composite
def hosts(draw: st.DrawFn) -> HostFacts:
    """Any machine, also ones that do not exist."""
    numbers = draw(st.one_of(st.none(), st.lists(capabilities, max_size=3)))
    gpus = None if numbers is None else tuple(GpuFacts(sm=Fact(Sm(number), "drawn")) for number in numbers)
    return HostFacts(
        system=fact(draw(systems)), features=fact(draw(features)), driver=fact(draw(drivers)), gpus=fact(gpus)
    )


def assert_runs(answer: Pick) -> None:
    """What was chosen runs, as far as the facts go, and says what else must be true."""
    host = answer.host
    for one in answer.choice.variants:
        variant, assumed = one.fit.variant, {reason.code for reason in one.fit.assumptions}
        isa = CATALOG.isas[variant.isa]
        assert host.system == isa.platform or (host.system is None and "system" in assumed)
        assert isa.needs <= (host.features if host.features is not None else isa.needs)
        assert host.features is not None or "isa" in assumed or not isa.needs
        if not isinstance(variant.target, Cuda):
            continue
        toolkit = CATALOG.cuda[variant.target.version]
        assert one.gpus
        # A machine has one driver: where it is unknown, it knows at least every GPU that is used.
        known = [CATALOG.gpus[sm].min_driver for sm in one.fit.used if sm in CATALOG.gpus]
        assert "driver" in assumed or driver_runs(toolkit, host.driver or max(known))
        for sm in one.gpus:
            gpu = CATALOG.gpus.get(sm) if isinstance(sm, Sm) else None
            if gpu is None:
                assert sm == variant.target.sm
                continue
            target = GpuTarget(variant.target.sm)
            assert gpu_code_runs("cubin", target, CATALOG.gpus[variant.target.sm], gpu)
            assert host.driver is None or host.driver >= gpu.min_driver


@pytest.mark.long
@given(hosts(), st.sampled_from(sorted(CATALOG.workloads)))
@settings(max_examples=300)
def test_what_is_picked_runs(facts: HostFacts, workload: str) -> None:
    answer = pick(facts, CELLS, CATALOG, CATALOG.workloads[workload])
    assert_runs(answer)
    for fit in answer.wanted:
        assert_runs(replace(answer, choice=PickedVariants((Assigned(fit, fit.used),))))


@given(hosts())
@settings(max_examples=30)
def test_no_smaller_set_of_variants_serves_the_same_gpus(facts: HostFacts) -> None:
    answer = pick(facts, CELLS, CATALOG, CATALOG.workloads["general"])
    served = {sm for one in answer.choice.variants for sm in one.gpus}
    reach = {frozenset(fit.used) for fit in answer.ranking.fits}
    for size in range(len(answer.choice.variants)):
        for group in combinations(reach, size):
            assert not served or not served <= frozenset().union(*group)
    assert set(answer.choice.unserved) == set(answer.host.sms or ()) - {sm for used in reach for sm in used}


@given(hosts())
@settings(max_examples=30)
def test_every_candidate_is_accounted_for(facts: HostFacts) -> None:
    workload = CATALOG.workloads["general"]
    answer = pick(facts, CELLS, CATALOG, workload)
    own = [cell for cell in CELLS if cell.variant.package.name == "pytorch"]
    ranking = rank(answer.host, own, CATALOG, workload)
    assert len(ranking.fits) + len(ranking.misses) == len(own)
    assert all(miss.reasons for miss in ranking.misses)
    for fit in ranking.fits[1:]:
        assert why_after(fit, ranking.fits[0], CATALOG, workload)
    # Those that do not run are ranked only if something is not served.
    served = answer.choice.variants and not answer.choice.unserved
    assert answer.ranking == (Ranking(ranking.fits) if served else ranking)


def names(answer: Pick) -> list[str]:
    return [one.fit.variant.cell.removeprefix("python313-") for one in answer.choice.variants]


def chosen(facts: HostFacts, workload: str = "general") -> list[str]:
    return names(pick(facts, CELLS, CATALOG, CATALOG.workloads[workload]))


def test_the_exact_architecture_comes_before_a_compatible_one() -> None:
    assert chosen(stated(cpu="zen3", gpu="L40S", driver="580")) == ["cuda13_0-sm89-avx2"]
    cells = [cell for cell in CELLS if cell.variant.sm is None or cell.variant.sm.number != 89]
    answer = pick(stated(cpu="zen3", gpu="L40S", driver="580"), cells, CATALOG, CATALOG.workloads["general"])
    assert names(answer) == ["cuda13_0-sm86-avx2"]
    assert [fit.variant.name for fit in answer.wanted] == ["pytorch-python313-cuda13_0-sm89-avx2"]


def test_the_drivers_own_cuda_comes_before_one_that_it_runs_by_compatibility() -> None:
    wanted = {"535": "12_8", "570": "12_8", "575": "12_9", "579": "12_9", "580": "13_0", "590": "13_0"}
    for driver, cuda in wanted.items():
        assert chosen(stated(cpu="zen3", gpu="sm90", driver=driver)) == [f"cuda{cuda}-sm90-avx2"]


def test_without_a_driver_the_least_demanding_cuda_is_taken_and_the_condition_said() -> None:
    answer = pick(stated(cpu="zen3", gpu="A100"), CELLS, CATALOG, CATALOG.workloads["general"])
    assert names(answer) == ["cuda12_8-sm80-avx2"]
    assumptions = answer.choice.variants[0].fit.assumptions
    assert [(reason.code, "525.60.13" in reason.text) for reason in assumptions] == [("driver", True)]


@pytest.mark.parametrize("gpu", [*map(str, CATALOG.gpus), "RTX 3090 + RTX 5090", "GTX 1060 + L4"])
def test_the_oldest_driver_that_meets_the_stated_condition_gets_the_answer(gpu: str) -> None:
    def answered(driver: str) -> Pick:
        host = stated(gpu=gpu, driver=driver)
        return pick(host, CELLS, CATALOG, CATALOG.workloads["general"])

    def cells(answer: Pick) -> tuple[str, ...]:
        fits = (*(one.fit for one in answer.choice.variants), *answer.wanted)
        return tuple(sorted(fit.variant.name for fit in fits if fit.used))

    unknown = answered("")
    fits = [*(one.fit for one in unknown.choice.variants), *unknown.wanted]
    least = max(fit.driver for fit in fits if fit.used and fit.driver)
    assert all(fit.assumes("driver") for fit in fits if fit.used)
    assert cells(answered(str(least.first))) == cells(unknown)


def test_a_jetson_is_asked_for_its_jetpack_and_not_for_a_desktop_driver() -> None:
    for gpu, pack in (("Jetson AGX Orin", "6.1"), ("Jetson AGX Thor", "7")):
        answer = pick(stated(gpu=gpu), CELLS, CATALOG, CATALOG.workloads["general"])
        [reason] = [one for one in answer.choice.variants[0].fit.assumptions if one.code == "driver"]
        assert f"JetPack {pack} " in reason.text


def test_desktop_code_is_not_for_tegra() -> None:
    cells = [cell for cell in CELLS if cell.variant.sm != Sm(87)]
    orin = stated(cpu="cortex_a78ae", gpu="Jetson AGX Orin", driver="540.4.0")
    answer = pick(orin, cells, CATALOG, CATALOG.workloads["general"])
    assert names(answer) == ["cpu-armv8_2"]
    assert [str(sm) for sm in answer.choice.unserved] == ["sm87"]


def test_a_report_about_gpus_alone_asks_for_the_least_of_the_cpu() -> None:
    answer = pick(stated(gpu="RTX 4090", driver="580"), CELLS, CATALOG, CATALOG.workloads["inference"])
    assert names(answer) == ["cuda13_0-sm89-avx"]
    codes = [reason.code for reason in answer.choice.variants[0].fit.assumptions]
    assert codes == ["system", "isa"]


def test_a_driver_that_is_too_old_is_the_nearest_miss_and_its_cure_is_named() -> None:
    plan = open_workspace(None, "seed").matrix.cells
    answer = pick(
        stated(cpu="zen4", gpu="RTX 4090", driver="570.124.06"),
        plan,
        CATALOG,
        CATALOG.workloads["general"],
    )
    nearest = answer.ranking.misses[0]
    assert nearest.variant.name == "pytorch-python313-cuda13_0-sm89-avx512"
    assert [(reason.code, " 580 " in reason.hint) for reason in nearest.reasons] == [("driver", True)]
    assert [fit.variant.name for fit in answer.wanted] == ["pytorch-python313-cuda12_8-sm89-avx512"]


def test_workloads_order_instruction_sets() -> None:
    spr = stated(cpu="Sapphire Rapids", gpu="none")
    assert chosen(spr) == ["cpu-avx512"]
    assert chosen(spr, "training") == ["cpu-avx512bf16"]
    assert chosen(spr, "inference") == ["cpu-avx512vnni"]


def test_companions_of_the_choice_are_named() -> None:
    answer = pick(stated(cpu="zen3", gpu="none"), CELLS, CATALOG, CATALOG.workloads["general"])
    assert answer.companions == ("torchvision-python313-cpu-avx2", "torchaudio-python313-cpu-avx2")


def test_the_commands_are_those_that_a_person_types(tmp_path: Path) -> None:
    variant = Variant.parse("torchvision-python313-cuda13_0-sm120-avx512", CATALOG)
    here = Environment(nix=True, flox=False, folder="a b")
    assert build_commands([variant], here) == {
        "build": f"torchsmith apply -w 'a b' && torchsmith build -w 'a b' {variant}"
    }
    assert build_commands([variant], Environment(nix=False, flox=False, folder=".")) == {
        "write": "torchsmith apply"
    }
    recipe = here.recipe(variant)
    with contextlib.chdir(tmp_path):
        recipe.parent.mkdir(parents=True)
        recipe.touch()
        build = f"torchsmith build -w 'a b' {variant}"
        assert build_commands([variant], here) == {"build": build, "missing": f"{build} --dry-run"}


@pytest.mark.parametrize(
    ("words", "kind", "named", "hint"),
    [
        ({"cpu": "zen9"}, NotKnown, "'zen9'", "zen4"),
        ({"cpu": "Saphire Rapids"}, NotKnown, "'Saphire", "Rapids?"),
        ({"gpu": "RTX 9999"}, NotKnown, "'RTX 9999'", "sm89"),
        ({"gpu": "RTXX 4090"}, NotKnown, "'RTXX 4090'", "RTX 4090"),
        ({"gpu": "RTX 4090 + none"}, Conflict, "none stands alone", "leave one of them out"),
        ({"gpu": "H10"}, NotKnown, "'H10'", "sm89"),
        ({"driver": "12.8"}, Invalid, "CUDA release", "570.26"),
        ({"gpu": "Intel Gaudi 3"}, NotKnown, "Gaudi", "none"),
        ({"gpu": "A100 RTX 4090"}, NotKnown, "A100", " + "),
        ({"features": "avx", "isa": "foo"}, NotKnown, "'foo'", "avx512"),
        ({"driver": "new"}, Invalid, "'new'", ""),
        ({"driver": "999"}, Invalid, "no driver 999", "nvidia-smi"),
        ({"features": "foo bar"}, NotKnown, "'foo bar'", "/proc/cpuinfo"),
        ({"isa": "avx513"}, NotKnown, "'avx513'", ": avx, avx2, avx512"),
    ],
)
def test_a_word_that_nobody_knows_is_named(
    words: dict[str, str], kind: type[Problem], named: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        stated(**words)
    assert named in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "words",
    ["A100, RTX 4090", "A100/RTX 4090", "A100 and RTX 4090", "A100 & RTX 4090", "2x A100 + 1 x RTX 4090"],
)
def test_several_gpus_are_all_read_whatever_stands_between_them(words: str) -> None:
    host = capability_of(resolve(stated(gpu=words), CATALOG))
    assert [str(sm) for sm in host.sms or ()] == ["sm80", "sm89"]


# What people write for CPUs that the catalog may not know, and the instruction sets that these really run.
OTHERS = {
    "Meteor Lake": "avx2", "Lunar Lake": "avx2", "Sierra Forest": "avx2", "Threadripper": "avx2",
    "Kaby Lake": "avx2", "Naples": "avx2", "Zen 1": "avx2", "Atom": "", "Neoverse E1": "armv8_2",
    "Graviton 1": "", "Amber Lake": "avx2", "Gemini Lake": "", "Ice Lak": "avx512vnni",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_no_hint_leads_to_a_cpu_with_more_than_the_one_that_was_meant(name: str) -> None:
    try:
        found = CATALOG.cpus[find_cpu_name(name, CATALOG)]
    except Problem as problem:
        said = re.search(r"did you mean (.+?)\?", problem.hint)
        if said is None:
            return
        found = CATALOG.cpus[find_cpu_name(said[1], CATALOG)]
    levels = [CATALOG.isas[isa].level for isa in found.isas]
    own = CATALOG.isas[OTHERS[name]].level if OTHERS[name] else 0
    assert max(levels, default=0) <= own


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Intel(R) Xeon(R) Platinum 8480+", "sapphirerapids"),
        ("AMD EPYC 9654 96-Core Processor", "zen4"),
        ("Genoa", "zen4"),
        ("graviton 3", "neoverse_v1"),
        ("i7 8700k", "skylake"),
        ("Sapphire Rapids", "sapphirerapids"),
    ],
)
def test_a_cpu_is_known_by_what_people_call_it(words: str, name: str) -> None:
    assert find_cpu_name(words, CATALOG) == name
