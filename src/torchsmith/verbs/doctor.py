"""`torchsmith doctor`: what works on this machine and on its builders, and how to fix the rest."""

from __future__ import annotations

import grp
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec

from torchsmith.building.farm import BuilderRow, check_builder, configured
from torchsmith.cli.console import Painted, answer, columns, exit_if, next_step, paint, write, write_stderr
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.request import Option, Request
from torchsmith.core import process
from torchsmith.core.git import git as run_git
from torchsmith.core.problem import Problem
from torchsmith.core.process import Finished, find
from torchsmith.core.state import abandoned_states, state_folder
from torchsmith.core.text import counted
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith doctor"
Health = Literal["works", "warning", "broken", "missing"]
TIMEOUT_SECONDS = 10.0
NIX_HINT = "https://nixos.org/download, or on Debian: apt-get install nix-bin"


STYLES = {"works": "green", "warning": "yellow", "broken": "red", "missing": "dim"}
WORDS = {"broken": "does not work"}


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(Request):
    """The workspace whose requirements are checked; with `builders` its builders instead of this machine."""

    workspace: WorkspaceOption = None
    builders: Annotated[
        bool, Option("Test each builder of torchsmith.toml or nix.conf instead of this machine.")
    ] = False


class HealthCheck(msgspec.Struct, frozen=True):
    """One thing, whether it works, what was found, and what to do about it."""

    name: str
    health: Health
    found: str
    todo: str = ""


class DoctorReport(msgspec.Struct, frozen=True):
    """The checks, in the order in which things are needed; with --builders the builders."""

    FORMAT: ClassVar = 3
    checks: Sequence[HealthCheck] = ()
    builders: Sequence[BuilderRow] = ()

    @property
    def ok(self) -> bool:
        working = all(check.health != "broken" for check in self.checks)
        return working and all(builder.ok for builder in self.builders)


def doctor(request: DoctorRequest = DoctorRequest()) -> DoctorReport:
    """Check everything that torchsmith uses, or with `builders` each builder. Nothing is changed."""
    opened = open_workspace(request.workspace)
    if not request.builders:
        return DoctorReport(checks=list(examine(opened)))
    builders = configured(opened.settings.builder, _builders_setting())
    with ThreadPoolExecutor(8) as pool:
        return DoctorReport(builders=list(pool.map(lambda one: check_builder(one, opened.catalog), builders)))


def run(*, request: DoctorRequest, json: JsonOption = False) -> None:
    """Check Python, git, Nix, Flox, disk, memory and GPU, and say how to fix what does not work.

    Nothing is changed, and every check ends within ten seconds. A missing program is
    not a failure. The exit code is 1 when something that is installed does not work. [bold]doctor
    --builders[/bold] tests each builder instead: whether it answers, its system, features, free disk, and the
    instruction sets of its CPU; the exit code is 1 when one has a problem.
    """
    report = doctor(request)
    answer(report, _print_builders if report.builders or request.builders else _print_checks, as_json=json)
    exit_if(not report.ok)
    here = open_workspace(request.workspace).root is not None
    next_step("list" if here else "pick", workspace=request.workspace)


def _print_checks(report: DoctorReport) -> None:
    rows: list[list[Painted]] = []
    for check in report.checks:
        todo = f"; {check.todo}" if check.todo and check.health != "works" else ""
        rows.append(
            [
                check.name,
                (WORDS.get(check.health, check.health), STYLES[check.health]),
                f"{check.found}{todo}",
            ]
        )
    columns(rows, ("bold",))


def _print_builders(report: DoctorReport) -> None:
    """A line for each builder, and a line for each fault."""
    if not report.builders:
        write_stderr("no builder is configured: Nix builds on this machine alone")
    for row in report.builders:
        mark = paint("✓ ", "green") if row.ok else paint("✗ ", "bold red")
        facts = ""
        if row.system:
            runs = ", ".join(row.isas) or "no instruction set of the catalog"
            facts = f"  {row.system}, {row.free_gb:.0f} GB free, {row.memory_gb:.0f} GB memory, runs {runs}"
        write(mark + row.builder + paint(facts, "dim"))
        for fault in row.faults:
            write(f"    {fault}", "red")


def examine(workspace: Workspace) -> Iterator[HealthCheck]:
    """All checks; one that fails in itself is a finding, not an end."""
    checks: dict[str, Iterator[HealthCheck]] = {
        "Python": _python(),
        "git": _git(),
        "Nix": _nix(workspace),
        "nixpkgs": _pins(workspace),
        "Flox": _flox(),
        "disk and memory": _room(workspace),
        "builders": _builders(workspace),
        "GPU": _gpu(workspace),
        "workspace": _workspace(workspace),
        "state": _state(workspace),
    }
    for name, check in checks.items():
        try:
            yield from check
        except Problem as problem:
            yield HealthCheck(name, "broken", problem.message, problem.hint)
        except OSError as error:
            yield HealthCheck(name, "broken", error.strerror or str(error))


def _output(done: Finished) -> str:
    if done.timed_out:
        return "it did not answer in time"
    return (done.stdout or done.stderr).strip().split("\n")[0] or f"exit code {done.code}"


