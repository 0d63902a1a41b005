"""The parser reads what requests declare; help and completion show the same."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Call
from torchsmith.catalog import builtin_catalog
from torchsmith.cli.completion import PLACES, candidates, complete, script_of
from torchsmith.cli.options import complete_cells
from torchsmith.cli.panels import COMMON, PANELS, REMOVED, VERBS
from torchsmith.cli.parser import Command, call, find_command, parse
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.problem import Usage

NAME = "pytorch-python313-cuda13_0-sm120-avx512"


@dataclass(frozen=True, kw_only=True)
class Several(Request):
    many: Annotated[tuple[str, ...], Option("Again and again.")] = ()
    format: Annotated[Literal["table", "json"], Option("--format", "-f", "How.")] = "table"


def verb(
    words: Annotated[Sequence[str], Argument("Words.")] = (),
    path: Annotated[Path | None, Option("--path", "-p", "A path.")] = None,
    yes: Annotated[bool | None, Option("--yes/--no", "Or not.")] = None,
    number: Annotated[float, Option("--number", min=1, max=9)] = 2.0,
    verbose: Annotated[bool, Option("--verbose", "-v", "More.")] = False,
    tree: Annotated[Sequence[str], Option("Trees.", envvar="TORCHSMITH_TEST_TREES")] = (),
    *,
    several: Several,
) -> None:
    """A verb of every kind of word."""
    SEEN.append((words, path, yes, number, verbose, tree, several))


SEEN: list[Any] = []
COMMAND = Command(("verb",), verb, "torchsmith verb")
text = st.text(max_size=8).filter(lambda word: word.strip() and not word.startswith("-"))
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "words": st.lists(text, min_size=1, max_size=3).map(tuple),
        "path": text.map(Path),
        "yes": st.booleans(),
        "number": st.floats(1, 9),
        "verbose": st.just(True),
        "many": st.lists(text, min_size=1, max_size=3).map(tuple),
        "format": st.sampled_from(("table", "json")),
    },
)


def spelled(name: str, value: Any, equals: bool) -> Iterator[list[str]]:
    if isinstance(value, bool):
        yield [f"--{name}" if value else "--no"]
    elif name == "words":
        yield from ([word] for word in value)
    else:
        for one in value if isinstance(value, tuple) else (value,):
            yield [f"--{name}={one}"] if equals else [f"--{name}", str(one)]


@pytest.mark.parametrize("words", [[""], ["a", " "], ["--path", ""], ["--path="], ["--tree="]])
def test_an_empty_value_is_refused(words: list[str]) -> None:
    with pytest.raises(Usage, match="is empty"):
        parse(COMMAND, words)


@given(FIELDS, st.booleans(), st.randoms(use_true_random=False))
def test_what_is_written_is_read_in_whatever_order(fields: dict[str, Any], equals: bool, chance: Any) -> None:
    parts = [(name, words) for name, value in fields.items() for words in spelled(name, value, equals)]
    order = [name for name, _ in parts]
    chance.shuffle(order)
    waiting = {name: [words for other, words in parts if other == name] for name in order}
    words = [word for name in order for word in waiting[name].pop(0)]
    assert parse(COMMAND, words) == fields


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-p builds -v", {"path": Path("builds"), "verbose": True}),
        ("-pbuilds", {"path": Path("builds")}),
        ("-vpbuilds", {"verbose": True, "path": Path("builds")}),
        ("-vfjson", {"verbose": True, "format": "json"}),
        ("--no --yes", {"yes": True}),
        ("--number 3 --number 4", {"number": 4.0}),
        (
            "a -- --path -h",
            {
                "words": (
                    "a",
                    "--path",
                    "-h",
                )
            },
        ),
        (
            "- a",
            {
                "words": (
                    "-",
                    "a",
                )
            },
        ),
        ("--path -3", {"path": Path("-3")}),
        ("-h --nonsense", None),
    ],
)
def test_short_options_and_ends(words: str, expected: dict[str, Any] | None) -> None:
    assert parse(COMMAND, words.split()) == expected


@pytest.mark.parametrize(
    "words",
    ["--pat x", "--path", "--path --yes", "--yes=1", "-x", "-vx", "--number x", "--number 0", "--number 10",
     "--number nan", "-f xml", "--format", "--=3", "--path -- x"],
)  # fmt: skip
def test_mistakes_are_usage_errors(words: str) -> None:
    with pytest.raises(Usage):
        parse(COMMAND, words.split())


def test_a_verb_is_called_with_its_request_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHSMITH_TEST_TREES", "one two")
    given = parse(COMMAND, ["--many", "x", "--many=y"])
    assert given is not None
    call(verb, given)
    assert SEEN.pop() == ((), None, None, 2.0, False, ("one", "two"), Several(many=("x", "y")))


def commands() -> Iterator[Command]:
    for name in VERBS:
        found, _ = find_command([name], VERBS)
        if not found.is_group:
            yield found
        for word in found.commands:
            yield find_command([name, word], VERBS)[0]


@pytest.mark.parametrize("command", list(commands()), ids=lambda command: " ".join(command.words))
def test_help_names_everything_in_80_columns(
    command: Command, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = call(*command.words, "--help")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("Example")] == []
    assert {"Options:", "Verbs:"} & set(lines)
    told = " ".join(result.out.split())
    for one in command.parameters():
        assert one.param.help, one.name
        assert all(name in told for name in (one.switches if one.param.kind == "Option" else [one.metavar]))
        assert all(word in told for word in one.param.help.split())
    assert command.example in " ".join(result.out.split())


SHORT = [["--help"], ["list"], ["show", NAME], ["pick", "--cpu", "zen4", "--gpu", "L4"]]


@pytest.mark.parametrize("words", SHORT)
def test_a_short_answer_loads_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['torchsmith', *sys.argv[1:]]\n"
        "from torchsmith.__main__ import main\n"
        "try:\n  main()\nexcept SystemExit: pass\n"
        "heavy = ('tree_sitter', 'subprocess', 'hashlib')\n"
        "print([one for one in heavy if one in sys.modules])"
    )
    active = {"PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"}
    argv, env = [sys.executable, "-c", code, *words], {**os.environ, **active}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_verb_is_in_one_panel_and_the_overview_fits_a_terminal(call: Call) -> None:
    assert len(VERBS) == len(set(VERBS))
    lines = call("--help", "--all").out.splitlines()
    assert max(map(len, lines)) <= 80
    for panel, (contrast, verbs) in PANELS.items():
        assert f"{panel}: {contrast}" in lines
        assert all(any(line.startswith(f"  {one} ") for line in lines) for one in verbs)


def test_torchsmith_alone_lists_the_common_verbs_on_one_screen(call: Call) -> None:
    lines = call().out.splitlines()
    assert len(lines) <= 30
    assert [line.split()[0] for line in lines if re.match("  [a-z]", line)] == [*COMMON]
    assert "torchsmith --help --all" in lines[-1]
    assert call("--help").out.splitlines() == lines


@pytest.mark.parametrize("words", [(), ("ci",), ("line",)])
def test_a_missing_verb_is_a_wrong_request_that_prints_help(words: tuple[str, ...], call: Call) -> None:
    alone, helped = call(*words), call(*words, "--help")
    assert (alone.code, helped.code) == (2, 0)
    assert alone.out == helped.out != ""


def test_completion_is_an_option_and_not_a_verb() -> None:
    with pytest.raises(Usage) as caught:
        find_command(["completion"], VERBS)
    assert "--install-completion" in caught.value.hint


def test_cells_are_completed_from_the_catalog_whatever_the_workspace_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchsmith.toml").write_text("format = [")
    monkeypatch.chdir(tmp_path)
    assert "pytorch-python313-cuda13_0-sm90-avx2" in complete_cells()


def completed(*words: str) -> list[str]:
    return [name for name, _ in candidates(words)]


def test_completion_knows_verbs_options_and_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed("pi") == ["pick"]
    assert completed("line", "") == ["list", "add", "update", "remove"]
    assert completed("list", "--na") == ["--names"]
    assert completed("audit", "--format", "j") == ["json"]
    assert completed("pick", "--workload", "") == ["general", "training", "inference"]
    assert set(completed("audit", "--explain", "TS40")) >= {"TS401", "TS406"}
    assert completed("audit", "--select", "ts401") == ["TS401"]
    assert completed("audit", "--format=j") == ["--format=json"]
    assert completed("pick", "--cpu", "zen") == [
        name for name in builtin_catalog().cpus if name.startswith("zen")
    ]
    assert "sm120" in completed("list", "sm1")
    assert "RTX 4090" in completed("pick", "RTX")
    assert "2.12.1" in completed("pick", "--torch", "2.1")
    assert completed("pick", "--package", "torchv") == ["torchvision"]
    assert completed("init", "--cell", "pytorch-python313-cpu-avx2") == ["pytorch-python313-cpu-avx2"]
    assert completed("nonsense", "x") == completed("list", "--workspace", "x") == []
    (tmp_path / "torchsmith.toml").write_text("not toml")
    assert completed("show", "py") == []
    cell = "pytorch-python313-cpu-avx2"
    assert completed("init", "--cell", cell) == [cell]  # of a new workspace, not of this one


SHELLS = {
    "bash": "source {script}; COMP_WORDS=(torchsmith {words}); COMP_CWORD={count};"
    " _torchsmith torchsmith; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
    "zsh": "compadd() {{ print -rl -- $names }}; compdef() {{ : }}; source {script};"
    " words=(torchsmith {words}); CURRENT={place}; _torchsmith",
    "fish": "source {script}; complete -C 'torchsmith {words}' | string split -f 1 \\t",
}


@pytest.fixture(scope="module")
def completions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user's shell reads, for each shell, from a process of its own."""
    folder = tmp_path_factory.mktemp("completions")
    for shell in SHELLS:
        command = [sys.executable, "-m", "torchsmith", "--show-completion", shell]
        (folder / shell).write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    return folder


