"""Every command of the README, the tutorial and the guides runs; no page says what cannot be typed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.anybody import NOBODY, ordinary, shells_may_start
from torchsmith.cli.panels import VERBS

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
INSTALLS = (
    "pipx install .",
    "uv tool install .",
    "python3 -m venv ~/.torchsmith && ~/.torchsmith/bin/pip install . && PATH=~/.torchsmith/bin:$PATH",
)
ANSWERS = tuple(f"torchsmith {one}" for one in ("pick", "doctor", "show", "audit", "plan", "apply"))
MACHINE = "--gpu none --cpu " + ("zen4" if platform.machine() == "x86_64" else "neoverse-n1")
ONE_CELL = [  # in a Nix store and with a nixpkgs of its own
    "mkdir nix && printf 'sandbox = false\\nbuild-users-group =\\nsubstitute = false\\n' > nix/nix.conf",
    'export TORCHSMITH_NIXPKGS=sample NIX_CONF_DIR="$PWD/nix" NIX_STORE_DIR="$PWD/nix/store"',
    'export NIX_STATE_DIR="$PWD/nix/state" NIX_LOG_DIR="$PWD/nix/log"',
    f'torchsmith init . --cell "$(torchsmith pick --names {MACHINE})"',
    "sed -i 's/^format = 1/&\\npackages = [\"pytorch\"]/' torchsmith.toml",
    "torchsmith apply",
]
PREPARED = {  # what a reader of a guide has
    "adopt": [
        "mkdir -p build-pytorch/.flox/pkgs && cp ../tests/edit/by-hand/*.nix build-pytorch/.flox/pkgs",
        "git config --global user.name x && git config --global user.email x@example.invalid",
        "git init -q build-pytorch && git -C build-pytorch add . && git -C build-pytorch commit -qm recipes",
    ],
    "ci": ["git init -q .", "torchsmith init . --profile seed", "torchsmith apply"],
    "farm": ONE_CELL,
    "fleet": ["cp ../src/torchsmith/host/sample.csv fleet.csv"],
    "gpu": [],
    "offline": [*ONE_CELL, "unset TORCHSMITH_NIXPKGS"],
    "python": ["torchsmith init ."],
    "release": ["torchsmith init ."],
}
MAKES = ("make matrix", "make test")


def commands(page: str) -> list[str]:
    """The lines that a reader copies, without remarks."""
    blocks = BLOCK.findall((ROOT / page).read_text())
    return [
        line.split("  # ")[0].split("   # ")[0].strip() for block in blocks for line in block.splitlines()
    ]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that git knows, as a reader has them after cloning."""
    (tmp_path / "clone").mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = "\0".join(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())
    copy = ["xargs", "-0", "cp", "--parents", f"--target-directory={tmp_path / 'clone'}"]
    subprocess.run(copy, cwd=ROOT, input=names, text=True, check=True)
    return tmp_path / "clone"


def answered(line: str, shell: str) -> str:
    """Exit code 1 of a verb that answers a question is an answer too."""
    status = "$status" if shell == "fish" else "$?"
    line = f"{line} || [ {status} = 1 ]" if line.startswith(ANSWERS) else line
    return f"{line} || exit 1" if shell == "fish" else line


