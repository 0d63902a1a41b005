"""Builders: what each can build, by Nix's settings and by its CPU's instruction sets; and checking them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from torchsmith.building.job import Job
from torchsmith.catalog import TORCH, Catalog
from torchsmith.core.files import read_text
from torchsmith.core.problem import Invalid, MissingRequirement, Where
from torchsmith.core.process import Finished, run
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.host.read_cpu import read_cpuinfo
from torchsmith.host.resolve import known_isas
from torchsmith.record.estimate import estimate_row
from torchsmith.workspace.settings import BuilderSettings

SETTING = "builders of nix.conf"
LOCAL = ""  # this machine's address
SSH_SECONDS = 20.0
MOST_DIGITS = 15  # of a number in a machine's answer
MOST_ANSWER_BYTES = 1 << 20  # a machine with a thousand cores needs less
# All questions in one connection; each answer begins with a mark.
QUESTIONS = {
    "machine": "uname -sm",
    "nix": "nix-store --version",
    "disk": 'd=${NIX_STORE_DIR:-/nix/store}; [ -d "$d" ] || d=/; df -Pk "$d" | tail -1',
    "memory": "grep MemTotal /proc/meminfo",
    "features": "nix --extra-experimental-features nix-command show-config 2>/dev/null"
    " | grep -E '^(system-features|extra-platforms) ='",
    "cpu": "cat /proc/cpuinfo",
}
MARK = "==torchsmith=="


@dataclass(frozen=True, slots=True)
class Builder:
    """A machine that Nix may build on; an empty address is this one."""

    address: str
    systems: frozenset[str]
    max_jobs: int = 1
    speed: float = 1.0
    features: frozenset[str] = frozenset()
    mandatory: frozenset[str] = frozenset()
    isas: frozenset[str] | None = None  # None: not stated and not queried yet
    ssh_key: str = ""
    host_key: str = ""

    @property
    def name(self) -> str:
        return self.address or "this machine"

    @property
    def line(self) -> str:
        """As Nix' list of machines spells it."""
        fields = [
            self.address,
            ",".join(sorted(self.systems)),
            self.ssh_key,
            str(self.max_jobs),
            f"{self.speed:g}" if self.speed >= 1 else "1",
            ",".join(sorted(self.features)),
            ",".join(sorted(self.mandatory)),
            self.host_key,
        ]
        return " ".join(field or "-" for field in fields)

    def refusal(self, job: Job) -> str:
        """Why this machine cannot build a job; empty if it can."""
        if job.system not in self.systems:
            return f"does not build for {job.system}"
        offered = self.features | self.mandatory
        if missing := sorted(job.features - offered):
            return f"lacks the feature {', '.join(missing)}"
        if self.mandatory - job.features:
            return f"builds only what needs {', '.join(sorted(self.mandatory))}"
        if job.isa and self.isas is not None and job.isa not in self.isas:
            runs = ", ".join(sorted(self.isas)) or "none of the catalog's instruction sets"
            return f"cannot run {job.isa} (it runs {runs}), and the import check runs there"
        return ""


def checked_address(address: str, where: Where | None = None) -> str:
    """A full ssh address. Raises Invalid for an option in disguise, or without host or port."""
    full = address if "://" in address else f"ssh://{address}"
    target = full.partition("://")[2]
    try:
        parts = urlsplit(full)
        wrong = "" if parts.hostname and parts.port != 0 else " names no host"
        if target.startswith("-") or (parts.hostname or "").startswith("-"):
            wrong = " begins with a dash, which ssh would take for an option"
    except ValueError as error:
        wrong = f": {error}"
    if wrong:
        raise Invalid(f"builder address {address}{wrong}", hint="ssh://USER@HOST:PORT", where=where)
    return full


def able(builders: Iterable[Builder], job: Job) -> list[Builder]:
    """The builders that can build a job."""
    return [builder for builder in builders if not builder.refusal(job)]


def refusals(builders: Sequence[Builder], jobs: Iterable[Job]) -> dict[str, str]:
    """Jobs that no builder can build, each with the reason of every builder."""
    refused: dict[str, str] = {}
    for job in jobs:
        if not able(builders, job):
            reasons = [f"{builder.name} {builder.refusal(job)}" for builder in builders]
            refused[job.name] = "; ".join(reasons) or "there is no builder"
    return refused


