"""Every verb answers good input with data, and bad input with one clear message and the right exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.artifact.toy import make_environment
from tests.cli.conftest import Call
from torchsmith import __version__
from torchsmith.catalog.ranges import version_key


def test_the_version_is_printed_with_and_without_the_short_way(call: Call) -> None:
    assert call("--version").out == f"torchsmith {__version__}\n"
    assert call("--version", "list").out == f"torchsmith {__version__}\n"


def test_ctrl_c_says_so(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("torchsmith.verbs.compare.busy_shares", interrupted)
    build = str(make_environment(tmp_path / ".venv"))
    done = call("compare", build, build)
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


def test_names_are_data_on_stdout(call: Call) -> None:
    result = call("list", "-p", "real", "--names", "sm120", "pytorch")
    assert result.out.splitlines() == [
        f"pytorch-python313-cuda13_0-sm120-{isa}" for isa in ("avx2", "avx512", "avx512bf16", "avx512vnni")
    ]
    assert result.err == ""


def test_the_grid_shows_gpus_and_counts(call: Call) -> None:
    out = call("list", "--profile", "seed").out
    assert "sm103" in out
    assert "B300" in out
    assert out.splitlines()[-4].split()[:2] == ["132", "builds:"]
    assert [line.split()[1] for line in out.splitlines() if line.startswith("▲ ")] == ["12", "12"]


def test_json_of_a_list_holds_what_a_program_needs(call: Call) -> None:
    document = json.loads(call("list", "-p", "real", "--json", "sm120", "avx512", "pytorch").out)
    assert document["format"] == 2
    rows = document["cells"]
    assert rows == [
        {
            "name": "pytorch-python313-cuda13_0-sm120-avx512",
            "package": "pytorch",
            "version": "2.10.0",
            "pname": "pytorch210-python313-cuda13_0-sm120-avx512",
            "python": "3.13",
            "cuda": "13.0",
            "sm": "sm120",
            "isa": "avx512",
            "system": "x86_64-linux",
            "line": "2.10",
            "warnings": [],
            "target": "cuda13_0-sm120",
            "cell": "python313-cuda13_0-sm120-avx512",
            "toolkit": "CUDA 13.0",
            "arch": "sm120",
            "gpu": rows[0]["gpu"],
        }
    ]
    assert "RTX 50" in rows[0]["gpu"]
    assert (document["packages"], document["isas"], document["unusable"]) == (["pytorch"], ["avx512"], 0)


def test_init_for_a_gpu_has_a_build_for_its_older_drivers(tmp_path: Path, call: Call) -> None:
    report = json.loads(call("init", tmp_path / "own", "--for", "RTX 4090", "--json").out)
    assert (report["drivers"]["12.6"], report["drivers"]["13.0"]) == ("525.60.13", "580")
    machine = ("--cpu", "zen4", "--gpu", "RTX 4090", "--driver", "570.124.06")
    picked = json.loads(call("pick", "-w", tmp_path / "own", *machine, "--json").out)
    alone = json.loads(call("pick", *machine, "--json", cwd=tmp_path).out)
    assert picked["served"]
    assert [one["name"] for one in picked["choice"]] == [one["name"] for one in alone["choice"]]
    unable = {"GTX 970": "cannot-build", "gfx1036": "cannot-build", "no such GPU": "not-known"}
    for name, error in unable.items():
        assert call("init", tmp_path / "none", "--for", name).error == error
    assert call("init", tmp_path / "none", "--for", "sm90", "-p", "wide").error == "conflict"


@pytest.mark.parametrize("mac", ["M3", "Apple M3 Pro"])
def test_init_for_a_mac_has_its_builds(mac: str, tmp_path: Path, call: Call) -> None:
    assert call("init", tmp_path, "--for", mac).code == 0
    names = call("list", "-w", tmp_path, "--names").out.split()
    assert names
    assert all(name.endswith("-darwin-mps") for name in names)


def test_init_says_which_driver_its_builds_need(tmp_path: Path, call: Call) -> None:
    said = call("init", tmp_path).err
    assert "CUDA 13.0: needs NVIDIA driver 580 or newer; for an older one: torchsmith pick" in said


def test_list_and_pick_without_a_workspace_know_the_same_builds(tmp_path: Path, call: Call) -> None:
    listed = set(call("list", "--names", cwd=tmp_path).out.split())
    for machine in (("RTX 4090", "570"), ("RTX 5090", "580"), ("V100", "535"), ("MI300X", "")):
        driver = ("--driver", machine[1]) if machine[1] else ()
        picked = json.loads(call("pick", "--cpu", "zen4", "--gpu", machine[0], *driver, "--json").out)
        assert {one["name"] for one in picked["choice"]} <= listed


def test_what_is_left_out_is_listed_with_its_reason(call: Call) -> None:
    rows = json.loads(call("list", "--profile", "real", "--left-out", "--json").out)["left_out"]
    assert len(rows) == 24
    assert all(row["reasons"] for row in rows)
    narrowed = call("list", "--profile", "real", "--left-out", "sm110", "avx2", "--json").out
    assert len(json.loads(narrowed)["left_out"]) == 3
    assert json.loads(call("list", "--left-out", "sm90", "--json").out)["left_out"] == []
    assert "12 builds: " in call("list", "--profile", "real", "--left-out").out


def test_show_says_what_is_known_and_what_is_not_proved(call: Call) -> None:
    out = call("show", "torchvision-python313-cuda13_0-sm121-armv9").out
    for text in ("torchvision 0.25.0", "12.1", "-march=armv9-a+sve+sve2", "580", "GB10", "untested"):
        assert text in out
    data = json.loads(call("show", "--json", "pytorch-python313-cpu-avx").out)
    assert data["build"]["cpu"]["torch_off"] == ["USE_FBGEMM", "USE_MKLDNN", "USE_MKLDNN_CBLAS", "USE_NNPACK"]
    assert data["build"]["gpu"] is None


def test_show_exits_1_for_a_cell_that_cannot_be_built(call: Call) -> None:
    result = call("show", "pytorch-python313-cuda12_8-sm103-avx2")
    assert result.code == 1
    assert "sm103 needs CUDA 12.9 or newer" in result.out  # the one place that holds a reason's words
    assert "pytorch-python313-cuda12_9-sm103-avx2" in result.out
    assert call("show", "pytorch-python313-cuda13_0-sm121-avx2").code == 0


def test_what_is_near_a_cell_is_for_its_own_gpu_where_an_older_torch_has_it(call: Call) -> None:
    report = json.loads(call("show", "pytorch-python313-cuda13_0-sm61-avx512", "--json").out)
    assert report["nearest"]
    assert all("-sm61-" in name for name in report["nearest"])
    exact = call("show", "pytorch-python313-cuda12_6-sm61-avx512").out
    assert exact.split("of use:")[1].split()[0] == "pytorch28-python313-cuda12_6-sm61-avx512"


def test_showing_a_gpu_says_which_cuda_has_builds_and_what_to_do_next(call: Call) -> None:
    result = call("show", "RTX 5090")
    assert "torchsmith pick --gpu 'RTX 5090'" in result.err
    assert "RTX 5070" in result.out
    assert "torchsmith pick --gpu MI300X" in call("show", "MI300X").err
    spans = re.findall(r"^CUDA (\d\S+)(?: to (\S+))? ", call("show", "sm89").out, re.MULTILINE)
    ends = [version_key(end) for span in spans for end in filter(None, span)]
    assert ends == sorted(ends), "rows do not overlap"


def test_a_new_workspace_counts_cells_with_a_warning(call: Call, tmp_path: Path) -> None:
    report = json.loads(call("init", str(tmp_path), "-p", "seed", "--json").out)
    listed = json.loads(call("list", "-w", str(tmp_path), "--json").out)["cells"]
    assert report["warned"] == sum(bool(cell["warnings"]) for cell in listed) > 0


@pytest.mark.parametrize(
    ("args", "error", "named"),
    [
        (("lst",), "usage", "list"),
        (("list", "--jsn"), "usage", "--json"),
        (("show",), "usage", "NAME is missing"),
        (("list", "sm999x"), "not-known", "'sm999x'"),
        (("list", "--profile", "wdie"), "not-known", "did you mean wide?"),
        (("list", "--workspace", "/nowhere"), "not-found", "/nowhere"),
        (("show", "pytorch"), "bad-name", "'pytorch'"),
        (("show", "zen4"), "bad-name", "pick --cpu"),
        (("show", "sm99"), "not-known", "did you mean sm89"),
        (("init", "x", "--cell", "pytorch-python313-cuda13_0-sm125-avx2"), "not-known", "sm121"),
        (("show", "avx512"), "bad-name", "torchsmith list avx512"),
        (("show", "TS402"), "bad-name", "audit --explain TS402"),
        (("list", "-p", "real", "sm61"), "empty", "torchsmith show sm61"),
        (("list", "package:torchvison"), "empty", "did you mean torchvision?"),
        (("list", "-p", "real", "12.6"), "empty", "torchsmith list -p every 12.6"),
        (("list", "-p", "real", "--left-out", "12.6"), "empty", "torchsmith list -p every 12.6"),
        (("pick", "-p", "wide", "12.6"), "empty", "torchsmith list -p every 12.6"),
        (("list", "python312", "sm90"), "empty", "words on different axes must all match"),
        (("show", "12.6"), "not-known", "torchsmith list -p every 12.6"),
        (("verify", "nothing"), "not-found", "give a wheel"),
        (("test", "no/where"), "not-found", "no/where"),
        (("diagnose", "nothing"), "not-found", "give the file of a log"),
        (("undo",), "usage", "torchsmith --help lists them"),
        (("init", "--profile", "raal"), "not-known", "real"),
        (("--install-completion", "nope"), "not-known", "--install-completion"),
        (("apply", "--wait", "-1"), "usage", "--wait"),
    ],
)
def test_a_wrong_request_exits_2_with_words(
    args: tuple[str, ...], error: str, named: str, call: Call
) -> None:
    result = call(*args)
    assert (result.code, result.error) == (2, error)
    assert named in " ".join(result.err.replace("│", "").split())
    assert "Traceback" not in result.err


def test_a_value_that_is_not_known_is_a_reason_with_a_hint(call: Call) -> None:
    shown = call("show", "pytorch-python313-cuda13_0-sm120-avx51")
    assert shown.code == 1
    assert "avx512" in shown.out


def test_a_file_that_is_no_text_is_refused(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "torchsmith.toml"
    file.write_bytes(b"format = 1\n\xff\xfe")
    result = call("list", "-w", str(file))
    assert (result.code, result.error) == (2, "invalid")
    assert f"{file}: " in result.err


def test_a_matrix_that_leaves_everything_out_is_exit_1_and_says_where_to_look(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    packages = '"pytorch", "torchvision", "torchaudio"'
    Path("torchsmith.toml").write_text(f'format = 1\nprofile = "seed"\nexclude = [{packages}]\n')
    result = call("list")
    assert result.code == 1
    assert "--left-out" in result.err
    assert call("list", "--left-out").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["init", "new", "--line", "2.9", "--for", "sm90"],
        ["init", "--from", "new", "--cell", "pytorch-python313-cpu-avx2"],
        ["init", "--from", "new", "--profile", "wide"],
        ["list", "--names", "--json"],
        ["pick", "--names", "--json"],
    ],
    ids=" ".join,
)
def test_options_that_exclude_each_other_are_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*words)
    assert (result.code, result.error) == (2, "conflict")
    assert not any(tmp_path.iterdir())


def test_a_log_of_nothing_says_so(tmp_path: Path, call: Call) -> None:
    assert call("init", str(tmp_path)).code == 0
    result = call("runs", "log", "-w", str(tmp_path))
    assert (result.code, result.out) == (0, "")
    assert "nothing has been built" in result.err


def test_an_unknown_profile_is_no_fault_of_the_default_file(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = json.loads(call("pick", "--profile", "nope", "--json").out)["error"]
    known = error["hint"].removeprefix("known: ").split(", ")
    assert (error["code"], error["where"]) == ("not-known", None)
    assert len(known) == len({*known}) > 1


@pytest.mark.parametrize(("words", "code"), [("list >&-", 0), ("list --json >&-", 0), ("list nope 2>&-", 2)])
def test_a_stream_that_is_closed_is_not_missed(words: str, code: int, tmp_path: Path) -> None:
    line = f"exec {sys.executable} -m torchsmith {words}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["list", "list --json", "--version", "list -p wide"])
def test_a_full_disk_is_said_of_standard_output(words: str, tmp_path: Path) -> None:
    line = f"exec {sys.executable} -m torchsmith {words} > /dev/full"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "error: standard output: No space left on device\n")


@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-"])
def test_an_error_that_cannot_be_printed_keeps_its_exit_code(stream: str, tmp_path: Path) -> None:
    line = f"exec {sys.executable} -m torchsmith pikc {stream}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 2


def test_symbols_that_a_stream_cannot_hold_are_ascii(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    called = [sys.executable, "-m", "torchsmith", "list"]
    done = subprocess.run(called, cwd=tmp_path, env=env, capture_output=True, check=True)
    legend = b"* in every package  ! warning, see below  . not in the matrix\n"
    assert legend in done.stdout
    assert b"?" not in done.stdout


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("--verson",), "--version"), (("line", "--hepl"), "--help"), (("list", "--hepl"), "--help")],
)
def test_an_option_of_every_verb_is_suggested(words: tuple[str, ...], meant: str, call: Call) -> None:
    told = call(*words)
    assert (told.code, told.error) == (2, "usage")
    assert f"did you mean {meant}?" in told.err


def test_zero_columns_means_that_the_width_is_unknown(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.delenv("COLUMNS")
    commands = [("show", "nix"), ("line", "list"), ("pick", "--help")]
    usual = [call(*words) for words in commands]
    for words, told in zip(commands, usual, strict=True):
        monkeypatch.setenv("COLUMNS", "0")
        assert call(*words) == told


def test_a_row_names_no_product_that_its_builds_do_not_run_on(call: Call) -> None:
    rows = json.loads(call("list", "-p", "wide", "sm90", "--json").out)["cells"]
    named = {row["system"]: "GH200" in row["gpu"] for row in rows}
    assert named == {"x86_64-linux": False, "aarch64-linux": True}


def test_lines_are_listed_newest_first(call: Call) -> None:
    torch = [row["torch"] for row in json.loads(call("line", "list", "--json").out)["lines"] if row["torch"]]
    assert torch == sorted(torch, key=version_key, reverse=True)


def test_builders_are_checked_where_nothing_is_to_be_built(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("torchsmith.toml").write_text("format = 1\n")
    monkeypatch.setenv("NIX_CONFIG", "builders =")
    result = call("doctor", "--builders")
    assert (result.code, result.out) == (0, "")


def test_a_word_that_is_no_path_is_not_only_called_a_selector(call: Call, tmp_path: Path) -> None:
    toml = 'format = 1\ninclude = ["pytorch-python313-cpu-avx2"]\n'
    (tmp_path / "torchsmith.toml").write_text(toml)
    assert call("apply", cwd=tmp_path).code == 0
    refused = call("audit", "nowhere")
    assert (refused.error, "no such path" in refused.err) == ("not-known", True)


def test_nothing_is_proposed_for_files_that_do_not_concern_torch(call: Call, tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text("format = 1\n")
    (tmp_path / "shell.nix").write_text("{ pkgs }: pkgs.hello\n")
    judged = call("audit", "shell.nix", cwd=tmp_path)
    assert (judged.code, "next:" in judged.err) == (0, False)


def test_the_commands_that_learn_a_line_s_hashes_work_as_typed(call: Call, tmp_path: Path) -> None:
    def command(*options: str) -> str:
        rows = json.loads(call("line", "list", "--json", *options, cwd=tmp_path).out)["lines"]
        return str(next(row["next"] for row in rows if row["name"] == "2.11"))

    steps = [step.split()[1:] for step in command().split(" && ")]
    assert [step[0] for step in steps] == ["init", "apply", "fix-hashes"]
    for step in steps[:2]:
        assert call(*step).code == 0
    assert list(tmp_path.glob("mine-2.11/build-pytorch/.flox/pkgs/pytorch211-*.nix"))
    # Once the workspace has cells of the line, its own hashes are what is missing.
    assert command("-w", "mine-2.11") == "torchsmith fix-hashes -w mine-2.11"


def test_packages_list_their_releases_in_order(call: Call) -> None:
    rows = json.loads(call("package", "list", "--json").out)["packages"]
    releases = [list(row["releases"].values()) for row in rows if row["name"] == "pytorch"]
    assert releases == [sorted(releases[0], key=version_key, reverse=True)]


@pytest.mark.parametrize("ignored", [True, False])
def test_an_interrupt_that_the_caller_ignores_stays_ignored(ignored: bool) -> None:
    """A shell without job control starts what runs in the background so."""
    program = (
        "import signal\nfrom torchsmith.cli.main import handle_interrupts\nhandle_interrupts()\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)\n"
        "print(signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM))\n"
    )
    begin = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" if ignored else ""
    done = subprocess.run([sys.executable, "-c", begin + program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [str(ignored), str(not ignored)], done.stderr


def test_an_interrupt_waits_for_the_end_of_an_import(tmp_path: Path) -> None:
    """Python can lose one that comes in between, and keep the lock of its imports."""
    module = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\ndone = True\n"
    (tmp_path / "interrupted.py").write_text(module)
    program = (
        "import time\nfrom torchsmith.cli.main import handle_interrupts\nhandle_interrupts()\n"
        "try:\n    import interrupted\n    time.sleep(30)\n"
        "except KeyboardInterrupt:\n    print(interrupted.done)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("plan", "w"), "'w' is one argument too many", "-w w names a workspace"),
        (("line", "ad"), "torchsmith line has no verb 'ad'", "did you mean add?"),
        (("plan", "-w", "w", "-p", "reel"), "error: unknown profile 'reel'", "did you mean real?"),
        (("plan", "-w", "x"), "no such file: x", "torchsmith init x writes one"),
        (("line", "update", "2.8", "-w", "w"), "no build of this workspace is of line 2.8", "are of 2.10"),
        (("package", "add", "new", "-w", "w", "--nixpkgs", "x"), "--nixpkgs: no such folder: x", "a folder"),
        (
            ("line", "update", "2.10", "--torch", "2.10.1", "--pair", "torchvison=1.2", "-w", "w"),
            "unknown package 'torchvison'",
            "did you mean torchvision?",
        ),
    ],
)
def test_a_wrong_word_is_named_with_what_to_do(
    words: tuple[str, ...],
    message: str,
    hint: str,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("init", "w").code == 0
    refused = call(*words)
    assert refused.code == 2
    first, second = refused.err.splitlines()
    assert message in first
    assert hint in second
    assert ("torchsmith.toml" in first) is False
