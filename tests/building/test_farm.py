"""Builders: read, held against what a job needs, tried, and used over real ssh while one of them dies."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import pytest

from tests.building.conftest import ISA, Place, title, use
from tests.building.farm import LoopbackBuilder
from tests.cli.conftest import Call
from torchsmith.building.farm import (
    Builder,
    able,
    check_builder,
    configured,
    from_settings,
    isas_of,
    machines_option,
    read_machines,
    refusals,
    ssh_command,
)
from torchsmith.building.job import Job
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Invalid, Problem, Where
from torchsmith.core.process import Finished, run
from torchsmith.core.state import state_folder
from torchsmith.nix.tool import find_nix, settings_of
from torchsmith.record import open_record
from torchsmith.workspace.settings import BuilderSettings

X86, ARM = "x86_64-linux", "aarch64-linux"
BIG = frozenset(("big-parallel",))


def job(isa: str = "avx512", system: str = X86) -> Job:
    return Job("k", "torch", ("k",), "pytorch", True, system, features=BIG, isa=isa)


def builder(**fields: object) -> Builder:
    given = {"address": "ssh://a", "systems": frozenset((X86,)), "features": BIG} | fields
    return Builder(**given)  # type: ignore[arg-type]


def test_a_list_of_machines_is_read_and_written_as_nix_has_it() -> None:
    text = "# ours\nssh://me@a x86_64-linux,i686-linux /key 4 2 kvm big-parallel -\n\nb aarch64-linux\n"
    first, second = read_machines(text, "machines")
    assert (first.max_jobs, first.speed, first.mandatory) == (4, 2.0, BIG)
    assert second.address == "ssh://b"
    assert read_machines(machines_option([first, second]), "again") == [first, second]
    with pytest.raises(Problem) as caught:
        read_machines("ssh://a", "machines")
    assert caught.value.where == Where("machines", 1)


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (builder(systems=frozenset((ARM,))), {"x86_64-linux"}),
        (builder(features=frozenset()), {"big-parallel"}),
        (builder(isas=frozenset(("avx2",))), {"avx512", "avx2"}),
        (builder(mandatory=frozenset(("gpu",))), {"gpu"}),
        (builder(isas=frozenset(("avx2", "avx512"))), set()),
        (builder(), set()),
    ],
)
def test_a_builder_says_why_it_cannot_build_a_job(one: Builder, named: set[str]) -> None:
    refusal = one.refusal(job())
    assert named <= set(re.findall(r"[\w-]+", refusal))
    assert bool(able([one], job())) == (not refusal) == (not named)


@pytest.mark.parametrize(
    "address",
    [
        "-oProxyCommand=touch",
        "ssh://-oProxyCommand=touch",
        "ssh://me@-oProxyCommand",
        "ssh://a:99999",
        "ssh://a:x",
        "ssh://",
        "ssh://a:0",
    ],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(Invalid, match=address) as caught:
        read_machines(f"{address} x86_64-linux", "machines")
    assert caught.value.where == Where("machines", 1)
    with pytest.raises(Invalid, match=address):
        from_settings([BuilderSettings(address=address, systems=("x86_64-linux",))])


@pytest.mark.needs("ssh")
def test_ssh_takes_no_builder_for_an_option(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    run(ssh_command(Builder(f"-oProxyCommand=touch {mark}", frozenset()), "true"), timeout=20)
    assert not mark.exists()


def test_a_job_without_a_capable_builder_carries_the_reason_of_each() -> None:
    found = refusals(
        [builder(isas=frozenset(("avx2",))), builder(address="ssh://b", features=frozenset())], [job()]
    )
    assert set(found) == {"torch"}
    assert re.fullmatch("ssh://a .*avx512.*; ssh://b .*big-parallel", found["torch"])


CPUINFO = "processor : 0\nflags : fpu cx8 cmov mmx sse sse2 sse4_2 popcnt avx avx2 fma f16c\n"


def test_instruction_sets_follow_from_what_every_core_has() -> None:
    catalog = builtin_catalog()
    assert "avx2" in isas_of(CPUINFO, catalog, X86)
    assert "avx512" not in isas_of(CPUINFO, catalog, X86)
    older = "processor : 1\nflags : fpu cx8 cmov mmx sse sse2 pni ssse3 cx16\n"
    assert isas_of(f"{CPUINFO}\n{older}", catalog, X86) == frozenset()


def answering(**answers: str) -> Finished:
    text = "".join(f"==torchsmith=={name}\n{answer}\n" for name, answer in answers.items())
    return Finished((), 0, text, "", 0.1)


@pytest.mark.parametrize(
    ("answer", "faults"),
    [
        (Finished((), 255, "", "b: Permission denied (publickey).", 1), ["Permission denied"]),
        (Finished((), 255, "", "ssh: Could not resolve hostname b", 1), ["Could not resolve"]),
        (Finished((), 255, "", "", 20, True), ["did not answer in time"]),
        (
            answering(
                machine="aarch64", nix="", disk="/dev/sda 1 1 1048576 1% /", features="system-features = kvm"
            ),
            [
                "has no Nix",
                "is configured to build x86_64-linux, but is aarch64-linux",
                "big-parallel",
                "has 1 GB free",
            ],
        ),
        (
            answering(machine="x86_64", nix="nix-store 2.8", disk="/dev/sda 1 1 99999999 1% /", cpu=CPUINFO),
            [],
        ),
    ],
)
def test_what_is_wrong_with_a_builder_is_said_in_words(
    answer: Finished, faults: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchsmith.building.farm.run", lambda *_, **__: answer)
    checked = check_builder(builder(), builtin_catalog())
    assert len(checked.faults) == len(faults)
    for fault, words in zip(checked.faults, faults, strict=True):
        assert words in fault


def test_a_builder_that_does_not_answer_has_no_memory_to_build_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchsmith.building.farm.run", lambda *_, **__: Finished(("ssh",), 255, "", "", 0.0))
    checked = check_builder(builder(), builtin_catalog())
    assert (checked.ok, checked.free_gb, checked.memory_gb) == (False, 0, 0)


@pytest.mark.needs("nix", "ssh")
def test_farm_check_tries_each_builder(place: Place, farm: dict[str, LoopbackBuilder], call: Call) -> None:
    use(place, "one", "two")
    farm["two"].kill()
    told = json.loads(call(*place.words("doctor", "--builders", "--json")).out)
    rows = {row["builder"]: row for row in told["builders"]}
    assert ISA in rows["ssh://one"]["isas"]
    assert not [fault for fault in rows["ssh://one"]["faults"] if "GB" not in fault]
    assert ["Connection refused" in fault for fault in rows["ssh://two"]["faults"]] == [True]


@pytest.mark.needs("nix", "ssh")
@pytest.mark.long
def test_a_builder_that_dies_costs_its_job_a_second_try_and_nothing_else(
    place: Place, farm: dict[str, LoopbackBuilder], call: Call
) -> None:
    use(place, "one", "two")

    def kill_the_one_that_builds_torch() -> None:
        log = state_folder(place.root) / f"logs/1/{place.torch}.log"
        while killing.is_set():
            text = log.read_text() if log.exists() else ""
            if "[1/" in text:
                on = re.search(r"building \S*pytorch210\S* on ssh://(\w+)", text)
                assert on is not None
                farm[on[1]].kill()
                return
            time.sleep(0.02)

    killing = threading.Event()
    killing.set()
    killer = threading.Thread(target=kill_the_one_that_builds_torch)
    killer.start()
    done = call(*place.words("build", "--jobs", "0"))
    killing.clear()
    killer.join()
    assert done.code == 0, done.err
    rows = {row.name: row for row in open_record(place.root).jobs(1)}
    assert rows[place.torch].attempts == 2
    assert {row.attempts for name, row in rows.items() if name != place.torch} == {1}
    assert rows[place.vision].builder in ("ssh://one", "ssh://two")
    assert title("builder-lost") in done.err


@pytest.mark.needs("nix", "ssh")
def test_a_cell_that_no_builder_can_run_is_refused_before_anything_is_built(
    place: Place, farm: dict[str, LoopbackBuilder], call: Call
) -> None:
    use(place, "one", extra="isa = []\n")
    refused = call(*place.words("build", "--jobs", "0"))
    assert (refused.code, refused.error) == (3, "missing-requirement")
    assert ISA in refused.err
    assert open_record(place.root).runs() == []


@pytest.mark.needs("nix")
@pytest.mark.parametrize("way", ["setting", "file"])
def test_builders_of_nix_conf_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    line = "ssh://one x86_64-linux - 3 ; ssh://two x86_64-linux"
    (tmp_path / "machines").write_text(line)
    value = line if way == "setting" else f"@{tmp_path / 'machines'}"
    monkeypatch.setenv("NIX_CONFIG", f"builders = {value}")
    found = configured((), settings_of(find_nix()).builders)
    assert [(builder.address, builder.max_jobs) for builder in found] == [("ssh://one", 3), ("ssh://two", 1)]
    own = BuilderSettings(address="ssh://own", systems=("x86_64-linux",))
    assert [builder.address for builder in configured([own], value)] == ["ssh://own"]
