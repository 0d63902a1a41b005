"""A real browser, and pages of real workspaces in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page

from tools.browser import chromium
from torchsmith.webpage.collect import PageInput, collect, pickable
from torchsmith.webpage.html import page as html
from torchsmith.workspace.load import open_workspace

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


class Trouble(list[str]):
    """What a page must not do: complain, ask for anything, or open a dialog."""


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a file; at the end nothing may have gone wrong in it."""
    contexts = []
    trouble = Trouble()
    requests: list[str] = []
    addresses: list[str] = []

    def refuse(dialog: Dialog) -> None:
        trouble.append("dialog")
        dialog.dismiss()

    def opened(file: Path, fragment: str = "", **options: object) -> Page:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: trouble.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("dialog", refuse)
        page.on("request", lambda asked: requests.append(asked.url))
        addresses.append(file.as_uri())
        page.goto(f"{file.as_uri()}{fragment}")
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html.scripted")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not trouble
    assert {url.partition("#")[0] for url in requests} == set(addresses)


def write_page(folder: Path, file: Path, profile: str | None = None, *, whole: bool = True) -> Path:
    """The page of a folder, as `torchsmith page` writes it."""
    workspace = open_workspace(folder if (folder / "torchsmith.toml").is_file() else None, profile)
    request = PageInput(folder, workspace, whole, made=1_700_000_000.0)
    file.write_text(html(collect(request), workspace.catalog, pickable(request)))
    return file