@pytest.mark.needs("shells")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("audit --form", ["--format"]),
        ("audit --format js", ["json"]),
        ("line a", ["add"]),
        ("pi", ["pick"]),
        ("init --for L40S", ["L40S"]),
        ("audit --format ''", ["github", "json", "sarif", "table"]),
    ],
)
def test_shells_complete(
    shell: str, words: str, expected: Sequence[str], completions: Path, tmp_path: Path
) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    (tmp_path / "a-file").touch()
    count = len(words.split())
    line = SHELLS[shell].format(script=completions / shell, words=words, count=count, place=count + 1)
    done = subprocess.run([shell, "-c", line], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert sorted(done.stdout.split()) == list(expected), done.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["audit", "--format", "=", "js"], "--format=json\n"),
        (["audit", "--format="], "--format=table\n"),
        (["audit", "--format", "=", "json", "."], ""),
    ],
)
def test_what_bash_takes_apart_is_one_word(
    words: Sequence[str], offered: str, capsys: pytest.CaptureFixture[str]
) -> None:
    complete("bash", words)
    assert capsys.readouterr().out[: len(offered) or None] == offered


@pytest.mark.needs("shells")
@pytest.mark.parametrize(("typed", "offered"), [(r"RTX\ 409", r"RTX\ 4090"), ("'RTX 409", "RTX 4090")])
def test_bash_completes_names_with_spaces(typed: str, offered: str, tmp_path: Path) -> None:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TYPED": typed}
    line = f"""{script_of("bash")}
    COMP_WORDS=(torchsmith pick --gpu "$TYPED"); COMP_CWORD=3; _torchsmith torchsmith
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", line], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == [offered]


@pytest.mark.parametrize("shell", PLACES)
def test_completion_is_installed_where_the_shell_looks(
    shell: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert call("--install-completion").code == 0
    written = [file.read_text() for file in tmp_path.rglob("*torchsmith*") if file.is_file()]
    assert written == [script_of(shell)]


@pytest.mark.parametrize("words", [("help", "pick"), ("--help", "pick"), ("-h", "pick")])
def test_help_before_a_verb_is_the_help_of_the_verb(words: tuple[str, str], call: Call) -> None:
    assert call(*words).out == call("pick", "--help").out


def test_an_argument_too_many_is_refused(call: Call) -> None:
    assert call("diagnose", "sample", "more").error == "usage"


def test_help_states_the_defaults_that_are_no_absence(call: Call) -> None:
    defaults = re.findall(r"default:\s+([^];.\s]+)", call("pick", "--help").out)
    assert "general" in defaults
    assert not {"None", "False", "()"} & set(defaults)


def test_help_alone_is_the_overview(call: Call) -> None:
    assert call("help").out == call("--help").out
    assert call("help", "nonsense").code == 2


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_may_end_with_1_says_when(verb: str) -> None:
    module = importlib.import_module(f"torchsmith.verbs.{verb.replace('-', '_')}")
    ends = "exit_if(" in inspect.getsource(module)
    assert not ends or "exit code is" in " ".join((module.run.__doc__ or "").split())


def test_every_verb_has_a_module() -> None:
    for name in VERBS:
        assert importlib.import_module(f"torchsmith.verbs.{name.replace('-', '_')}").EXAMPLE


@pytest.mark.parametrize("verb", REMOVED)
def test_a_verb_that_is_gone_says_what_to_use_instead(verb: str, call: Call) -> None:
    result = call(verb, "--json")
    assert (result.code, result.error) == (2, "usage")
    assert REMOVED[verb] in " ".join(result.err.split())
    assert verb not in VERBS


@pytest.mark.parametrize(("word", "meant"), [("--numbr", "--number"), ("--xyz", "")])
def test_an_unknown_option_is_not_explained_by_one_that_is_only_as_short(word: str, meant: str) -> None:
    with pytest.raises(Usage) as caught:
        parse(Command(("verb",), verb, "torchsmith verb"), [word])
    assert caught.value.hint == (f"did you mean {meant}?" if meant else "torchsmith verb --help lists them")
