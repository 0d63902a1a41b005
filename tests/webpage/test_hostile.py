"""Names, descriptions, logs and reports of other hands stay text: no script runs and no layout breaks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.webpage.conftest import Open, write_page
from torchsmith.core.state import state_folder
from torchsmith.record import Attempt, JobRow, open_record
from torchsmith.webpage.markup import escape, tag

BAD = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "<!--<script>",
    "\"><img src=x onerror='window.pwned=1'>",
    "' onmouseover='window.pwned=1' x='",
    "javascript:window.pwned=1",
    "${{7*7}}{{constructor.constructor('window.pwned=1')()}}",
    "]]><svg onload=window.pwned=1>",
    "\u202egpj.exe\u2066\u2028\u2029\u0000\x1b[31m",
    "<style>*{display:none}</style>",
    "W" * 3000,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a repository whose every text is hostile."""
    work = tmp_path_factory.mktemp("hostile")
    root = work / "<img src=x onerror=window.pwned=1>"
    pkgs = root / ".flox/pkgs"
    pkgs.mkdir(parents=True)
    for number, words in enumerate(BAD):
        name = words.replace("/", "∕").replace("\0", "")[:80] + f"-{number}"
        body = f"pname = \"{words}\"; meta.description = ''{words}'';"
        text = f"# {words}\n{{ stdenv }}: stdenv.mkDerivation {{ {body} }}\n"
        (pkgs / f"{name}.nix").write_text(text.replace("\0", ""), errors="replace")
    good = "pytorch-python313-cuda13_0-sm90-avx2"
    (pkgs / f"{good}.nix").write_text(
        "\n".join(f"# L40S {words}" for words in BAD).replace("\0", "") + "\n{}\n"
    )
    log = state_folder(root) / "logs/1/a.log"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(BAD))
    record = open_record(root)
    run = record.start_run(BAD[0], BAD[:2])
    for number, words in enumerate((*BAD, good)):
        job = JobRow(
            run=run, key=f"{words}{number}.drv", name=words, package="torch", gpu=True, system="x86_64-linux",
            targets=(), state="waiting", log=str(log),
        )  # fmt: skip
        record.add_jobs([job])
        record.job_started(run, job.key, 1)
        record.job_ended(run, job.key, Attempt(state="failed", error=BAD[1], builder=BAD[3]))
    record.close()
    git = ["git", "-C", str(root)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", BAD[1]], check=True)
    return write_page(root, work / "page.html", whole=False)


def innocent(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, iframe, object, embed, link, form").count() == 0
    assert page.locator("script").count() == 2
    assert page.locator("style").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    names = page.evaluate("[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())")
    assert not [name for name in names if name.startswith("on") or name == "style"]


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [390, 1600])
def test_hostile_recipes_and_logs_stay_text(open_page: Open, file: Path, width: int) -> None:
    page = open_page(file, viewport={"width": width, "height": 900})
    innocent(page)
    for place in range(page.locator("#matrix .c").count()):
        page.evaluate(
            "place => { location.hash = document.querySelectorAll('#matrix .c')[place].hash }", place
        )
        page.wait_for_selector(".story.open pre[aria-label=Recipe]")
        assert page.evaluate("(s => s.scrollWidth <= s.clientWidth)(document.querySelector('.story.open'))")
    innocent(page)


@pytest.mark.needs("chromium")
def test_hostile_words_in_the_search_stay_text(open_page: Open, file: Path) -> None:
    page = open_page(file)
    for words in BAD:
        page.fill("#search", words)
        innocent(page)


@pytest.mark.parametrize("words", BAD)
def test_no_text_becomes_markup(words: str) -> None:
    made = tag("p", words, title=words)
    inside = made.removeprefix('<p title="').removesuffix("</p>")
    assert "<" not in inside.replace("&lt;", "")
    assert inside.count('"') == 1
    assert escape(escape(words)) == escape(words)


def test_the_policy_allows_one_script_and_one_style_and_nothing_else(file: Path) -> None:
    import base64
    import hashlib
    import re

    text = file.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    told = policy[1].replace("&#39;", "'")
    for name, pattern in (("script-src", r"<script>(.*?)</script>"), ("style-src", r"<style>(.*?)</style>")):
        found = re.findall(pattern, text, re.DOTALL)
        assert len(found) == 1
        digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in told
    assert "default-src 'none'" in told
    assert "unsafe" not in told
