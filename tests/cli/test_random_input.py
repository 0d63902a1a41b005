"""Whatever a user types, the answer is data or a message: never a traceback, never a written file."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchsmith.__main__ import main
from torchsmith.workspace.load import DEFAULT

words = st.sampled_from(
    [
        "pytorch",
        "torchvision",
        "python313",
        "cuda13_0",
        "sm120",
        "sm9999",
        "avx512",
        "armv8.2",
        "cpu",
        "nightly",
    ]
)
names = st.one_of(st.text(max_size=60), st.lists(words, max_size=7).map("-".join))
selectors = st.one_of(
    st.text(max_size=20), st.sampled_from(["sm*", "!cpu", "sm:", ":", "a:b", "[", "*", "!", "sm[9"])
)
LINES = DEFAULT.read_text().splitlines(keepends=True)


@st.composite
def mutated_toml(draw: st.DrawFn) -> str:
    """The default file with a few lines dropped, doubled, swapped or overwritten."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(lines) - 1))
        what = draw(st.sampled_from(["drop", "double", "cut", "text", "swap"]))
        if what == "drop":
            lines[index] = ""
        elif what == "double":
            lines.insert(index, lines[index])
        elif what == "cut":
            lines[index] = lines[index][: draw(st.integers(0, len(lines[index])))]
        elif what == "text":
            lines[index] = draw(st.text(max_size=40)) + "\n"
        else:
            other = draw(st.integers(0, len(lines) - 1))
            lines[index], lines[other] = lines[other], lines[index]
    return "".join(lines)


def answer(*args: str) -> None:
    """Run `torchsmith ARGS`; an exception other than an exit is a failure, and so is an unknown exit code."""
    with (
        mock.patch.object(sys, "argv", ["torchsmith", *args]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = _exit_code()
    assert code in (0, 1, 2), err.getvalue()
    assert "Traceback" not in err.getvalue()


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


many = settings(max_examples=700, suppress_health_check=list(HealthCheck))


@pytest.mark.long
@many
@given(names)
def test_any_name_gets_an_answer(name: str) -> None:
    answer("show", "--", name)


@pytest.mark.long
@many
@given(st.lists(selectors, max_size=4))
def test_any_selector_gets_an_answer(words: list[str]) -> None:
    answer("list", "--names", "--", *words)


@pytest.mark.long
@many
@given(mutated_toml())
def test_any_workspace_file_gets_an_answer_and_stays_as_it_is(text: str) -> None:
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"torchsmith-random-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    file = folder / "torchsmith.toml"
    data = text.encode(errors="surrogatepass")
    file.write_bytes(data)
    answer("list", "--names", "-w", str(file))
    assert file.read_bytes() == data
    assert [path.name for path in folder.iterdir()] == ["torchsmith.toml"]
    file.unlink()
    folder.rmdir()
