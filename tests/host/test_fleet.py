"""Inventories: CSV and folders of reports, with mistakes named by their place."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.host.machines import corpus
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Empty, Problem
from torchsmith.host.fleet import SAMPLE, Fleet, read_fleet
from torchsmith.host.resolve import capability_of, resolve

CATALOG = builtin_catalog()


def read(path: Path, text: str) -> Fleet:
    path.write_text(text)
    return read_fleet(path, CATALOG)


def sms(fleet: Fleet) -> list[list[str] | None]:
    hosts = [capability_of(resolve(kind.facts, CATALOG)) for kind in fleet.kinds]
    return [None if host.sms is None else [str(sm) for sm in host.sms] for host in hosts]


def test_rows_name_machines_as_people_do(tmp_path: Path) -> None:
    fleet = read(
        tmp_path / "fleet.csv",
        "name,count,cpu,gpu,driver,rack\n"
        "pods,8,Sapphire Rapids,8x H100 80GB,580.95.05,a1\n"
        "desk,3,zen4,RTX 3090 + RTX 4090,570,b2\n"
        "batch,100,Graviton3,none,,c3\n",
    )
    assert [(kind.name, kind.count) for kind in fleet.kinds] == [("pods", 8), ("desk", 3), ("batch", 100)]
    assert sms(fleet) == [["sm90"], ["sm86", "sm89"], []]
    assert fleet.machines == 111
    assert fleet.unused_columns == ("rack",)


def test_other_separators_and_column_names_are_understood(tmp_path: Path) -> None:
    fleet = read(tmp_path / "f.csv", "\ufeffHostname;Machines;ISA;compute_cap\nx;2;avx512;9.0\n")
    assert [(kind.name, kind.count) for kind in fleet.kinds] == [("x", 2)]
    assert sms(fleet) == [["sm90"]]


def test_an_architecture_wins_over_a_name_that_nobody_knows(tmp_path: Path) -> None:
    assert sms(read(tmp_path / "f.csv", "cpu,gpu,sm\nzen4,Tesla X1000,sm89\n")) == [["sm89"]]


def test_an_inventory_without_gpu_columns_says_nothing_of_gpus(tmp_path: Path) -> None:
    assert sms(read(tmp_path / "f.csv", "cpu\nzen4\n")) == [None]


def test_bad_rows_are_left_out_and_named_with_their_line(tmp_path: Path) -> None:
    fleet = read(
        tmp_path / "f.csv",
        "cpu,gpu,driver,count\nzen4,RTX 4090,570,1\nzen4,RTX 9999,570,1\n"
        "zen4,L4,x,1\nzen4,L4,570,1.5\nzen4,L4,570,-1\n",
    )
    assert len(fleet.kinds) == 1
    assert [unread.where.line for unread in fleet.unread] == [3, 4, 5, 6]
    for unread, word in zip(fleet.unread, ("'RTX 9999'", "'x'", "1.5", "-1"), strict=True):
        assert word in unread.why


def test_a_row_that_is_silent_about_gpus_has_none_if_there_is_a_column(tmp_path: Path) -> None:
    assert sms(read(tmp_path / "f.csv", "cpu,gpu\nzen4,L4\nzen4,\n")) == [["sm89"], []]


def test_a_cell_of_two_lines_does_not_shift_the_lines_below(tmp_path: Path) -> None:
    fleet = read(tmp_path / "f.csv", 'name,cpu\n"a\nb",zen4\nx,zen 44\n')
    assert [unread.where.line for unread in fleet.unread] == [4]


def test_a_folder_holds_a_machine_for_each_name(tmp_path: Path) -> None:
    for name in ("icelake-a100", "cascadelake-t4"):
        for report in corpus()[name].reports:
            (tmp_path / f"{name}.{report.tool}.txt").write_text(report.text)
    (tmp_path / "rack").mkdir()
    (tmp_path / "rack" / "host.json").write_text(
        msgspec.json.encode(corpus()["graviton4"].facts(), enc_hook=str).decode()
    )
    (tmp_path / "README").write_text("what is here\n")
    fleet = read_fleet(tmp_path, CATALOG)
    assert [kind.name for kind in fleet.kinds] == ["cascadelake-t4", "icelake-a100", "rack"]
    assert sms(fleet) == [["sm75"], ["sm80"], []]
    assert [Path(unread.where.file).name for unread in fleet.unread] == ["README"]


@pytest.mark.parametrize(
    ("name", "text", "kind", "said"),
    [
        ("f.csv", "", Empty, "f.csv"),
        ("f.csv", "rack,owner\n1,2\n", Empty, "f.csv"),
        ("f.csv", "cpu,gpu\npentium,none\n", Empty, "'pentium'"),
        ("f.json", '[{"gpu": "L4"}]', Empty, "f.json"),
    ],
)
def test_an_inventory_without_a_machine_is_refused(
    name: str, text: str, kind: type[Problem], said: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        read(tmp_path / name, text)
    assert said in str(caught.value)


def test_the_sample_is_read_whole() -> None:
    fleet = read_fleet(Path("sample"), CATALOG)
    assert len(fleet.kinds) == len(SAMPLE.read_text().splitlines()) - 1
    assert not fleet.unread
    assert not fleet.unused_columns


def test_an_open_quote_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text('name,gpu\n"a,H100\nb,H100\n')
    with pytest.raises(Problem, match="CSV") as caught:
        read_fleet(tmp_path / "fleet.csv", CATALOG)
    assert caught.value.where is not None
    assert caught.value.where.line == 3


def test_a_mac_that_is_known_by_its_cpu_alone_is_not_taken_for_linux(tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text("name,cpu,system\nmac,Apple M3,\nasahi,Apple M2,aarch64\n")
    kinds = read_fleet(tmp_path / "fleet.csv", CATALOG).kinds
    systems = [resolve(kind.facts, CATALOG).system for kind in kinds]
    assert [system and system.value for system in systems] == ["aarch64-darwin", "aarch64-linux"]