def machines_option(builders: Iterable[Builder]) -> str:
    """The value of Nix' `builders` setting; this machine is not in it."""
    return " ; ".join(builder.line for builder in builders if builder.address)


def from_settings(rows: Iterable[BuilderSettings]) -> list[Builder]:
    """The builders that torchsmith.toml names."""
    return [
        Builder(
            checked_address(row.address),
            frozenset(row.systems),
            row.max_jobs,
            row.speed,
            frozenset(row.features),
            isas=frozenset(row.isa) if row.isa is not None else None,
            ssh_key=row.ssh_key,
        )
        for row in rows
    ]


def read_machines(text: str, file: str) -> list[Builder]:
    """Nix' own list of machines, line by line; `@FILE` in its setting is a file with such lines."""
    builders: list[Builder] = []
    for number, line in enumerate(text.splitlines(), 1):
        for fields in map(str.split, line.partition("#")[0].split(";")):
            if fields and not fields[0].startswith("@"):
                builders.append(_machine(fields, Where(file, number)))
            elif fields and file == SETTING and (named := Path(fields[0][1:])).is_file():
                builders += read_machines(read_text(named), str(named))
    return builders


def _machine(fields: Sequence[str], where: Where) -> Builder:
    padded = [*("" if word == "-" else word for word in fields), *[""] * 8]
    address, systems, key, jobs, speed, features, mandatory, host_key = padded[:8]
    if not systems:
        hint = "the second word, such as x86_64-linux"
        raise Invalid(f"builder {address} names no system", hint=hint, where=where)
    if not re.fullmatch(r"\d*", jobs) or not re.fullmatch(r"\d*(\.\d+)?", speed):
        raise Invalid(f"builder {address}: jobs and speed must be numbers", where=where)
    return Builder(
        checked_address(address, where),
        frozenset(systems.split(",")),
        int(jobs or 1),
        float(speed or 1),
        frozenset(filter(None, features.split(","))),
        frozenset(filter(None, mandatory.split(","))),
        ssh_key=key,
        host_key=host_key,
    )


def configured(rows: Sequence[BuilderSettings], setting: str) -> list[Builder]:
    """Builders of torchsmith.toml; without any, those of Nix's setting `builders`."""
    return from_settings(rows) if rows else read_machines(setting, SETTING)


def require_able(builders: Sequence[Builder], jobs: Sequence[Job]) -> None:
    """Raise MissingRequirement if jobs have no capable builder: their recipes, why, and which selectors
    leave them out."""
    refused = refusals(builders, jobs)
    if not refused:
        return
    lines = []
    for why, alike in grouped((refused[job.name], job) for job in jobs if job.name in refused).items():
        recipes = [name for job in alike for name in job.recipes]
        lines.append(f"{why}: {some_of(recipes or [job.name for job in alike], 3)}")
    isas = {job.isa for job in jobs if job.name in refused and job.isa}
    hint = "add a [[builder]] to torchsmith.toml that can"
    if isas and any(job.recipes and job.name not in refused and job.isa not in isas for job in jobs):
        hint += f", or leave them out: {shlex.join(f'!{isa}' for isa in sorted(isas))}"
    message = f"no builder can build {len(refused)} of {counted(len(jobs), 'job')}"
    raise MissingRequirement("\n  ".join([message, *lines]), hint=hint)


class BuilderRow(msgspec.Struct, frozen=True):
    """A builder as it answered, and its faults."""

    builder: str
    ok: bool
    faults: tuple[str, ...]
    system: str = ""
    nix: str = ""
    free_gb: float = 0.0
    memory_gb: float = 0.0
    isas: tuple[str, ...] = ()


def ssh_command(builder: Builder, remote: str) -> list[str]:
    """ssh as Nix calls it: without questions, with NIX_SSHOPTS and the builder's key."""
    parts = urlsplit(builder.address)
    host = f"{parts.username}@{parts.hostname}" if parts.username else (parts.hostname or builder.address)
    port = ["-p", str(parts.port)] if parts.port else []
    key = ["-i", builder.ssh_key] if builder.ssh_key else []
    more = shlex.split(os.environ.get("NIX_SSHOPTS", ""))
    return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *more, *port, *key, "--", host, remote]


