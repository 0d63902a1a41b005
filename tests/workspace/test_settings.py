"""torchsmith.toml: what is wrong in it is said with file, line and column, and the nearest right spelling."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import pytest

import torchsmith
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import (
    CannotBuild,
    Conflict,
    Empty,
    Exists,
    Exit,
    Incomplete,
    Invalid,
    NotKnown,
    Problem,
    TooLarge,
)
from torchsmith.matrix.variant import BadName
from torchsmith.verbs.init import InitRequest, init
from torchsmith.workspace.load import DEFAULT, open_workspace
from torchsmith.workspace.settings import schema

BLOCK = '[[matrix]]\npython = ["3.13"]\ncuda = ["13.0"]\nsm = ["sm90"]\nisa = ["avx2"]\n'


def opened(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "torchsmith.toml").write_text(text)
    return [cell.name for cell in open_workspace(tmp_path).matrix.cells]


def test_includes_excludes_and_own_blocks_add_up(tmp_path: Path) -> None:
    text = (
        'format = 1\npackages = ["pytorch"]\n'
        'include = ["pytorch-python313-cpu-avx"]\nexclude = ["sm90 avx2", "sm120"]\n'
        '[[matrix]]\npython = ["3.12", "3.13"]\ncuda = ["12.9", "cpu"]\nsm = ["sm90", "sm120"]\n'
        'isa = ["avx2", "avx512"]\n'
    )
    assert opened(tmp_path, text) == [
        "pytorch-python312-cpu-avx2",
        "pytorch-python312-cpu-avx512",
        "pytorch-python312-cuda12_9-sm90-avx512",
        "pytorch-python313-cpu-avx",
        "pytorch-python313-cpu-avx2",
        "pytorch-python313-cpu-avx512",
        "pytorch-python313-cuda12_9-sm90-avx512",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('[ci]\ntorchsmith = "torchsmith"', "an address such as git+https://"),
        ('[ci]\ntorchsmith = "torchsmith==0.3.0"', "an address such as git+https://"),
        ('[ci]\ntorchsmith = "a b.whl"', "a wheel in the workspace"),
        ('ccache = "here"', "an absolute path"),
        ('fetch = ["/here"]', "an https, http or file address"),
        ('[sources]\nnixpkgs = "here"', "an https, http, ssh or file address"),
        ('[[builder]]\nsystems = ["x86_64-linux"]\naddress = "a b"', "USER@HOST"),
    ],
)
def test_a_text_of_another_form_is_refused_in_words(line: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid) as told:
        opened(tmp_path, f"format = 1\n{line}\n")
    assert words in told.value.message
    assert told.value.where is not None
    assert told.value.where.line == line.count("\n") + 2


def test_every_form_of_a_text_has_words() -> None:
    sources = Path(torchsmith.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "msgspec.Meta(pattern" in path.read_text()] == ["text.py"]


@pytest.mark.parametrize(
    "install", ["git+ssh://git@example.org/a/b@c0ffee", "./vendor", "a/b-1.whl", "b-1.whl"]
)
def test_ci_takes_an_address_or_a_file(install: str, tmp_path: Path) -> None:
    assert opened(tmp_path, f'format = 1\nprofile = "seed"\n[ci]\ntorchsmith = "{install}"\n')


def test_a_profile_of_ones_own_may_extend_another(tmp_path: Path) -> None:
    text = (
        'format = 1\nprofile = "mine"\npackages = ["pytorch"]\n'
        '[profiles.mine]\nextends = "real"\nexclude = ["gpu"]\n'
    )
    assert opened(tmp_path, text) == [
        f"pytorch-python313-cpu-{isa}" for isa in ("avx2", "avx512", "avx512bf16", "avx512vnni")
    ]


@pytest.mark.parametrize(
    ("text", "at", "kind", "said"),
    [
        (
            "format = 1\nprofle = 'plan'\n",
            "2:1",
            NotKnown,
            "profile?",
        ),
        ("format = 2\n", "1:1", Invalid, "unknown value 2 (in format)"),
        ("format = 1\n" + BLOCK.replace("sm90", "RTX 4090"), "5:7", Invalid, "use sm89"),
        ("format = 1\n" + BLOCK.replace('["3.13"]', '"3.13"'), "3:1", Invalid, 'write python = ["3.13"]'),
        ("format = 1\npackages = 'pytorch'\n", "2:1", Invalid, "a list, got text"),
        (
            "format = 1\n" + BLOCK.replace("sm90", "sm61").replace("13.0", "12.6"),
            "2:3",
            Conflict,
            'a [[matrix]] with line = "2.8" can build it',
        ),
        (
            "format = 1\n" + BLOCK.replace("3.13", "3.14").replace("13.0", "12.8") + "line = '2.8'\n",
            "2:3",
            Conflict,
            'a [[matrix]] with line = "2.10" can build it',  # of 2.12 a hash is not known
        ),
        ("profile = 'plan'\n", "1:1", Invalid, " format "),
        ("format = 1\nprofile = 3\n", "2:1", Invalid, " profile)"),
        ("format = 1\n" + BLOCK.replace("[[matrix]]", "[matrix]"), "2:2", Invalid, "[[matrix]]"),
        ("format = 1\nprofile = 'sede'\n", "2:1", NotKnown, "seed?"),
        ("format = 1\n", "", Empty, "torchsmith.toml"),
        ("format = 1\n" + BLOCK.replace("sm90", "sm9x"), "5:7", Invalid, "'sm9x'"),
        ("format = 1\n" + BLOCK.replace("sm90", "sm91"), "5:7", NotKnown, "sm91"),
        ("format = 1\n" + BLOCK.replace("avx2", "axv2"), "6:8", NotKnown, "avx2?"),
        ("format = 1\n" + BLOCK.replace("13.0", "12.7"), "4:9", NotKnown, "12.7"),
        ("format = 1\n" + BLOCK.replace('"3.13"', ""), "3:1", Empty, "python"),
        ("format = 1\n" + BLOCK.replace('"3.13"', "3.13"), "3:11", Invalid, "3.13"),
        ("format = 1\n" + BLOCK.replace('sm = ["sm90"]\n', ""), "2:3", Incomplete, "sm"),
        ("format = 1\n" + BLOCK + "line = '210'\n", "7:1", NotKnown, "2.10?"),
        ("format = 1\n" + BLOCK + "sms = []\n", "7:1", NotKnown, "sm?"),
        (
            "format = 1\n" + BLOCK.replace('"sm90"', '"sm90", "sm103"').replace("13.0", "12.8"),
            "2:3",
            Conflict,
            "pytorch-python313-cuda12_8-sm103-avx2: sm103",
        ),
        ("format = 1\ninclude = ['pytorch-python313-cpu']\n", "2:12", BadName, "'pytorch-python313-cpu'"),
        (
            "format = 1\ninclude = ['pytorch-python313-cuda12_8-sm103-avx2']\n",
            "2:12",
            Conflict,
            "pytorch-python313-cuda12_8-sm103-avx2: sm103",
        ),
        (
            "format = 1\ninclude = ['pytorch-python313-cuda13_0-sm110-armv8.2']\n",
            "2:12",
            Invalid,
            "armv8_2",
        ),
        ("format = 1\nprofile='plan'\nexclude = ['sm90', 'smm120']\n", "3:20", NotKnown, "'smm120'"),
        ("format = 1\nprofile='a'\n[profiles.a]\nextends='a'\n", "4:1", Conflict, "a -> a"),
        ("format = 1\nprofile = \n", "2:11", Invalid, "profile ="),
        ("format = 1\nprofile = seed\n", "2:11", Invalid, "not in quotes"),
        ("format = 1\nexclude = [1,\n", "3", Invalid, "hint: a value is missing"),
        (
            "format = 1\n" + BLOCK + "line = '2.9'\n" + BLOCK + "line = '2.10'\n",
            "8:3",
            Conflict,
            "pytorch-python313-cuda13_0-sm90-avx2",
        ),
        ("format = 1\nnarrow = 'x'\n", "2:1", Invalid, ": all"),
        ("format = 1\nlayout = 'standalone'\n", "2:1", NotKnown, "remove it"),
        ("\ufeffformat = 1\n", "1:1", Invalid, "BOM"),
        ("format = 1\ninclude = " + "[" * 5000 + "]" * 5000, "", TooLarge, "torchsmith.toml: "),
        ("format = 1\ninclude = " + "[" * 60 + "]" * 60, "2:1", TooLarge, "include.0.0..."),
        ("format = 1\n" + ".".join("a" * 1500) + " = 1\n", "", TooLarge, "a.a.a..."),
        ("format = 1\n" + ".".join("a" * 100_000) + " = 1\n", "2:1", TooLarge, "too many dots"),
        ("format = 1\nx = " + "9" * 5000 + "\n", "", TooLarge, "too long"),
        ("format = 1\n[" + ".".join("a" * 1500) + "]\n", "", TooLarge, "a.a.a..."),
        (
            "format = 1\ncudatoolkit = [{" + ".".join("a" * 1500) + " = 1}]\n",
            "2:1",
            TooLarge,
            "toolkit.0.a...",
        ),
        ("format = 1\nexclude = [" + "'x', " * 200_000 + "]\n", "2:1", TooLarge, "200,000"),
    ],
)
def test_a_mistake_is_placed_and_named(
    tmp_path: Path, text: str, at: str, kind: type[Problem], said: str
) -> None:
    with pytest.raises(kind) as caught:
        opened(tmp_path, text)
    assert caught.value.exit is Exit.BAD_REQUEST
    assert str(caught.value.where).endswith(f"torchsmith.toml:{at}" if at else "")
    assert said in str(caught.value)


def test_the_schema_accepts_what_we_write_and_refuses_what_we_refuse(tmp_path: Path) -> None:
    made = json.loads(json.dumps(schema(builtin_catalog())))
    jsonschema.Draft202012Validator.check_schema(made)
    silent = [
        f"{kind}.{field}"
        for kind, one in made["$defs"].items()
        for field, told in one.get("properties", {}).items()
        if not told.get("description")
    ]
    assert silent == []
    validator = jsonschema.Draft202012Validator(made)
    file = init(InitRequest(folders=(tmp_path,), profile="seed")).file
    assert len(open_workspace(file).matrix.cells) == 132
    for path in (DEFAULT, file):
        assert list(validator.iter_errors(tomllib.loads(path.read_text()))) == []
    for bad in ("format = 1\nprofle = 'x'\n", "format = 3\n", "format = 1\n[[matrix]]\nsm = ['x']\n"):
        assert list(validator.iter_errors(tomllib.loads(bad)))


def test_a_workspace_may_start_from_single_cells(tmp_path: Path) -> None:
    init(InitRequest(folders=(tmp_path,), cell=("pytorch-python313-cpu-armv8_2",)))
    cells = open_workspace(tmp_path).matrix.cells
    assert [cell.variant.package.name for cell in cells] == ["pytorch", "torchvision", "torchaudio"]
    with pytest.raises(CannotBuild, match="sm103"):
        init(InitRequest(folders=(tmp_path / "b",), cell=("pytorch-python313-cuda12_8-sm103-avx2",)))
    assert not (tmp_path / "b").exists()


def test_a_workspace_file_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    file = tmp_path / "torchsmith.toml"
    file.write_text("mine")
    with pytest.raises(Exists, match=str(file)):
        init(InitRequest(folders=(tmp_path,), profile="seed"))
    assert file.read_text() == "mine"
    init(InitRequest(folders=(tmp_path,), force=True))
    assert 'profile = "real"' in file.read_text()


def test_a_workspace_file_that_is_replaced_is_kept_unless_git_has_it(tmp_path: Path) -> None:
    file, force = tmp_path / "torchsmith.toml", InitRequest(folders=(tmp_path,), force=True)
    file.write_text("# mine\nformat = 1\n")
    assert init(force).copy == "torchsmith.toml.orig"
    assert (tmp_path / "torchsmith.toml.orig").read_text() == "# mine\nformat = 1\n"
    assert init(force).copy == "", "nothing changed"
    file.write_text("# mine too\nformat = 1\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=y", "commit", "-qm", "z"],
    ):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    assert init(force).copy == ""
    assert not (tmp_path / "torchsmith.toml.orig2").exists()


def test_the_nearest_workspace_above_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init(InitRequest(folders=(tmp_path,), profile="real"))
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert open_workspace(None).root == tmp_path


@pytest.mark.parametrize("cells", [(), ("pytorch-python313-cuda13_0-sm90-avx2",)])
def test_a_new_file_names_the_schema_beside_it(cells: tuple[str, ...], tmp_path: Path) -> None:
    file = init(InitRequest(folders=(tmp_path,), cell=cells)).file
    first = file.read_text().splitlines()[0]
    named = tmp_path / first.removeprefix("#:schema ")
    assert json.loads(named.read_text()) == json.loads(json.dumps(schema(builtin_catalog())))
    jsonschema.validate(tomllib.loads(file.read_text()), json.loads(named.read_text()))
