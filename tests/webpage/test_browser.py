"""The page in a real browser: found, opened, copied, asked, by mouse, keyboard and without any script."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.cli.conftest import Call
from tests.webpage.conftest import Open, write_page
from tests.webpage.test_answers import picked
from torchsmith.core.state import state_folder
from torchsmith.nix.prepare import source_hash
from torchsmith.record import Attempt, Built, JobRow, VerificationRow, open_record
from torchsmith.verbs.apply import ApplyRequest, apply

pytestmark = pytest.mark.needs("chromium")
FAILED = "pytorch-python313-cuda13_0-sm90-avx512"
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "wide": (1600, 1000)}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default workspace with a run in which one of two builds failed."""
    folder = tmp_path_factory.mktemp("work") / "builds"
    folder.mkdir()
    (folder / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\n')
    apply(ApplyRequest(workspace=folder))
    log = state_folder(folder) / "logs/1/failed.log"
    log.parent.mkdir(parents=True)
    log.write_text("ninja: [7/9]\nc++: fatal error: Killed signal terminated program\n")
    record = open_record(folder)
    run = record.start_run("nix", ())
    names = (FAILED, FAILED.replace("sm90", "sm89"))
    record.add_jobs(
        JobRow(
            run=run, key=f"/nix/store/x-{name}.drv", name=name, package="torch", gpu=True,
            system="x86_64-linux", targets=(), state="waiting", log=str(log),
        )
        for name in names
    )  # fmt: skip
    for name in names:
        record.job_started(run, f"/nix/store/x-{name}.drv", 4)
    record.job_ended(run, f"/nix/store/x-{FAILED}.drv", Attempt(state="failed", error="out of memory"))
    record.job_ended(
        run, f"/nix/store/x-{names[1]}.drv", Attempt(state="done", outputs=("/nix/store/x-out",))
    )
    record.end_run(run, "failed")
    record.close()
    return folder


@pytest.fixture(scope="module")
def file(builds: Path) -> Path:
    return write_page(builds, builds.parent / "page.html")


def shown(page: Page) -> set[str]:
    """The cells of the grids that are not dimmed away."""
    names = page.eval_on_selector_all(
        ".grid .c:not(.off)", "all => all.filter(a => a.offsetParent).map(a => a.hash.slice(6))"
    )
    return set(names)


def test_it_opens_with_every_cell_and_stays_below_a_megabyte(open_page: Open, file: Path) -> None:
    page = open_page(file)
    assert len(shown(page)) == 132
    assert file.stat().st_size < 1_000_000
    expect(page.locator(f"a[href='#cell-{FAILED}']")).to_have_class(re.compile("s-failed"))


def test_products_are_found_by_name(open_page: Open, file: Path) -> None:
    page = open_page(file)
    page.fill("#search", "RTX 4090")
    assert {name.split("-")[3] for name in shown(page)} == {"sm89"}
    page.fill("#search", "RTX 4090 zen 3")
    assert {tuple(name.split("-")[3:]) for name in shown(page)} == {("sm89", "avx2")}
    page.fill("#search", "sm90 avx512")
    assert {tuple(name.split("-")[3:]) for name in shown(page)} == {("sm90", "avx512")}
    page.fill("#search", "failed")
    assert shown(page) == {FAILED}
    expect(page.locator("#found")).to_have_text("1 of 132 shown")
    page.fill("#search", "")
    page.click(".chip.s-failed")
    assert shown(page) == {FAILED}
    page.click(".chip.s-failed")
    assert len(shown(page)) == 132


def test_the_story_of_a_cell_has_its_error_log_and_recipe(open_page: Open, file: Path, builds: Path) -> None:
    page = open_page(file)
    page.click(f"a[href='#cell-{FAILED}']")
    story = page.locator(".story.open")
    expect(story).to_contain_text("out of memory")
    expect(story.locator("pre.log")).to_contain_text("Killed signal")
    recipe = (builds / f"build-pytorch/.flox/pkgs/{FAILED}.nix").read_text()
    assert story.locator("pre[aria-label=Recipe]").text_content() == recipe
    assert story.locator(".x-k").count() > 5
    page.click(".story.open .close")
    expect(page.locator(".story.open")).to_have_count(0)


def test_commands_are_copied(open_page: Open, file: Path) -> None:
    page = open_page(file, f"#cell-{FAILED}")
    page.click(".story.open .copy >> nth=0")
    expect(page.locator(".story.open .copy").first).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"torchsmith build {FAILED}"


def test_the_keyboard_alone_suffices(open_page: Open, file: Path) -> None:
    page = open_page(file)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".toolkits summary").first).to_be_focused()
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.hash")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    second = page.evaluate("document.activeElement.hash")
    assert second != first
    page.keyboard.press("Enter")
    expect(page.locator(".story.open h3")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".story.open")).to_have_count(0)
    assert page.evaluate("document.activeElement.hash") == second