def ask(builder: Builder, only: Iterable[str] = QUESTIONS) -> tuple[dict[str, str], str]:
    """A builder's answers by question; or none, and why."""
    script = "; ".join(f"echo {MARK}{name}; {QUESTIONS[name]}" for name in only)
    argv = ssh_command(builder, script) if builder.address else ["sh", "-c", script]
    done = run(argv, timeout=SSH_SECONDS, max_bytes=MOST_ANSWER_BYTES)
    if MARK not in done.stdout:
        return {}, _unreachable(done)
    parts = (part.partition("\n") for part in done.stdout.split(MARK)[1:])
    return {name.strip(): text for name, _, text in parts}, ""


def _unreachable(done: Finished) -> str:
    """Why ssh did not get through."""
    if done.timed_out:
        return "did not answer in time"
    output = done.stderr.strip()
    return f"cannot be reached: {output.splitlines()[-1] if output else f'ssh ended with {done.code}'}"


def check_builder(builder: Builder, catalog: Catalog) -> BuilderRow:
    """Ask a builder everything, and compare its answers with its settings."""
    answers, why = ask(builder)
    if why:
        return BuilderRow(builder.name, False, (why,))
    system = _system(answers)
    nix = answers.get("nix", "").strip()
    free = _gib(r"^\S+\s+\d+\s+\d+\s+(\d+)\s", answers.get("disk", ""))
    memory = _gib(r"(\d+) kB", answers.get("memory", ""))
    runs = isas_of(answers.get("cpu", ""), catalog, system)
    systems = {system, *_setting(answers.get("features", ""), "extra-platforms")}
    torch = estimate_row(catalog, TORCH, gpu=True)
    needed_gb = torch.build_gb + torch.store_gb
    faults = tuple(_faults(builder, systems, nix, free, needed_gb, answers.get("features", ""), runs))
    isas = tuple(sorted(runs))
    return BuilderRow(builder.name, not faults, faults, system, nix, free, memory, isas)


def _faults(
    builder: Builder,
    systems: set[str],
    nix: str,
    free: float,
    needed_gb: float,
    settings: str,
    runs: frozenset[str],
) -> Iterator[str]:
    if not nix:
        yield "has no Nix on the PATH that ssh sees"
    if foreign := sorted(builder.systems - systems):
        yield f"is configured to build {', '.join(foreign)}, but is {', '.join(sorted(systems))}"
    offered = _setting(settings, "system-features")
    missing = sorted((builder.features | builder.mandatory) - offered) if offered else []
    if missing:
        yield f"does not offer {', '.join(missing)}: add it to system-features in its nix.conf"
    if free < needed_gb:
        yield f"has {free:.0f} GB free in its store; a torch build needs {needed_gb:.0f} GB"
    unable = sorted((builder.isas or frozenset()) - runs) if runs else []
    if unable:
        yield f"is configured to run {', '.join(unable)}, but its CPU does not"


def _setting(text: str, name: str) -> frozenset[str]:
    match = re.search(rf"^{name} = (.*)$", text, re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()


def _gib(kilobytes: str, text: str) -> float:
    """A figure of an answer; 0 if it has none."""
    match = re.search(kilobytes, text)
    return int(match[1][:MOST_DIGITS]) / (1 << 20) if match else 0.0


def isas_of(cpuinfo: str, catalog: Catalog, system: str) -> frozenset[str]:
    """The instruction sets that the CPU of a /proc/cpuinfo runs; of two kinds of cores, what both have."""
    features = read_cpuinfo(cpuinfo).features
    return frozenset(known_isas(features.value if features else None, system, catalog))


def ask_isas(builder: Builder, catalog: Catalog) -> frozenset[str] | None:
    """The instruction sets of a builder; None if it does not answer."""
    answers, _ = ask(builder, only=("machine", "cpu"))
    return isas_of(answers.get("cpu", ""), catalog, _system(answers)) or None


def _system(answers: Mapping[str, str]) -> str:
    """As Nix writes it: x86_64-linux."""
    kernel, _, machine = answers.get("machine", "").strip().rpartition(" ")
    return f"{'aarch64' if machine == 'arm64' else machine}-{(kernel or 'Linux').lower()}"
