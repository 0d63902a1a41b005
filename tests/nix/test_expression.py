"""Text becomes Nix without a way to escape, and Nix' errors become one line."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.core.nixtext import nix_string, nix_value
from torchsmith.core.problem import Invalid, MissingRequirement, Problem, Where
from torchsmith.nix.errors import Cause, cause_of, parse_event, shorten
from torchsmith.nix.tool import Nix, _usable_store, canonical_text, find_nix, parse_version
from torchsmith.recipe.read import read_text_as_recipe

HOSTILE = [
    '${builtins.abort "x"}',
    "''",
    "''${x}",
    "\\",
    '"',
    "$",
    "$${a}",
    "\\${a}",
    "a\nb\r\tc",
    "ä€😀",
    "'' + x",
    "#",
    "*/",
]


@pytest.mark.needs("nix")
def test_nix_reads_back_exactly_the_text_that_was_quoted(nix: Nix) -> None:
    words = [*HOSTILE, *(a + b for a in HOSTILE for b in HOSTILE)]
    done = nix.run(nix.command("nix-instantiate", "--eval", "--strict", "--json", "-E", nix_value(words)))
    assert done.ok, done.stderr
    assert json.loads(done.stdout) == words


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_quoted_string_is_one_string_without_interpolation(text: str) -> None:
    recipe = read_text_as_recipe(f"{{ pname = {nix_string(text)}; }}".encode(), Path("x.nix"))
    [pname] = recipe.strings("pname")
    assert pname.value == text


def test_values_of_every_kind_are_written() -> None:
    assert nix_value({"a b": [1, True, None, "x"]}) == '{ "a b" = [ (1) true null "x" ]; }'
    assert nix_value({"a": {"if": "x"}}) == '{ a = { "if" = "x"; }; }'
    assert nix_value({"a": [1], "b": []}, "  ") == "{\n    a = [\n      (1)\n    ];\n    b = [ ];\n  }"
    assert nix_value(Path("/with space")) == '(/. + "/with space")'
    with pytest.raises(Invalid):
        nix_string("\0")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("nix-instantiate (Nix) 2.8.0", (2, 8, 0)),
        ("nix-instantiate (Nix) 2.26.3", (2, 26, 3)),
        ("nix-instantiate (Lix, like Nix) 2.91.1", (2, 91, 1)),
        ("nix-instantiate (Nix) 2.25pre20241001_abc", (2, 25)),
    ],
)
def test_versions_of_nix_and_its_relatives_are_read(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


def fake_nix(folder: Path, words: str) -> None:
    file = folder / "nix-instantiate"
    file.write_text(f"#!/bin/sh\necho '{words}'\n")
    file.chmod(file.stat().st_mode | stat.S_IEXEC)


@pytest.mark.parametrize(
    ("answer", "named"),
    [(None, "Nix"), ("nix-instantiate (Nix) 2.3.16", "2.3.16"), ("I am no Nix", "'I am no Nix'")],
)
def test_a_missing_or_old_nix_is_told_in_words(
    answer: str | None, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if answer is not None:
        fake_nix(tmp_path, answer)
    with pytest.raises(MissingRequirement, match=named):
        find_nix()


TRACE = """error:
       … while calling the 'foldl'' builtin
         at /tmp/driver.nix:2:1:
            1| let
            2| builtins.foldl'
             | ^

       (stack trace truncated; use '--show-trace' to show the full, detailed trace)

       error: attribute 'nonsense' missing
       at /w/x.nix:4:7:
            3| in
            4|   x = pkgs.nonsense;
             |       ^
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (TRACE, Cause("attribute 'nonsense' missing", Where("/w/x.nix", 4, 7))),
        ("error: \x1b[31;1minfinite recursion encountered\x1b[0m", Cause("endless recursion")),
        (
            "error: stack overflow (possible infinite recursion)",
            Cause("endless recursion (Nix ran out of stack)"),
        ),
        (
            "error: access to absolute path '/etc/passwd' is forbidden in restricted mode",
            Cause("reads /etc/passwd, which is outside the workspace and nixpkgs, or is not tracked by git"),
        ),
        (
            "error: access to canonical path '/etc/passwd' is forbidden in restricted mode",
            Cause("reads /etc/passwd, which is outside the workspace and nixpkgs, or is not tracked by git"),
        ),
        (
            "error: cannot build '/nix/store/x.drv' during evaluation because the option "
            "'allow-import-from-derivation' is disabled",
            Cause(
                "import from derivation: evaluating would first build /nix/store/x.drv, which is not allowed"
            ),
        ),
        (
            'error: Package ‘a’ is not available on the requested hostPlatform:\n  hostPlatform.system = "x"',
            None,
        ),
        (
            "error: evaluation aborted with the following error message: "
            "'\n\n  Nixpkgs requires Nix with:\n  - 2.18\n'",
            Cause("Nixpkgs requires Nix with: - 2.18"),
        ),
        (
            "error: attribute 'cudaPackages_13_1' missing",
            Cause("this nixpkgs has no CUDA 13.1 (cudaPackages_13_1)"),
        ),
        (
            "error: evaluation aborted with the following error message: 'lib.customisation.callPackageWith: "
            'Function called without required argument "cpuISA" at /w/torch.nix:11\'',
            Cause(
                "needs the argument cpuISA, which nixpkgs does not have: "
                "evaluate the recipe that calls this function"
            ),
        ),
        ("", Cause("Nix gave no reason")),
    ],
)
def test_an_error_is_shortened_to_its_cause(text: str, cause: Cause | None) -> None:
    told = shorten(text)
    assert "\n" not in told.message
    if cause is not None:
        assert told == cause


def test_an_event_names_the_place_in_both_spellings() -> None:
    old = '@nix {"action":"msg","level":0,"file":"/w/x.nix","line":4,"column":7,"raw_msg":"\\u001b[35;1mbad"}'
    new = '@nix {"action":"msg","level":0,"file":"/w/x.nix:4:7","line":4,"column":7,"raw_msg":"bad"}'
    for line in (old, new):
        event = parse_event(line)
        assert event is not None
        assert cause_of(event) == Cause("bad", Where("/w/x.nix", 4, 7))
    assert parse_event("@nix {not json") is None
    assert parse_event("plain words") is None


@pytest.mark.needs("nix")
def test_nix_prints_a_file_so_that_it_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "x.nix"
    file.write_text('{ a, b, }: { pname = "x"; }')
    told = canonical_text(file)
    assert told is not None
    assert [said.value for said in read_text_as_recipe(told.encode(), file).strings("pname")] == ["x"]
    file.write_text("{ a = ")
    with pytest.raises(Problem) as caught:
        canonical_text(file)
    assert caught.value.where is not None
    assert caught.value.where.line == 1


def test_a_daemon_that_this_user_may_not_see_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "daemon-socket"
    folder.mkdir()
    (folder / "socket").touch()
    folder.chmod(0)
    monkeypatch.setattr("torchsmith.nix.tool.STATE", tmp_path)
    monkeypatch.setenv("TORCHSMITH_CACHE", "/cache")
    for name in ("NIX_REMOTE", "NIX_STORE_DIR"):
        monkeypatch.delenv(name, raising=False)
    child = os.fork()
    if child == 0:
        code = 2
        with contextlib.suppress(BaseException):
            if os.getuid() == 0:
                os.setuid(65534)  # root sees everything
            code = int(_usable_store() != "local?root=/cache/store")
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    folder.chmod(0o700)