def _good(name: str, good: bool, detail: str, todo: str, otherwise: Health = "warning") -> HealthCheck:
    """A check that holds, or else what to do."""
    return HealthCheck(name, "works", detail) if good else HealthCheck(name, otherwise, detail, todo)


def _python() -> Iterator[HealthCheck]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield HealthCheck("Python", "works", f"{version}, {sys.executable}")


def _program(word: str, title: str, absent: Health, todo: str) -> HealthCheck:
    """Whether a program is installed and prints its version."""
    if find(word) is None:
        return HealthCheck(title, absent, "not installed", todo)
    done = process.run((word, "--version"), timeout=TIMEOUT_SECONDS)
    return HealthCheck(title, "works" if done.ok else "broken", _output(done))


def _git() -> Iterator[HealthCheck]:
    todo = "install git: Flox only sees files that git tracks"
    git = _program("git", "git", "broken", todo)
    yield git
    if git.health != "works":
        return
    author = os.environ.get("GIT_AUTHOR_NAME")
    here = Path.cwd()
    name = author or _output(run_git(here, "config", "user.name", timeout=TIMEOUT_SECONDS))
    known = bool(author) or run_git(here, "config", "user.email", timeout=TIMEOUT_SECONDS).ok
    todo = "git config --global user.name 'Your Name' and user.email: apply --commit needs it"
    yield _good("git identity", known, name if known else "none is set", todo)


def _nix(workspace: Workspace) -> Iterator[HealthCheck]:
    from torchsmith.nix.tool import find_nix

    if find("nix-instantiate") is None:
        todo = f"{NIX_HINT}; without it list, show, pick, audit and plan still work"
        yield HealthCheck("Nix", "missing", "not installed", todo)
        return
    nix = find_nix()
    yield HealthCheck("Nix", "works", f"{nix.version_text}, {nix.program}")
    done = nix.run(nix.command("nix-instantiate", "--eval", "-E", "1 + 1"), timeout=TIMEOUT_SECONDS)
    if not done.ok:
        yield HealthCheck("Nix evaluation", "broken", _output(done), "torchsmith eval needs it")
    if nix.store:
        todo = "add yourself to the group nix-users, or start nix-daemon, to share the machine's store"
        yield HealthCheck("Nix store", "warning", f"one of our own, {nix.store}", todo)
    else:
        store = os.environ.get("NIX_STORE_DIR", "/nix/store")
        daemon = os.access("/nix/var/nix/daemon-socket/socket", os.W_OK) and store == "/nix/store"
        yield HealthCheck("Nix store", "works", f"{store}, {'with' if daemon else 'without'} a daemon")
    yield from _nix_settings(workspace, nix.show_config(TIMEOUT_SECONDS))


def _nix_settings(workspace: Workspace, done: Finished) -> Iterator[HealthCheck]:
    from torchsmith.nix.tool import read_settings

    try:
        value = read_settings(done.stdout)
    except msgspec.DecodeError:
        yield HealthCheck("Nix settings", "broken", _output(done))
        return
    own = os.environ.get("NIX_CONF_DIR")
    off = f"off, by {own}/nix.conf" if own else "off"
    todo = "sandbox = true in nix.conf, or builds depend on what is installed on this machine"
    yield _good("Nix sandbox", bool(value.get("sandbox")), "on" if value.get("sandbox") else off, todo)
    features = [str(feature) for feature in value.get("system-features") or ()]
    todo = "system-features = big-parallel ... in nix.conf; torch requires it"
    listed = ", ".join(features) or "none"
    yield _good("Nix features", "big-parallel" in features, listed, todo, "broken")
    yield from _ccache(workspace.settings.ccache, value)


def _ccache(folder: str, settings: Mapping[str, object]) -> Iterator[HealthCheck]:
    """The compile cache of torch: its folder, who may write there, and whether builds see it."""
    if not folder:
        return
    group = str(settings.get("build-users-group") or "")
    if not os.path.isdir(folder):
        todo = f"mkdir -m 2770 {folder} && chgrp {group or 'nixbld'} {folder}, on every machine that builds"
        yield HealthCheck("ccache", "broken", f"{folder} is not a folder here", todo)
        return
    state = os.stat(folder)
    try:
        owner = grp.getgrgid(state.st_gid).gr_name
    except KeyError:
        owner = str(state.st_gid)
    everybody, members = state.st_mode & 0o003 == 0o003, state.st_mode & 0o030 == 0o030
    writable = everybody or (owner == group and members) if group else os.access(folder, os.W_OK)
    todo = f"chgrp {group} {folder} && chmod 2770 {folder}: builds run as members of that group"
    detail = f"{folder}, group {owner}, mode {state.st_mode & 0o7777:o}"
    yield _good("ccache", writable, detail, todo, "broken")
    paths = settings.get("sandbox-paths")
    known = [str(path).partition("=")[0].rstrip("?") for path in paths] if isinstance(paths, list) else []
    if not settings.get("sandbox"):
        todo = "sandbox = true in nix.conf: else each build has its own folder, and CUDA finds nothing"
        yield HealthCheck("ccache in builds", "warning", "without a sandbox", todo)
    else:
        todo = f"extra-sandbox-paths = {folder} in nix.conf: builds do not see it"
        detail = "in the sandbox" if folder in known else "not in the sandbox"
        yield _good("ccache in builds", folder in known, detail, todo, "broken")


