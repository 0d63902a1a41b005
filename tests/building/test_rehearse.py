"""Rehearsals with real Nix: a sample finds what would break a build, and nothing else is built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.building.conftest import ISA, SM, Place, use
from tests.building.farm import LoopbackBuilder
from tests.cli.conftest import Call
from torchsmith.building.rehearsal import (
    PREFIX,
    RehearsalFigures,
    SampledUnit,
    makespan,
    read_figures,
    whole_build,
)
from torchsmith.catalog import builtin_catalog
from torchsmith.core.process import run
from torchsmith.core.text import duration
from torchsmith.nix.derivation import show_derivations
from torchsmith.nix.tool import find_nix
from torchsmith.record import open_record
from torchsmith.verbs.rehearse import Rehearsed, _print_rehearsal

nix = pytest.mark.needs("nix")
TARGET = f'"{SM[2:-1]}.{SM[-1]}"'
FLAGS = builtin_catalog().isas[ISA].flags


def rehearsed(call: Call, place: Place, *words: str) -> tuple[int, Any]:
    done = call(*place.words("rehearse", *words, "--json"))
    return done.code, json.loads(done.out)


def change(place: Place, name: str, old: str, new: str) -> None:
    recipe = place.recipe(name)
    text = recipe.read_text()
    assert old in text, text
    recipe.write_text(text.replace(old, new))


def objects_in(store: Path) -> list[Path]:
    """Libraries that any build of torch left: a rehearsal leaves none."""
    return list(store.glob("store/*/lib/libtorch_cpu.so"))


@nix
def test_a_rehearsal_compiles_a_sample_and_says_what_the_whole_takes(
    place: Place, own_store: Path, call: Call
) -> None:
    (place.root / "catalog/rehearsals.toml").write_text(
        "[pytorch]\ndraw = 3\n"
    )  # a miniature has few objects
    before = json.loads(call(*place.words("build", place.torch, "--dry-run", "--json")).out)
    code, document = rehearsed(call, place, place.torch)
    assert code == 0, document
    (report,) = document["rehearsals"]
    figures = report["figures"]
    assert 0 < len(figures["compiled"]) < figures["objects"]
    forms = [
        unit
        for unit in figures["compiled"]
        if "dispatched kernel" in unit["why"] or unit["kind"] == "dispatched"
    ]
    assert len(forms) == figures["counts"]["dispatched"]
    states = {check["id"]: check["status"] for check in report["checks"]}
    assert states == {"flags": "right", "gpu": "right"}
    assert objects_in(own_store) == []
    after = json.loads(call(*place.words("build", place.torch, "--dry-run", "--json")).out)
    basis = [
        next(plan["expected"][job["key"]]["basis"] for job in plan["jobs"] if place.torch in job["recipes"])
        for plan in (before, after)
    ]
    assert basis == ["guess", "own_rehearsal"]
    assert call(*place.words("runs")).code == 0
    log = call(*place.words("runs", "log", f"{PREFIX}{place.torch}")).out
    assert f"rehearsal: compiled {len(figures['compiled'])} of " in log


@nix
def test_it_differs_from_the_build_in_the_build_phase_alone(place: Place, nix_here: Path, call: Call) -> None:
    (own,) = json.loads(call(*place.words("eval", "--graph", place.torch, "--json")).out)["graph"][
        "recipes"
    ].values()
    planned = json.loads(call(*place.words("rehearse", place.torch, "--dry-run", "--json")).out)["planned"]
    shown = show_derivations(find_nix(), [own, planned[place.torch]])
    build, rehearsal = shown[own], shown[planned[place.torch]]
    names = build.env.keys() | rehearsal.env.keys()
    different = {name for name in names if build.env.get(name) != rehearsal.env.get(name)}
    assert different - build.outputs.keys() == {"buildPhase"}
    assert (build.inputs, build.sources, build.args) == (rehearsal.inputs, rehearsal.sources, rehearsal.args)


@nix
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (FLAGS[0], "-mno-such-flag", "-mno-such-flag"),
        ("mkdir -p cmake/Modules", "rm csrc/operation.h; mkdir -p cmake/Modules", "operation.h"),
        (TARGET, '"9.9"', "compute_99"),
    ],
    ids=["a broken flag", "a missing header", "an architecture that nvcc rejects"],
)
@pytest.mark.long
def test_what_would_break_the_build_breaks_the_rehearsal(
    old: str, new: str, said: str, place: Place, own_store: Path, call: Call
) -> None:
    change(place, place.torch, old, new)
    done = call(*place.words("rehearse", place.torch))
    assert done.code == 1
    assert said in done.out, done.out + done.err
    assert objects_in(own_store) == []


@nix
def test_a_wrong_sm_compiles_and_is_found_in_the_objects(place: Place, own_store: Path, call: Call) -> None:
    change(place, place.torch, TARGET, '"8.9"')
    code, document = rehearsed(call, place, place.torch)
    assert code == 1
    (report,) = document["rehearsals"]
    states = {check["id"]: check["status"] for check in report["checks"]}
    assert (states["flags"], states["gpu"]) == ("right", "wrong")
    assert objects_in(own_store) == []


@nix
def test_companions_are_built_in_minutes_and_have_no_rehearsal(
    place: Place, nix_here: Path, call: Call
) -> None:
    refused = call(*place.words("rehearse", place.vision))
    assert (refused.code, refused.error) == (2, "not-known")
    assert "pytorch" in refused.err


@nix
def test_something_must_be_named(place: Place, nix_here: Path, call: Call) -> None:
    assert call(*place.words("rehearse")).code == 2


@pytest.mark.needs("nix", "ssh")
@pytest.mark.long
def test_rehearsals_go_to_the_builders_that_builds_go_to(
    place: Place, farm: dict[str, LoopbackBuilder], call: Call
) -> None:
    """The builders run none of the instruction sets, which compiling does not need."""
    use(place, "one", "two", extra="isa = []\n")
    code, document = rehearsed(call, place, place.torch, "--jobs", "0")
    assert code == 0, document
    assert [report["name"] for report in document["rehearsals"]] == [place.torch]
    rows = {row.name: row for row in open_record(place.root).jobs(1)}
    assert rows[f"rehearsal-of-{place.torch}"].builder in ("ssh://one", "ssh://two")


def figures(counts: dict[str, int], seconds: dict[str, list[float]], named: float = 0.0) -> RehearsalFigures:
    compiled = [
        SampledUnit(f"{kind}{index}.o", f"{kind}{index}.cpp", kind, "", one)
        for kind, all_ in seconds.items()
        for index, one in enumerate(all_)
    ]
    if named:
        compiled.append(SampledUnit("heavy.o", "heavy.cu", "CUDA", "trouble maker", named))
    return RehearsalFigures(19.0, 60.0, 900.0, 16, len(compiled), sum(counts.values()), counts, compiled)


def test_what_was_drawn_says_how_far_it_may_be_off() -> None:
    """Eight of 1,464 units that took 1 to 22 s in a real build, which took 5.2 core hours and not 4.1."""
    drawn = [1.1, 9.3, 4.3, 16.6, 8.1, 16.9, 22.4, 2.1]
    whole = whole_build(figures({"C++": 1464}, {"C++": drawn}), 16)
    assert 0.4 < whole.error < 0.7
    all_alike = whole_build(figures({"C++": 1464}, {"C++": [10.0] * 8}), 16)
    assert all_alike.error == 0
    everything = whole_build(figures({"C++": 8}, {"C++": drawn}), 16)
    assert everything.error == 0


def test_what_the_whole_takes_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    sample = figures({"C++": 1464}, {"C++": [10.0] * 8})
    whole = whole_build(sample, 16)
    _print_rehearsal(Rehearsed(name="a", derivation="", output="", figures=sample, whole=whole, checks=()))
    printed = capsys.readouterr().out
    assert duration(whole.seconds) in printed
    assert f"{whole.core_seconds / 3600:.1f}" in printed


def test_recorded_builds_are_reckoned_from_a_sample_of_theirs() -> None:
    """torch: 1,839 steps took 1,018 s on 16 cores, 19 s of it configuring; 4.5 core hours in all."""
    mean = (1018 - 19) * 16 / 1839
    torch = figures({"C++": 1647, "dispatched": 192}, {"C++": [0.5 * mean, 1.5 * mean], "dispatched": [mean]})
    whole = whole_build(torch, 16)
    assert whole.seconds == pytest.approx(1018, rel=0.02)
    assert whole.core_seconds / 3600 == pytest.approx(4.5, rel=0.05)
    assert whole_build(torch, 2).seconds == pytest.approx(8 * 999 + 19, rel=0.02)


def test_a_few_long_units_keep_the_other_cores_waiting() -> None:
    """torchvision: 32 objects of 11 core minutes took 80 s on 16 cores, and not 41."""
    vision = figures({"C++": 18, "CUDA": 14}, {"C++": [12.0], "CUDA": [20.0, 30.0, 45.0]}, named=78.0)
    whole = whole_build(vision, 16)
    assert whole.core_seconds / 60 == pytest.approx(11, rel=0.15)
    assert whole.seconds - 19 == pytest.approx(80, rel=0.05)
    assert makespan([78.0, *[20.0] * 29], 16) == 78.0


def test_trouble_makers_do_not_speak_for_their_kind() -> None:
    plain = figures({"CUDA": 257}, {"CUDA": [10.0, 20.0]})
    with_trouble = figures({"CUDA": 257}, {"CUDA": [10.0, 20.0]}, named=300.0)
    assert whole_build(with_trouble, 16).core_seconds == whole_build(plain, 16).core_seconds


def rehearsed_here(folder: Path, configure: str) -> RehearsalFigures:
    """What the child program makes of a tree that `configure` leaves."""
    for name in ("a", "b"):
        (folder / f"{name}.c").write_text(f"int {name};\n")
    sample = {
        "configure": f"set -e\n{configure}",
        "tree": "build",
        "dispatched": "",
        "draw": 1,
        "objects": [],
    }
    (folder / "sample.json").write_text(json.dumps(sample))
    (folder / "out").mkdir()
    environment = {**os.environ, "NIX_BUILD_TOP": str(folder), "NIX_BUILD_CORES": "1"}
    child = files("torchsmith.building") / "rehearse_child.py"
    done = run(
        [sys.executable, str(child), "sample.json", "out", "0"], cwd=folder, env=environment, timeout=60
    )
    assert done.code == 0, done.stderr
    return read_figures(folder / "out")


@pytest.mark.parametrize(
    ("backend", "called"),
    [("setuptools.build_meta", "setup.py"), ("scikit_build_core.build", "cmake -G Ninja")],
)
def test_torch_is_configured_as_its_build_backend_says(tmp_path: Path, backend: str, called: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'build-backend = "{backend}"\n')
    for program in ("cmake", "python3"):
        (tmp_path / program).write_text(f'#!/bin/sh\necho {program} "$@"\n')
        (tmp_path / program).chmod(0o755)
    configure = builtin_catalog().rehearsals["pytorch"].configure
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", configure],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert called in done.stdout


GENERATED = " ".join(f"h{number}.h" for number in range(500))
GENERATOR = f"""
mkdir -p build
cat > build/build.ninja <<'NINJA'
rule cc
 command = sleep 0.2 && cc -c $in -o $out
rule many
 command = sleep 0.2 && touch {GENERATED}
build {GENERATED}: many
build a.o: cc ../a.c || h0.h
NINJA
"""


@pytest.mark.needs("ninja")
def test_a_generator_of_many_files_is_one_step(tmp_path: Path) -> None:
    """PyTorch's writes 14,000 files in one step: counted by files, a torch would take two minutes."""
    figures = rehearsed_here(tmp_path, GENERATOR)
    (unit,) = figures.compiled
    assert figures.steps == 2
    assert unit.cpu_seconds > 0.2 * figures.cpu_seconds
