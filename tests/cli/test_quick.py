"""Short answers come without typer, and plain words mean the same to both ways of reading them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.cli.panels import PAGE, PANELS, VERBS
from torchsmith.cli.params import Argument, Option, for_typer
from torchsmith.cli.quick import read_words

NAME = "pytorch-python313-cuda13_0-sm120-avx512"
GIVEN = "a b.c --path -p --path=x --yes --no --many --many=1 --json -- -x --number 3 --yes=1 !sm110"
WORDS = [*GIVEN.split(" "), ""]


def verb(
    words: Annotated[list[str] | None, Argument(help="Words.")] = None,
    path: Annotated[Path | None, Option("--path", "-p", help="A path.")] = None,
    yes: Annotated[bool, Option("--yes/--no", help="Or not.")] = True,
    many: Annotated[list[str] | None, Option("--many", help="Again and again.")] = None,
    number: Annotated[float, Option("--number", min=1, help="A number.")] = 2.0,
    json: Annotated[bool, Option("--json", help="JSON.")] = False,
) -> None:
    """A verb of every kind of word."""


def one(
    name: Annotated[str, Argument(help="A name.")], json: Annotated[bool, Option("--json")] = False
) -> None:
    """A verb that needs its word."""


def by_typer(run: Callable[..., None], words: list[str]) -> dict[str, Any] | None:
    """What typer would call the verb with; None where it refuses."""
    seen: dict[str, Any] = {}
    typed = for_typer(run)

    def spy(**given: Any) -> None:
        seen.update(given)

    spy.__annotations__, spy.__doc__ = typed.__annotations__, typed.__doc__
    spy.__signature__ = typed.__signature__  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(spy)
    try:
        app(words, standalone_mode=False)
    except Exception:
        return None
    return seen


@given(st.lists(st.sampled_from(WORDS), max_size=5))
@pytest.mark.parametrize("run", [verb, one])
def test_what_the_short_way_reads_typer_reads_the_same(run: Callable[..., None], words: list[str]) -> None:
    short = read_words(run, words)
    if short is None:
        return
    long = by_typer(run, words)
    assert long is not None
    assert short == {name: value for name, value in long.items() if name in short}
    assert all(
        not value or value is True or value == 2.0 for name, value in long.items() if name not in short
    )


SHORT = [["--help"], ["list"], ["show", NAME], ["pick", "--cpu", "zen4", "--gpu", "L4"]]


@pytest.mark.parametrize("words", SHORT)
def test_a_short_answer_loads_neither_typer_nor_rich(words: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['torchsmith', *sys.argv[1:]]\n"
        "from torchsmith.__main__ import main\n"
        "try:\n  main()\nexcept SystemExit: pass\n"
        "heavy = ('typer', 'rich', 'tree_sitter', 'subprocess', 'hashlib')\n"
        "print([one for one in heavy if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_verb_is_in_one_panel_and_the_overview_fits_a_terminal() -> None:
    assert len(VERBS) == len(set(VERBS))
    lines = PAGE.read_text().splitlines()
    assert max(map(len, lines)) <= 80
    for panel, (contrast, verbs) in PANELS.items():
        assert f"{panel}: {contrast}" in lines
        assert all(any(line.startswith(f"  {one} ") for line in lines) for one in verbs)