def test_the_tab_key_reaches_what_a_filter_leaves(open_page: Open, file: Path) -> None:
    page = open_page(file)
    page.fill("#search", "H100 avx512")
    page.focus(".toolkits summary")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.hash") == f"#cell-{FAILED}"
    page.keyboard.press("ArrowLeft")  # where another instruction set was
    assert page.evaluate("document.activeElement.hash") == f"#cell-{FAILED}"


def test_without_javascript_grids_and_stories_are_there(open_page: Open, file: Path) -> None:
    page = open_page(file, java_script_enabled=False)
    assert page.locator(".grid .c").count() == 132
    expect(page.locator("#search")).to_be_hidden()
    expect(page.locator("#mine p", has_text="needs JavaScript")).to_be_visible()
    expect(page.locator("#mine p", has_text="Another GPU,")).to_be_hidden()
    page.click(f"a[href='#cell-{FAILED}']")
    expect(page.locator(".story:target")).to_contain_text("out of memory")
    page.click(".story:target .close")
    expect(page.locator(".story:target")).to_have_count(0)


def test_an_example_is_answered_at_once_and_the_bar_shows_what_is_built(open_page: Open, file: Path) -> None:
    page = open_page(file)
    expect(page.locator("#answer h3 a")).to_have_text("pytorch-python313-cuda13_0-sm89-avx2")
    expect(page.locator("#answer > .answer").first).to_contain_text("PyTorch's wheel: torch ")
    makers = page.locator("#gpu optgroup").evaluate_all("all => all.map(group => group.label)")
    assert makers == ["NVIDIA", "AMD", "Intel", "Apple"]
    expect(page.locator("#gpu option:checked")).to_have_text("RTX 4090 (sm89)")
    assert page.locator(".bar rect").count() == 2  # failed, generated
    expect(page.locator("h1")).to_have_text("builds")
    expect(page.locator(".headline + p")).to_have_text("torch 2.10, CUDA 13.0, Python 3.13")


