"""Trying builders: reachable, their system, features, disk, and the instruction sets that their CPU runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from torchsmith.build.farm import Builder
from torchsmith.catalog import Catalog
from torchsmith.catalog.runs import isa_runs
from torchsmith.edge.process import Finished, run

TIMEOUT = 20.0
ROOMY_GB = 25.0  # a torch build and its outputs
# One connection answers everything; sections are told apart by their marks.
QUESTIONS = {
    "machine": "uname -m",
    "nix": "nix-store --version",
    "disk": 'd=${NIX_STORE_DIR:-/nix/store}; [ -d "$d" ] || d=/; df -Pk "$d" | tail -1',
    "memory": "grep MemTotal /proc/meminfo",
    "features": "nix --extra-experimental-features nix-command show-config 2>/dev/null"
    " | grep -E '^(system-features|extra-platforms) ='",
    "cpu": "cat /proc/cpuinfo",
}
MARK = "==torchsmith=="
# What ssh says, and what that means.
UNREACHABLE = {
    "Permission denied": "refuses our key: put the public key into its authorized_keys",
    "Host key verification failed": "its host key is not known here: connect once with ssh and check it",
    "Could not resolve hostname": "its name is not known",
    "Connection refused": "nothing listens there: is sshd running?",
    "Connection timed out": "cannot be reached",
    "No route to host": "cannot be reached",
}
Ask = Callable[[Sequence[str]], Finished]


class BuilderRow(msgspec.Struct, frozen=True):
    """A builder as it answered, and what is wrong with it in words."""

    builder: str
    ok: bool
    faults: tuple[str, ...]
    system: str = ""
    nix: str = ""
    free_gb: float = 0.0
    memory_gb: float = 0.0
    isas: tuple[str, ...] = ()


def ssh_command(builder: Builder, remote: str, env: Mapping[str, str] | None = None) -> list[str]:
    """ssh as Nix calls it: without questions, with NIX_SSHOPTS and the builder's key."""
    known = os.environ if env is None else env
    parts = urlsplit(builder.address)
    host = f"{parts.username}@{parts.hostname}" if parts.username else (parts.hostname or builder.address)
    port = ["-p", str(parts.port)] if parts.port else []
    key = ["-i", builder.ssh_key] if builder.ssh_key else []
    more = shlex.split(known.get("NIX_SSHOPTS", ""))
    return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *more, *port, *key, "--", host, remote]


def _ask(argv: Sequence[str]) -> Finished:
    return run(argv, timeout=TIMEOUT)


def ask(builder: Builder, ask: Ask = _ask, only: Iterable[str] = QUESTIONS) -> tuple[dict[str, str], str]:
    """A builder's answers by question, and why there are none."""
    script = "; ".join(f"echo {MARK}{name}; {QUESTIONS[name]}" for name in only)
    argv = ssh_command(builder, script) if builder.address else ["sh", "-c", script]
    done = ask(argv)
    if MARK not in done.stdout:
        return {}, _unreachable(done)
    answers = {}
    for part in done.stdout.split(MARK)[1:]:
        name, _, text = part.partition("\n")
        answers[name.strip()] = text
    return answers, ""


def _unreachable(done: Finished) -> str:
    """Why ssh did not get through, in words."""
    if done.timed_out:
        return "did not answer in time"
    said = done.stderr.strip()
    found = next((words for sign, words in UNREACHABLE.items() if sign in said), "")
    return found or f"cannot be reached: {said.splitlines()[-1] if said else f'ssh ended with {done.code}'}"


def check_builder(builder: Builder, catalog: Catalog, question: Ask = _ask) -> BuilderRow:
    """Try one builder."""
    answers, why = ask(builder, question)
    if why:
        return BuilderRow(builder.name, False, (why,))
    machine = answers.get("machine", "").strip()
    nix = answers.get("nix", "").strip()
    free, memory = _free_gb(answers.get("disk", "")), _memory_gb(answers.get("memory", ""))
    runs = isas_of(answers.get("cpu", ""), catalog, f"{machine}-linux")
    systems = {f"{machine}-linux", *_setting(answers.get("features", ""), "extra-platforms")}
    faults = tuple(_faults(builder, systems, nix, free, answers.get("features", ""), runs))
    isas = tuple(sorted(runs))
    return BuilderRow(builder.name, not faults, faults, f"{machine}-linux", nix, free, memory, isas)


def _faults(
    builder: Builder, systems: set[str], nix: str, free: float, settings: str, runs: frozenset[str]
) -> Iterator[str]:
    if not nix:
        yield "has no Nix on the PATH that ssh sees"
    foreign = sorted(builder.systems - systems)
    if foreign:
        yield f"is said to build {', '.join(foreign)}, but is {', '.join(sorted(systems))}"
    offered = _setting(settings, "system-features")
    missing = sorted((builder.features | builder.mandatory) - offered) if offered else []
    if missing:
        yield f"does not offer {', '.join(missing)}: add it to system-features in its nix.conf"
    if free < ROOMY_GB:
        yield f"has {free:.0f} GB free where its store is; a torch build wants {ROOMY_GB:.0f} GB"
    unable = sorted((builder.isas or frozenset()) - runs) if runs else []
    if unable:
        yield f"is said to run {', '.join(unable)}, but its CPU does not"


def _setting(text: str, name: str) -> frozenset[str]:
    found = re.search(rf"^{name} = (.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def _free_gb(text: str) -> float:
    words = text.split()
    return int(words[3]) / (1 << 20) if len(words) > 3 and words[3].isdigit() else 0.0


def _memory_gb(text: str) -> float:
    found = re.search(r"(\d+) kB", text)
    return int(found[1]) / (1 << 20) if found else 0.0


def isas_of(cpuinfo: str, catalog: Catalog, system: str) -> frozenset[str]:
    """The instruction sets that the CPU of a /proc/cpuinfo runs; of two kinds of cores, what both have."""
    lines = re.findall(r"^(?:flags|Features)\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    if not lines:
        return frozenset()
    features = frozenset.intersection(*(frozenset(line.split()) for line in lines))
    return frozenset(
        isa.name for isa in catalog.isas.values() if isa.platform == system and isa_runs(isa, features)
    )


def ask_isas(builder: Builder, catalog: Catalog) -> frozenset[str] | None:
    """The instruction sets of a builder; None where it does not say."""
    answers, _ = ask(builder, only=("machine", "cpu"))
    return isas_of(answers.get("cpu", ""), catalog, f"{answers.get('machine', '').strip()}-linux") or None
