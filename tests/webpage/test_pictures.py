"""Pictures are whole SVG elements that say in words what they show, and no name in them becomes markup."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from torchsmith.artifact.gpu import TargetRow, chosen_code
from torchsmith.catalog import GpuTarget, Sm, builtin_catalog
from torchsmith.webpage.document import PageJob, PageRun, SharedBuild
from torchsmith.webpage.draw import NARROW, WIDTH, BarRow, Picture, bars, clipped, ticks
from torchsmith.webpage.pictures import run_picture, shared_picture

HOSTILE = "</text><script>alert(1)</script>&\"'"


def read(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.inline())


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter("text")]


def pictures(name: str) -> list[Picture]:
    job = PageJob(name, "failed", 0.0, 5.0, name)
    return [
        run_picture(PageRun(1, "failed", 0.0, 10.0, (job, PageJob("a", "done", 5.0, 10.0)))),
        shared_picture([SharedBuild("torch", name, ("a-b", name), sure=True)]),
        bars(name, [BarRow(name, 3, name)]),
    ]


@pytest.mark.parametrize("picture", pictures(HOSTILE), ids=lambda picture: picture.title[:12])
def test_hostile_names_stay_text(picture: Picture) -> None:
    root = read(picture)
    assert not list(root.iter("script"))
    assert "<script" not in picture.inline()


@pytest.mark.parametrize("picture", pictures("plain"), ids=lambda picture: picture.title[:12])
def test_a_picture_is_whole_and_has_a_title(picture: Picture) -> None:
    root = read(picture)
    assert root.get("role") == "img"
    assert root.find("title") is not None
    assert float(root.get("height") or 0) > 0


def test_a_failed_job_has_a_sign_besides_its_colour() -> None:
    run = PageRun(1, "failed", 0.0, 10.0, (PageJob("a-long-build", "failed", 0.0, 10.0),))
    assert any("✗" in words for words in texts(read(run_picture(run))))


@pytest.mark.parametrize("width", [WIDTH, NARROW])
def test_every_job_of_a_run_is_named_however_short_it_is(width: int) -> None:
    jobs = (PageJob("python3-3.13.0", "done", 0.0, 0.01), PageJob("pytorch-a", "done", 0.01, 10.0))
    words = " ".join(texts(read(run_picture(PageRun(1, "done", 0.0, 10.0, jobs), width))))
    assert "python3" in words
    assert "pytorch-a" in words


def test_a_gpu_uses_its_own_code_else_the_newest_that_runs_else_ptx() -> None:
    catalog = builtin_catalog()

    def row(kind: str, sm: int) -> TargetRow:
        return TargetRow(kind, GpuTarget(Sm(sm)), 1, sm, 1, stray=False)  # type: ignore[arg-type]

    rows = [row("cubin", 80), row("cubin", 86), row("cubin", 90), row("ptx", 90)]

    def used(sm: int) -> list[str]:
        return [f"{one.kind} {one.target}" for one in chosen_code(rows, catalog.gpus[Sm(sm)], catalog)]

    assert used(86) == ["cubin 86"]
    assert used(89) == ["cubin 86"]
    assert used(120) == ["ptx 90"]
    assert used(75) == []


def test_ticks_are_round_and_labels_are_cut_between_words() -> None:
    assert ticks(10, 5) == [0, 2, 4, 6, 8, 10]
    assert clipped("pytorch-sm90-avx2", 100) == "pytorch-sm90…"
    assert clipped("pytorch", 30).endswith("…")