def _pins(workspace: Workspace) -> Iterator[HealthCheck]:
    """Whether the nixpkgs of a build can be fetched: only its address is asked."""
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    from torchsmith.nix.fetch import nixpkgs_address

    builds = (
        workspace.catalog.lines[cell.line].build_for(cell.variant.toolkit) for cell in workspace.matrix.cells
    )
    pin = next((workspace.catalog.pins[build.pin] for build in builds if build is not None), None)
    if pin is None or os.environ.get("TORCHSMITH_NIXPKGS"):
        return
    address = nixpkgs_address(pin.rev)
    todo = "give --nixpkgs TREE or set TORCHSMITH_NIXPKGS; evaluation needs it unless the store has it"
    try:
        with urlopen(Request(address, method="HEAD"), timeout=TIMEOUT_SECONDS):
            yield HealthCheck("nixpkgs", "works", f"{address} can be fetched")
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        yield HealthCheck("nixpkgs", "warning", f"{address} cannot be fetched: {reason}", todo)


def _flox() -> Iterator[HealthCheck]:
    todo = "https://flox.dev/docs, to publish and install; building works with Nix alone"
    yield _program("flox", "Flox", "missing", todo)


def _room(workspace: Workspace) -> Iterator[HealthCheck]:
    from torchsmith.building.plan import this_machine
    from torchsmith.core.cores import builds_at_once

    machine = this_machine()
    cores = machine.cores // builds_at_once(machine.cores)
    catalog = workspace.catalog
    torch = [estimate for estimate in catalog.estimates.values() if estimate.package == catalog.torch.name]
    memory = max((estimate.memory_gb(cores) for estimate in torch), default=0.0)
    disk = max((estimate.build_gb + estimate.store_gb for estimate in torch), default=0.0)
    detail = f"{machine.memory_gb:.0f} GiB, {machine.cores} cores"
    todo = f"a torch build on {cores} cores takes {memory:.0f} GiB or so: fewer cores, or a builder"
    yield _good("memory", machine.memory_gb >= memory, detail, todo)
    free = min(machine.store_gb, machine.scratch_gb)
    todo = f"a torch build takes {disk:.0f} GiB or so"
    yield _good("disk", free >= disk, f"{free:.0f} GiB free for the store and builds", todo)


def _builders_setting() -> str:
    """Nix's own list of builders; none without Nix."""
    from torchsmith.nix.tool import find_nix, settings_of

    return settings_of(find_nix()).builders if find("nix-instantiate") else ""


def _builders(workspace: Workspace) -> Iterator[HealthCheck]:
    builders = configured(workspace.settings.builder, _builders_setting())
    detail = ", ".join(builder.address for builder in builders) or "none: Nix builds on this machine only"
    todo = "torchsmith doctor --builders tests each" if builders else ""
    yield HealthCheck("builders", "works", detail, todo)


def _gpu(workspace: Workspace) -> Iterator[HealthCheck]:
    from torchsmith.host.facts import HostFacts
    from torchsmith.host.resolve import capability_of, known_isas
    from torchsmith.host.stated import gather

    facts = gather((), HostFacts(), workspace.catalog, TIMEOUT_SECONDS)
    host = capability_of(facts)
    isas = known_isas(host.features, host.system, workspace.catalog) if host.features is not None else ()
    todo = "no build of this matrix runs here"
    yield _good("CPU", bool(isas), ", ".join(isas) or "unknown", todo, "broken")
    if facts.gpus is None or not facts.gpus.value:
        todo = "not needed to write recipes, build or verify; test uses a GPU if there is one"
        yield HealthCheck("GPU", "missing", "no NVIDIA GPU", todo)
        return
    names = ", ".join(dict.fromkeys(gpu.label for gpu in facts.gpus.value))
    if host.driver is None:
        yield HealthCheck("GPU", "broken", f"{names}, no driver", "install NVIDIA's driver")
    else:
        yield HealthCheck("GPU", "works", f"{names}, driver {host.driver}", "torchsmith pick names its build")


def _workspace(workspace: Workspace) -> Iterator[HealthCheck]:
    if workspace.root is None:
        yield HealthCheck("workspace", "missing", "no torchsmith.toml here or above", "torchsmith init")
        return
    detail = f"{workspace.source.name}, {counted(len(workspace.matrix.cells), 'build')}"
    yield HealthCheck("workspace", "works", detail)


def _state(workspace: Workspace) -> Iterator[HealthCheck]:
    if workspace.root is None:
        return
    yield HealthCheck("state", "works", str(state_folder(workspace.root)))
    if abandoned := abandoned_states():
        found = f"{counted(len(abandoned), 'workspace')} moved or deleted; results stay in the store"
        todo = f"rm -r {shlex.join(map(str, abandoned))}"
        yield HealthCheck("old state", "warning", found, todo)