def test_a_page_of_a_profile_offers_commands_that_work(
    open_page: Open, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("page", "-p", "seed", "-o", "page.html").code == 0
    page = open_page(tmp_path / "page.html")
    name = "pytorch-python313-cuda13_0-sm89-avx2"
    make = f"torchsmith init mine --cell {name} && torchsmith apply -w mine"
    wheel, newer, build, explain = page.locator("#answer code").all_inner_texts()
    assert wheel.startswith("pip install torch==")
    assert newer.startswith("pip install torch==")
    expect(page.locator("#answer .answer p").first).to_have_text("With driver 580 or newer:")
    assert build == f"{make} && torchsmith build -w mine {name}"
    assert explain == "torchsmith pick --system x86_64-linux --gpu 'RTX 4090' --explain"
    expect(page.locator("#cpu option:checked")).to_have_text("another or unknown")
    expect(page.locator("#answer li", has_text="if the CPU has AVX2")).to_be_visible()
    assert "native code for your RTX 4090 (sm89)" in page.locator("#answer li").all_inner_texts()
    page.click(f"a[href='#cell-{name}']")
    assert page.locator(".story.open code").first.inner_text().startswith(make)
    for command in make.split(" && "):
        assert call(*command.split()[1:]).code == 0


def test_drivers_are_offered_as_ranges(open_page: Open, file: Path) -> None:
    page = open_page(file)
    page.select_option("#gpu", "sm70")
    assert page.locator("#driver option").nth(1).inner_text() == "580"  # no newer series knows it
    page.select_option("#gpu", "sm89")
    unknown, newest, *others, oldest = page.locator("#driver option").all_text_contents()
    assert unknown == "unknown"
    assert newest.endswith(" or newer")
    assert re.search(r"^older than \d+$", oldest)
    page.select_option("#driver", label=oldest)
    assert "--driver" not in page.locator("#answer code").last.inner_text()
    for text in others:
        assert re.search(r"^[\d.]+ (to \d+|or newer, but older than [\d.]+)$", text)
    page.set_viewport_size({"width": 390, "height": 800})  # dots of a cell stand in two rows there
    assert "left" not in page.locator(".legend").first.inner_text()


def test_a_machine_that_is_chosen_is_answered_as_pick_answers(open_page: Open, file: Path) -> None:
    page = open_page(file)
    machines = (
        ("H100", "sm90", "sapphirerapids", "580"),
        ("none", "none", "zen2", ""),
        ("V100", "sm70", "zen4", ""),
    )
    for gpu, arch, cpu, driver in machines:
        if gpu == arch:
            page.select_option("#gpu", gpu)
        else:
            page.select_option("#gpu", label=f"{gpu} ({arch})")
        page.select_option("#cpu", cpu)
        if gpu == "none":
            expect(page.locator("#driver")).to_be_disabled()
        else:
            page.select_option("#driver", driver)
        machine = {"cpu": cpu, "gpu": gpu, "driver": driver}
        name, lines, wheels = picked(machine, "general", "seed")
        expect(page.locator("#answer h3 a")).to_have_text(name)
        own = page.locator("#answer .answer", has_text="Compiled for it")
        assert own.locator("li").all_text_contents() == lines
        commands = page.locator("#answer code").all_text_contents()
        assert any(f"build {name}" in command for command in commands)
        assert wheels
        assert {pip for wheel in wheels for pip in (wheel[0], wheel[2]) if pip} <= {*commands}
        assert f"torchsmith pick --cpu {cpu} --gpu {gpu}" in commands[-1]


def test_the_python_that_is_chosen_decides_the_wheel_and_whether_there_is_a_build(
    open_page: Open, file: Path
) -> None:
    page = open_page(file)
    page.select_option("#gpu", "sm89")
    page.select_option("#driver", "580")
    for python, pip in (("", "torch==2.15.0"), ("3.10", "torch==2.14.1"), ("3.13", "torch==2.15.0")):
        page.select_option("#python", python)
        expect(page.locator("#answer .answer").first).to_contain_text(f"pip install {pip}")
        expect(page.locator("#answer h3 a")).to_have_count(0 if python == "3.10" else 1)
        last = page.locator("#answer code").last.inner_text()
        assert ("--python" in last) is bool(python)
    page.select_option("#python", "3.10")
    expect(page.locator("#answer > p").first).to_have_text("No build of this matrix is for Python 3.10.")


def test_the_boxes_offer_only_machines_that_exist(open_page: Open, tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, tmp_path / "page.html", "every"))
    for product, systems, built in (
        ("GH200", ["aarch64-linux"], "sm90-armv9"),
        ("mac", ["aarch64-darwin"], "mps"),
    ):
        page.select_option("#gpu", product)
        assert page.locator("#system option").all_text_contents() == systems
        expect(page.locator("#answer h3 a")).to_have_text(re.compile(f"{built}$"))
    page.select_option("#gpu", "sm89")
    page.select_option("#system", "x86_64-linux")
    makers = page.locator("#cpu optgroup").evaluate_all("all => all.map(group => group.label)")
    assert makers == ["Intel", "AMD", "Hygon"]
    page.select_option("#system", "aarch64-linux")
    assert page.locator("#cpu option[value=zen4]").count() == 0


