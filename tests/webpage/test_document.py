"""The document has the state of every cell, from the contents of a folder alone."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.conftest import Call
from torchsmith.catalog import builtin_catalog
from torchsmith.core.state import make_state_folder, state_folder
from torchsmith.record import Attempt, Built, JobRow, VerificationRow, open_record
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.page import PageRequest, page
from torchsmith.webpage import html
from torchsmith.webpage.collect import PageInput, collect
from torchsmith.webpage.document import PageCell, PageReport
from torchsmith.workspace.load import open_workspace

SETTINGS = """
format = 1
usable = true
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm110", "sm90"]
isa = ["avx2", "armv8_2"]
packages = ["pytorch", "torchvision"]
"""
FIRST = "pytorch-python313-cuda13_0-sm90-avx2"


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    folder = tmp_path / "builds"
    folder.mkdir()
    (folder / "torchsmith.toml").write_text(SETTINGS)
    return folder


def document(folder: Path, *, whole: bool = True) -> PageReport:
    workspace = open_workspace(folder if whole else None)
    return collect(PageInput(folder, workspace, whole, made=0.0))


def cells(folder: Path) -> dict[str, PageCell]:
    return {cell.name: cell for cell in document(folder).cells}


def generated(folder: Path) -> Path:
    apply(ApplyRequest(workspace=folder))
    return folder


def recipe(folder: Path, name: str = FIRST) -> Path:
    return folder / f"build-pytorch/.flox/pkgs/{name}.nix"


def test_before_anything_is_written_the_cells_are_those_of_the_matrix(builds: Path) -> None:
    found = cells(builds)
    assert {cell.state for cell in found.values()} == {"wanted"}
    assert found.keys() == {cell.name for cell in open_workspace(builds).matrix.cells}
    text = html.page(document(builds), builtin_catalog(), ())
    assert "<td></td>" in text  # an Arm GPU beside a CPU of x86
    assert "; no recipes yet: <code>torchsmith apply</code>" in text


def test_the_packages_of_a_cell_are_named_in_their_order(builds: Path) -> None:
    catalog = builtin_catalog()
    titles = [
        f"{catalog.packages['pytorch'].title} 2.10.0",
        f"{catalog.packages['torchvision'].title} 0.25.0",
    ]
    assert "".join(f"<li>{title}</li>" for title in titles) in html.page(document(builds), catalog, ())


def test_a_recipe_is_generated_edited_or_foreign(builds: Path) -> None:
    generated(builds)
    assert cells(builds)[FIRST].state == "generated"
    text = recipe(builds).read_text()
    recipe(builds).write_text(text + "# a word\n")
    assert cells(builds)[FIRST].state == "edited"
    recipe(builds).write_text(text.partition("\n")[2])
    assert cells(builds)[FIRST].state == "foreign"


def test_a_recipe_with_an_error_is_wrong_and_says_which(builds: Path) -> None:
    generated(builds)
    recipe(builds).write_text(recipe(builds).read_text().replace('"9.0"', '"8.0"'))
    found = document(builds)
    cell = next(cell for cell in found.cells if cell.name == FIRST)
    assert cell.state == "wrong"
    assert "error" in {found.findings[number].severity for number in cell.findings}


def test_a_recipe_whose_only_errors_are_empty_hashes_lacks_a_hash(builds: Path) -> None:
    generated(builds)
    text = re.sub(r'hash = "sha256-[^"]*"', 'hash = ""', recipe(builds).read_text(), count=1)
    recipe(builds).write_text(text)
    assert cells(builds)[FIRST].state == "unhashed"
    recipe(builds).write_text(text.replace('"9.0"', '"8.0"'))
    assert cells(builds)[FIRST].state == "wrong"


def test_the_workspace_is_named_as_it_was_given(builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(builds.parent)
    for request in (PageRequest(workspace=Path("builds")), PageRequest(folder=Path("builds"))):
        assert page(request).where == " -w builds"
    assert page(PageRequest(workspace=Path("builds/torchsmith.toml"))).where == " -w builds"
    monkeypatch.chdir(builds)
    for request in (PageRequest(), PageRequest(workspace=Path("."))):
        assert page(request).where == ""


def job(name: str, log: Path) -> JobRow:
    return JobRow(
        run=1, key=f"/nix/store/x-{name}.drv", name=name, package="torch", gpu=True, system="x86_64-linux",
        targets=(), state="waiting", log=str(log),
    )  # fmt: skip


def record_of(folder: Path, log: Path, *attempts: Attempt) -> None:
    record = open_record(folder)
    run = record.start_run("nix", ())
    record.add_jobs([job(FIRST, log)])
    record.job_started(run, f"/nix/store/x-{FIRST}.drv", 2)
    for attempt in attempts:
        record.job_ended(run, f"/nix/store/x-{FIRST}.drv", attempt)
    record.close()


def test_a_failed_build_has_its_error_and_the_end_of_its_log(builds: Path) -> None:
    generated(builds)
    log = state_folder(builds) / "logs/1/a.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\n\x1b[31mtwo\x1b[0m\n")
    record_of(builds, log, Attempt(state="failed", error="killed"))
    cell = cells(builds)[FIRST]
    assert cell.state == "failed"
    assert cell.why[0] == "killed"
    assert cell.build
    assert cell.build.log == ("one", "two")


def test_a_run_at_work_is_building_and_a_killed_one_is_not(builds: Path) -> None:
    generated(builds)
    record_of(builds, builds / "none.log")
    assert cells(builds)[FIRST].state == "building"
    file = state_folder(builds) / "record.sqlite"
    with sqlite3.connect(file) as database:
        database.execute("update runs set process = 4194305")
    assert cells(builds)[FIRST].state == "generated"


def test_a_build_counts_until_its_recipe_changes(builds: Path) -> None:
    from torchsmith.nix.prepare import source_hash

    generated(builds)
    record = open_record(builds)
    output = "/nix/store/x-torch"
    record.note_built(
        Built(
            name=FIRST, derivation="/nix/store/x.drv", source=source_hash(recipe(builds)), outputs=(output,)
        )
    )
    assert cells(builds)[FIRST].state == "built"
    record.note_verdict(VerificationRow(output=output, name=FIRST, ok=True, derivation="/nix/store/x.drv"))
    assert cells(builds)[FIRST].state == "verified"
    record.note_published(FIRST, "org", "0123456789ab")
    assert cells(builds)[FIRST].state == "published"
    record.note_verdict(
        VerificationRow(output=output, name=FIRST, ok=False, detail="no sm90", derivation="/nix/store/x.drv")
    )
    assert cells(builds)[FIRST].state == "wrong"
    recipe(builds).write_text(recipe(builds).read_text() + "# a word\n")
    assert cells(builds)[FIRST].state == "edited"
    assert any("changed" in why for why in cells(builds)[FIRST].why)
    record.close()


def test_a_recipe_that_failed_and_was_restored_shows_its_earlier_build(builds: Path) -> None:
    from torchsmith.nix.prepare import source_hash

    generated(builds)
    right, output = recipe(builds).read_text(), "/nix/store/x-torch"
    with closing(open_record(builds)) as record:
        source = source_hash(recipe(builds))
        record.note_built(Built(name=FIRST, derivation="/nix/store/x.drv", source=source, outputs=(output,)))
        record.note_verdict(
            VerificationRow(output=output, name=FIRST, ok=True, derivation="/nix/store/x.drv")
        )
        recipe(builds).write_text(right.replace("2.10.0", "2.10.1"))
        run = record.start_run("nix", ())
        failed = JobRow(
            run=run, key="/nix/store/y.drv", name=FIRST, package="torch", gpu=True, system="x86_64-linux",
            targets=(), state="waiting",
        )  # fmt: skip
        record.add_jobs([failed])
        record.job_started(run, failed.key, 4)
        record.job_ended(run, failed.key, Attempt(state="failed", error="no"))
        record.end_run(run, "failed")
    assert cells(builds)[FIRST].state == "failed"
    recipe(builds).write_text(right)
    assert cells(builds)[FIRST].state == "verified"
    assert cells(builds)[FIRST].build is None


def test_the_headline_counts_what_is_built(builds: Path) -> None:
    generated(builds)
    builds_for = "6 PyTorch builds for 3 kinds of machine"
    assert html.headline(document(builds)) == f"{builds_for}, none built yet"
    with closing(open_record(builds)) as record:
        record.note_built(Built(name=FIRST, derivation="/nix/store/x.drv", outputs=("/nix/store/x",)))
    assert html.headline(document(builds)) == f"{builds_for}, 1 built"
    text = html.page(document(builds), builtin_catalog(), ())
    assert "<h1>" in text
    assert "17 % built, 0 % verified" in text
    assert "no recipes yet" not in text


def test_a_repository_without_a_torchsmith_file_shows_its_recipes(builds: Path) -> None:
    generated(builds)
    found = document(builds / "build-pytorch", whole=False)
    assert FIRST in {cell.name for cell in found.cells}
    assert {cell.package for cell in found.cells} == {"pytorch"}
    assert all(f"-{cell.sm}-" in cell.name for cell in found.cells if cell.cuda)


SECRET = "what-lies-outside"


def test_nothing_outside_the_folder_is_read(builds: Path, tmp_path: Path) -> None:
    generated(builds)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.log").write_text(f"{SECRET}\n")
    (outside / "page.md").write_text(f"pytorch-python313-cuda13_0-sm90-avx2 is for L40S (SM90) {SECRET}\n")
    generated_elsewhere = outside / "build-other/.flox/pkgs"
    generated_elsewhere.mkdir(parents=True)
    (generated_elsewhere / "pytorch-python313-cpu-avx2.nix").write_text(f"# {SECRET}\n{{}}\n")
    (builds / "build-other").symlink_to(outside / "build-other")
    (builds / "build-pytorch/NOTES.md").symlink_to(outside / "page.md")
    (builds / "build-pytorch/.flox/pkgs/linked.nix").symlink_to(outside / "secret.log")
    record_of(builds, outside / "secret.log", Attempt(state="failed", error="no"))
    opened: list[str] = []
    watch(opened)
    found = document(builds)
    watched.clear()
    assert SECRET not in str(found)
    assert [note.split()[0] for note in found.notes] == ["build-other"]
    assert [path for path in opened if path.startswith(str(builds))]
    assert not [path for path in opened if path.startswith(str(outside))]


watched: list[list[str]] = []
hooked: list[bool] = []


def watch(into: list[str]) -> None:
    """Every file that Python opens from now on."""
    import sys

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            for one in watched:
                one.append(os.fsdecode(args[0]))

    if not hooked:
        sys.addaudithook(hook)  # which cannot be taken away again
        hooked.append(True)
    watched.append(into)


def test_a_damaged_record_is_said_and_the_rest_is_shown(builds: Path) -> None:
    generated(builds)
    make_state_folder(builds)
    (state_folder(builds) / "record.sqlite").write_bytes(
        b"no database at all, but long enough to be read" * 50
    )
    found = document(builds)
    assert found.notes
    assert found.cells


def test_json_holds_the_document(builds: Path, call: Call) -> None:
    generated(builds)
    told = json.loads(call("page", "-w", str(builds), "--json").out)
    assert told["format"] == 5
    assert FIRST in {cell["name"] for cell in told["cells"]}


def test_a_folder_that_is_not_there_is_a_problem(call: Call, tmp_path: Path) -> None:
    answer = call("page", str(tmp_path / "nowhere"))
    assert answer.code == 2
    assert "nowhere" in answer.err


def test_without_a_workspace_or_recipes_the_page_shows_the_default_matrix(call: Call, tmp_path: Path) -> None:
    answer = call("page", "-o", "page.html", cwd=tmp_path)
    assert answer.code == 0
    assert (tmp_path / "page.html").is_file()


def test_a_folder_without_recipes_is_a_problem(call: Call, tmp_path: Path) -> None:
    answer = call("page", str(tmp_path), "-o", str(tmp_path / "page.html"))
    assert answer.code == 2
    assert not (tmp_path / "page.html").exists()


def test_only_a_page_of_ours_is_written_over(builds: Path, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    for _ in range(2):
        assert call("page", "-w", str(builds), "-o", str(file)).code == 0
    file.write_text("<h1>mine</h1>")
    answer = call("page", "-w", str(builds), "-o", str(file))
    assert answer.code == 2
    assert file.read_text() == "<h1>mine</h1>"
    assert not list(tmp_path.glob(".page*"))


def test_a_page_of_thousands_of_cells_has_few_bytes_for_each() -> None:
    catalog = builtin_catalog()
    axes = product(("3.11", "3.12", "3.13"), ("12.8", "13.0"), catalog.gpus.values(), catalog.isas.values())
    cells = [
        PageCell(
            name=f"pytorch-python3{python[2:]}-cuda{cuda.replace('.', '_')}-{gpu.name}-{isa.name}",
            state="generated",
            package="pytorch",
            python=python,
            cuda=cuda,
            sm=gpu.name,
            isa=isa.name,
            recipe="\n\n".join(f"{gpu.name} {isa.name} {cuda} {number}" for number in range(20)),
        )
        for python, cuda, gpu, isa in axes
    ]
    document = PageReport(
        title="many",
        made=0.0,
        version="1",
        profile="",
        cells=tuple(cells),
        findings=(),
    )
    text = html.page(document, catalog, ())
    assert len(cells) > html.MANY_CELLS
    assert "<article" not in text
    assert (len(text) - len(html.page(replace(document, cells=()), catalog, ()))) / len(cells) < 640