def typed(
    lines: list[str], folder: Path, prefix: Sequence[str] = (), shell: str = "bash", **more: str
) -> None:
    """Type lines into one shell that stops at the first failure."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("TORCHSMITH", "NIX_"))},
        "HOME": str(folder.parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **more,
    }
    start = [] if shell == "fish" else ["set -eu"]
    script = "\n".join([*start, *(answered(line, shell) for line in lines)])
    done = subprocess.run(
        [*prefix, shell, "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]


def test_the_readme_keeps_its_two_commands() -> None:
    shown = commands("README.md")
    assert all(line in shown for line in MAKES)
    assert "init workspace --profile seed" in (ROOT / "Makefile").read_text()


def test_the_commands_of_the_readme_run(clone: Path) -> None:
    typed([line for line in commands("README.md") if line not in (*INSTALLS, *MAKES)], clone)
    recipes = list((clone / "builds").glob("build-*/.flox/pkgs/*.nix"))
    assert sum("cudatoolkit" not in str(one) for one in recipes) == 108


@pytest.mark.needs("nix")
def test_the_commands_of_the_tutorial_run(clone: Path) -> None:
    prefix = ordinary() if shells_may_start(sys.executable) else ()
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        place = Path(shutil.move(clone, f"{folder}/clone"))
        if prefix:  # root gives the clone to the user who reads the tutorial
            for path in (place.parent, place, *place.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        typed(commands("docs/tutorial.md"), place, prefix, "dash", GIT_CONFIG_SYSTEM="/dev/null")
        results = place.parent.glob(".local/state/torchsmith/workspaces/tutorial-*/results/*")
        assert {result.name.split("-")[0] for result in results} == {"pytorch"}


# Notes what it is called with; two names where names are asked for, and a recipe that sed can edit.
NOTED = """#!/bin/sh
exec 3>> "$HOME/called"
printf '%s\\n' "-- $TORCHSMITH_NIXPKGS $NIX_CONF_DIR $NIX_STORE_DIR $NIX_STATE_DIR $NIX_LOG_DIR" "$@" >&3
case "$*" in
*--names*) printf 'one\\ntwo\\n' ;;
apply) mkdir -p build-pytorch/.flox/pkgs && echo 2.10.0 > build-pytorch/.flox/pkgs/one.nix ;;
esac
"""


@pytest.mark.needs("shells")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_other_shells_call_what_the_one_that_runs_the_tutorial_calls(shell: str, tmp_path: Path) -> None:
    called = []
    for one in ("dash", shell):
        home = tmp_path / one
        (home / "bin").mkdir(parents=True)
        (home / "clone").mkdir()
        (home / "bin/torchsmith").write_text(NOTED)
        (home / "bin/torchsmith").chmod(0o755)
        typed(
            commands("docs/tutorial.md"), home / "clone", shell=one, PATH=f"{home}/bin:{os.environ['PATH']}"
        )
        assert (home / "clone/tutorial/build-pytorch/.flox/pkgs/one.nix").read_text() == "2.10.1\n"
        assert "sandbox = false\nbuild" in (home / "clone/tutorial/nix/nix.conf").read_text()
        called.append((home / "called").read_text().replace(str(home), "HOME"))
    assert called[0].count("-- sample HOME/clone/tutorial/nix ") > 10
    assert called[1] == called[0]


@pytest.mark.needs("nix")
@pytest.mark.parametrize("guide", sorted(one.stem for one in (ROOT / "docs/guides").glob("*.md")))
def test_the_commands_of_a_guide_run(guide: str, clone: Path) -> None:
    (clone / "reader").mkdir()
    (clone / "nixpkgs").symlink_to("src/torchsmith/cli/samples/nixpkgs")
    (clone / "nixpkgs-6a030d5").symlink_to("src/torchsmith/cli/samples/nixpkgs")
    lines = [line.replace("/mnt/", f"{clone}/") for line in commands(f"docs/guides/{guide}.md")]
    assert lines
    typed([*PREPARED[guide], *lines], clone / "reader")


@pytest.mark.long
@pytest.mark.parametrize("line", INSTALLS)
def test_the_ways_to_install_work(line: str, clone: Path, tmp_path: Path) -> None:
    assert line in (ROOT / "README.md").read_text()
    bin_ = tmp_path / "bin"
    path = f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    places = {"PIPX_HOME": "pipx", "UV_TOOL_DIR": "uv", "UV_CACHE_DIR": "uv-cache"}
    more = {name: str(tmp_path / folder) for name, folder in places.items()}
    more |= {"PIPX_BIN_DIR": str(bin_), "UV_TOOL_BIN_DIR": str(bin_), "PATH": path}
    check = 'case "$(command -v torchsmith)" in "$HOME"/*) torchsmith --version;; *) exit 9;; esac'
    typed([line, check], clone, **more)


@pytest.mark.long
def test_make_matrix_generates_the_whole_seed_plan(clone: Path) -> None:
    typed(["make matrix"], clone)
    recipes = list((clone / "workspace").glob("build-*/.flox/pkgs/py*torch*.nix"))
    recipes += list((clone / "workspace").glob("build-*/.flox/pkgs/torch*.nix"))
    assert len({one.name for one in recipes}) == 132


def test_no_page_shows_a_placeholder_as_a_command() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        shown = re.findall(r"^ {4}.*|^```sh\n.*?^```", page.read_text(), re.M | re.S)
        wrong = [line for line in shown if re.search(r"\b(ORG|OWNER)\b", line)]
        assert not wrong, f"{page}: {wrong}"


def test_every_link_between_pages_leads_to_a_page_and_a_heading() -> None:
    pages = {page: page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]}
    anchors = {page: {slug(title) for title in re.findall(r"^#+ (.+)$", pages[page], re.M)} for page in pages}
    for page, text in pages.items():
        prose = re.sub(r"^```.*?^```|^ {4}.*?$|(`+)[^\n]*?\1", "`", text, flags=re.M | re.S)
        for path, anchor in re.findall(r"\]\(([^()#\s:]*)(?:#([^()\s]+))?\)", prose):
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page}: {path}"
            assert not anchor or anchor in anchors[target], f"{page}: {path}#{anchor}"


def slug(title: str) -> str:
    """The anchor that the site gives a heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def settings_of_the_site() -> Any:
    class Loader(yaml.SafeLoader):
        """Reads settings that come from the environment as nothing."""

    Loader.add_constructor("!ENV", lambda loader, node: None)
    return yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)


def entries(menu: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Each page of a menu and its sections, with its name there: an index has that of its section."""
    for entry in menu:
        for name, below in entry.items():
            if isinstance(below, str):
                yield below, name
            elif isinstance(below[0], str):
                yield below[0], name
                yield from entries(below[1:])
            else:
                yield from entries(below)


def test_a_page_has_one_name_in_the_menu_and_above_its_text() -> None:
    named = dict(entries(settings_of_the_site()["nav"]))
    assert [page for page in named if page.startswith("verbs/")][1:] == [f"verbs/{verb}.md" for verb in VERBS]
    for page, name in named.items():
        if page not in ("index.md", "tutorial.md"):
            title = f"torchsmith {name}" if page == f"verbs/{name}.md" else name
            assert (ROOT / "docs" / page).read_text().startswith(f"# {title}\n"), page


def test_the_site_is_found_and_searched_from_the_disk() -> None:
    site = settings_of_the_site()
    assert len(site["nav"]) <= 12
    assert "offline" in site["plugins"]
    served = [
        *site["extra"]["polyfills"],
        *site["extra_css"],
        site["theme"]["logo"],
        site["theme"]["favicon"],
    ]
    assert all((ROOT / "docs" / name).is_file() for name in served)


def test_the_documentation_stays_short() -> None:
    text = "\n".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    words = re.sub(r"<!--.*?-->", "", text).split()
    assert sum(any(map(str.isalnum, word)) for word in words) < 37_000  # rules of tables are not words


def test_the_answer_in_the_readme_has_twelve_lines() -> None:
    _, *answer = re.findall("<text", (ROOT / "docs/pictures/pick.svg").read_text())
    assert len(answer) <= 12