@pytest.mark.parametrize(
    ("size", "scheme"), [("phone", "light"), ("tablet", "dark"), ("wide", "light"), ("wide", "dark")]
)
def test_a_page_is_accessible_in_every_size_and_scheme(
    open_page: Open, file: Path, scheme: str, size: str
) -> None:
    width, height = SIZES[size]
    page = open_page(file, color_scheme=scheme, viewport={"width": width, "height": height})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    check(page)
    page.fill("#search", "H100 avx512")
    check(page)
    page.click(f"a[href='#cell-{FAILED}']")
    check(page)


def test_on_a_phone_nothing_is_cut_and_every_row_names_its_gpus(open_page: Open, file: Path) -> None:
    page = open_page(file, viewport={"width": 390, "height": 844})
    page.eval_on_selector_all("details", "all => all.forEach(part => { part.open = true })")
    wide = "e => e.offsetParent && e.scrollWidth > e.clientWidth + 1"
    wider = f"all => all.filter({wide}).map(e => e.textContent)"
    assert not page.eval_on_selector_all(".wide, main pre, .grid th", wider)
    heads = page.locator(".grid tbody th", has_text="sm90").first
    expect(heads.locator("small")).to_be_visible()


def test_a_place_shows_the_worst_of_its_packages_on_a_phone_and_its_story_leads_to_the_others(
    open_page: Open, file: Path
) -> None:
    page = open_page(file, viewport={"width": 390, "height": 844})
    assert FAILED in shown(page)
    assert len(shown(page)) == 44
    expect(page.locator("#cpu")).to_be_hidden()  # until more is asked for
    page.fill("#search", "torchvision sm90")
    assert {name.split("-")[0] for name in shown(page)} == {"torchvision"}
    page.fill("#search", "")
    page.click(f"a[href='#cell-{FAILED}']")
    others = page.locator(".story.open a[href^='#cell-torch']")
    assert others.all_inner_texts() == ["● torchvision", "● torchaudio"]
    expect(page.locator(".story.open dl")).to_contain_text("the driver is 580 or newer")


def test_of_a_large_matrix_the_newest_cuda_is_open_and_a_search_opens_the_others(
    open_page: Open, tmp_path: Path
) -> None:
    page = open_page(write_page(tmp_path, tmp_path / "page.html", "wide"))
    folds = page.locator(".toolkits details")
    opened = folds.evaluate_all("all => all.map(fold => fold.open)")
    assert opened == [True] + [False] * (len(opened) - 1)
    expect(folds.first.locator("summary")).to_have_text(re.compile("^NVIDIA, CUDA 13.1: "))
    expect(folds.first.locator(".note")).to_have_text("All of these: never evaluated at its own pin.")
    assert folds.first.locator(".warned").count() == 0
    page.fill("#search", "RTX 4090")
    assert all(folds.evaluate_all("all => all.filter(e => e.offsetParent).map(fold => fold.open)"))


def test_a_matrix_for_amd_is_titled_by_its_own_release_and_names_its_gpus(
    open_page: Open, tmp_path: Path
) -> None:
    page = open_page(write_page(tmp_path, tmp_path / "page.html", "rocm"))
    expect(page.locator(".toolkits summary").first).to_have_text(
        re.compile("^AMD, ROCm 6.4: 66 builds, 0 built")
    )
    expect(page.locator(".grid tbody th small").first).to_be_visible()
    page.select_option("#gpu", "gfx942")
    expect(page.locator("#answer h3 a")).to_have_text(re.compile("rocm6_4-gfx942"))


def check(page: Page) -> None:
    """axe: no violation."""
    found = Axe().run(page).response["violations"]
    told = [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found]
    assert not told


def test_a_warning_of_the_audit_shows_in_the_grid_and_in_the_answer(open_page: Open, tmp_path: Path) -> None:
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds/torchsmith.toml").write_text(f'format = 1\ninclude = ["{FAILED}"]\n')
    apply(ApplyRequest(workspace=tmp_path / "builds"))
    recipe = tmp_path / f"builds/build-pytorch/.flox/pkgs/{FAILED}.nix"
    recipe.write_text(
        recipe.read_text().replace('description = "PyTorch 2.10.0', 'description = "PyTorch 2.9.1')
    )
    page = open_page(write_page(tmp_path / "builds", tmp_path / "page.html"))
    expect(page.locator(f"a.c[href='#cell-{FAILED}']")).to_have_class(re.compile("warned"))
    expect(page.locator("a.chip")).to_contain_text("warning 1")
    expect(page.locator(".legend li", has_text="▲")).to_contain_text("warning")
    page.select_option("#gpu", "sm90")
    page.select_option("#cpu", "sapphirerapids")
    expect(page.locator("#answer .doubtful")).to_contain_text("TS601")


def test_commands_name_the_workspace_and_a_verified_build_comes_before_the_wheel(
    open_page: Open, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("builds").mkdir()
    Path("builds/torchsmith.toml").write_text(f'format = 1\ninclude = ["{FAILED}"]\n')
    apply(ApplyRequest(workspace=Path("builds")))
    file = f"build-pytorch/.flox/pkgs/{FAILED}.nix"
    own = f"torchsmith apply -w builds && torchsmith build -w builds {FAILED}"
    ask = "torchsmith pick -w builds --cpu sapphirerapids --gpu H100 --explain"

    def commands() -> list[str]:
        assert call("page", "-w", "builds", "-o", "page.html").code == 0
        page = open_page(tmp_path / "page.html", f"#cell-{FAILED}")
        build, by_nix, verify = page.locator(".story.open .command code").all_inner_texts()
        assert build == f"torchsmith build -w builds {FAILED}"
        assert by_nix == f"nix-build builds/{file}"
        assert verify == f"torchsmith verify -w builds {FAILED}"
        page.click(".story.open .close")
        expect(page.locator("#mine > .command")).to_contain_text("torchsmith pick -w builds --from cpu.txt")
        page.select_option("#gpu", "sm90")
        page.select_option("#cpu", "sapphirerapids")
        return page.locator("#answer code").all_inner_texts()

    wheel, *_, build, explain = commands()
    assert wheel.startswith("pip install ")
    assert (build, explain) == (own, ask)
    with closing(open_record(Path("builds"))) as record:
        output, drv, source = "/nix/store/x-torch", "/nix/store/x.drv", source_hash(Path("builds", file))
        record.note_built(Built(name=FAILED, derivation=drv, source=source, outputs=(output,)))
        record.note_verdict(VerificationRow(output=output, name=FAILED, ok=True, derivation=drv))
    build, wheel, *_ = commands()
    assert build == own
    assert wheel.startswith("pip install ")


def test_the_legend_of_a_grid_has_every_sign_in_it(open_page: Open, file: Path) -> None:
    page = open_page(file)
    for section in page.locator("section.release").all():
        signs = {text.strip() for text in section.locator(".grid .c").all_inner_texts()}
        legend = section.locator(".legend")
        explained = {text.strip() for text in legend.locator(".box").all_inner_texts()}
        assert signs <= explained <= signs | {"▲"}
        assert legend.locator("ol li").first.inner_text().startswith("PyTorch")


def test_the_legend_is_beside_the_grids_of_a_wide_window_and_above_them_in_a_narrow_one(
    open_page: Open, file: Path
) -> None:
    page = open_page(file, viewport={"width": 1400, "height": 900})
    place = "(name) => document.querySelector(`.release .${name}`).getBoundingClientRect()"
    legend, grids = (page.evaluate(place, name) for name in ("legend", "grids"))
    assert legend["left"] >= grids["right"]
    page.set_viewport_size({"width": 390, "height": 800})
    legend, grids = (page.evaluate(place, name) for name in ("legend", "grids"))
    assert legend["bottom"] <= grids["top"]


def test_the_answer_has_its_place_before_the_script_runs(open_page: Open, file: Path) -> None:
    page = open_page(file)
    top = "document.getElementById('matrix').getBoundingClientRect().top"
    after = page.evaluate(top)
    page.evaluate("document.getElementById('answer').replaceChildren()")
    page.evaluate("document.documentElement.classList.remove('scripted')")
    assert abs(page.evaluate(top) - after) < 40
