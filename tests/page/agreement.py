"""Machines asked twice: by the command line's own functions, and by the page's script in a real engine."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from playwright.sync_api import Page

from tests.host.machines import Known, corpus
from torchsmith.catalog import Catalog
from torchsmith.cli.verbs.pick import _machine, pick_json
from torchsmith.edge.problem import Problem
from torchsmith.host.commands import IN_A_WORKSPACE
from torchsmith.host.document import to_document
from torchsmith.host.facts import merge
from torchsmith.host.pick import pick
from torchsmith.host.read_report import read_report
from torchsmith.page.html import mine_script
from torchsmith.page.rules import pick_rules
from torchsmith.workspace.load import Workspace, open_workspace

Reports = tuple[tuple[str, str], ...]  # name and text of each
KEYS = ("gpus_known", "workload", "unserved", "companions", "compiled_for_one", "others")


@dataclass(frozen=True)
class Asked:
    """A machine as somebody would paste it, and what it is for."""

    name: str
    reports: Reports
    profile: str = "wide"
    workload: str = "general"


@cache
def workspace(profile: str) -> Workspace:
    return open_workspace(None, profile)


@cache
def rules(profile: str) -> dict[str, Any]:
    opened = workspace(profile)
    return pick_rules(opened.matrix.cells, opened.catalog)


def by_command_line(asked: Asked) -> dict[str, Any]:
    """What `pick` says; or that no tool wrote such a report."""
    opened = workspace(asked.profile)
    catalog = opened.catalog
    try:
        facts = merge(read_report(text, name) for name, text in asked.reports)
    except Problem as problem:
        return {"unread": problem.message.split(" (")[0]}
    answer = pick(facts, opened.matrix.cells, catalog, catalog.workloads[asked.workload])
    told = msgspec.to_builtins(pick_json(answer, catalog, IN_A_WORKSPACE), enc_hook=str)
    choice = [
        {
            **{key: one[key] for key in ("name", "gpus", "compiled_for", "reasons", "provided", "unproved")},
            "commands": one["build"],
        }
        for one in told["choice"]
    ]
    return {
        "machine": _machine(answer, catalog),
        **{key: told[key] for key in KEYS},
        "choice": choice,
        "create": [{"name": one["name"], "unproved": one["unproved"]} for one in told["create"]],
        "notes": [str(note) for note in answer.facts.notes],
    }


SCRIPT = mine_script()
# The answer of the script, with the same keys; as text, for Playwright takes long over values.
ASK = (
    "(text) => { "
    + SCRIPT
    + """
  const given = JSON.parse(text), kept = {};
  const asked = ({ reports, profile, workload }) => {
    kept[profile] = kept[profile] || whichIsMine(given.rules[profile]);
    try {
      const answer = kept[profile].answer(reports, workload);
      answer.choice.forEach((one) => delete one.idle);
      delete answer.unknown_gpus;
      return answer;
    } catch (error) {
      if (!(error instanceof kept[profile].Unread)) throw error;
      return { unread: error.message.split(" (")[0] };
    }
  };
  const odd = (value) => value === undefined || (typeof value === "number" && !Number.isFinite(value));
  return JSON.stringify(given.machines.map(asked), (_, value) => odd(value) ? String(value) : value);
}"""
)


def by_script(page: Page, machines: Sequence[Asked]) -> list[Any]:
    """What the page's script says."""
    told = [{"reports": one.reports, "profile": one.profile, "workload": one.workload} for one in machines]
    profiles = {one.profile for one in machines}
    given = {"machines": told, "rules": {name: rules(name) for name in profiles}}
    answered: list[Any] = json.loads(page.evaluate(ASK, json.dumps(given)))
    return answered


def reports_of(known: Known) -> Reports:
    """A machine of the corpus as it can be pasted: its reports, or what `host --json` prints of it."""
    if known.machine is None:
        return tuple((one.tool, one.text) for one in known.reports)
    return (("host.json", json.dumps(to_document(known.facts()))),)


def whole_corpus() -> list[Asked]:
    """Every machine, for every matrix and workload; the reports apart and, as in a terminal, in one piece."""
    found = []
    for name, known in corpus().items():
        reports = reports_of(known)
        for profile in ("plan", "wide"):
            workloads = workspace(profile).catalog.workloads
            found += [Asked(name, reports, profile, workload) for workload in workloads]
        found.append(Asked(f"{name} in one", (("pasted", "\n".join(text for _, text in reports)),)))
    return found


def random_machines(count: int, seed: int) -> Iterator[Asked]:
    """Machines that may exist, and some that may not, told by tools of any kind, whole or cut."""
    catalog = workspace("wide").catalog
    chance = random.Random(seed)
    for number in range(count):
        cpu, gpu = _cpu_report(chance, catalog), _gpu_report(chance, catalog)
        reports = [one for one in (cpu, gpu) if one]
        if chance.random() < 0.3 and len(reports) == 2:
            reports = [("pasted", reports[0][1] + reports[1][1])]
        if chance.random() < 0.15 and reports:
            name, text = reports[-1]
            reports[-1] = (name, text[: chance.randrange(1, len(text) + 1)])
        profile, workload = chance.choice(("plan", "wide", "real")), chance.choice(list(catalog.workloads))
        yield Asked(f"random {number}", tuple(reports), profile, workload)


def _cpu_report(chance: random.Random, catalog: Catalog) -> tuple[str, str] | None:
    cpu = chance.choice([one for one in catalog.cpus.values() if one.isas])
    needs = sorted(set().union(*(catalog.isas[isa].needs for isa in cpu.isas)))
    if chance.random() < 0.3:
        needs = [word for word in needs if chance.random() < 0.9]
    x86 = cpu.platform.startswith("x86")
    base = "fpu mmx cmov sse2 lm ssse3" if x86 else "fp asimd evtstrm crc32 atomics"
    words = " ".join([base, *needs])
    ids = chance.choice(cpu.ids).split("/") if cpu.ids else []
    ids = [one.split("-")[0] for one in ids]
    kind = chance.choice((*["lscpu", "cpuinfo", "lscpu json"] * 4, "none", "mac"))
    if kind in ("none", "mac"):
        return ("mac", MAC) if kind == "mac" else None
    labels = ("Vendor ID", "CPU family", "Model", "Stepping")
    numbered = list(zip(labels, ids, strict=False)) if x86 else []
    if kind == "cpuinfo":
        keys = ("vendor_id", "cpu family", "model", "stepping") if x86 else ("CPU implementer", "CPU part")
        head = "".join(f"{key}\t: {value}\n" for key, value in zip(keys, ids, strict=False))
        line = "flags" if x86 else "Features"
        one = f"processor\t: 0\n{head}model name\t: {cpu.title}\n{line}\t: {words}\n\n"
        two = one.replace(words, " ".join(words.split()[:-1])) if chance.random() < 0.1 else one
        return "cpuinfo", one + two
    machine = "x86_64" if x86 else "aarch64"
    rows = [("Architecture", machine), *numbered, ("Model name", cpu.title), ("Flags", words)]
    if kind == "lscpu json":
        return "lscpu", json.dumps({"lscpu": [{"field": f"{a}:", "data": b} for a, b in rows]}, indent=3)
    return "lscpu", "".join(f"{label}:{' ' * 20}{value}\n" for label, value in rows)


MAC = "Hardware Overview:\n\n  Model Identifier: Mac15,3\n  Chip: Apple M3\n  Memory: 24 GB\n"
DRIVERS = (
    "470.256.02",
    "525.60.13",
    "535.183.01",
    "550.127.05",
    "570.26",
    "570.133.20",
    "580",
    "580.95.05",
    "590.44.01",
    "[N/A]",
)


def _gpu_report(chance: random.Random, catalog: Catalog) -> tuple[str, str] | None:
    kinds = list(catalog.gpus.values())
    count = chance.choice((0, 1, 1, 1, 2, 2, 3, 8))
    gpus = [chance.choice(kinds) for _ in range(count)]
    if chance.random() < 0.3:
        gpus = gpus[:1] * count
    names = [
        f"NVIDIA {chance.choice(gpu.parts)}" if chance.random() < 0.95 else "NVIDIA Mystery 9" for gpu in gpus
    ]
    driver = chance.choice(DRIVERS)
    kind = chance.choice(("csv", "csv", "bare csv", "query", "xml", "list", "table", "none", "absent"))
    if kind == "none":
        return None
    if kind == "absent":
        return "nvidia-smi", "bash: nvidia-smi: command not found\n"
    if not gpus:
        return "nvidia-smi", "No devices were found\n"
    return "nvidia-smi", _written(kind, list(zip(names, gpus, strict=True)), driver, chance)


def _written(kind: str, gpus: Sequence[tuple[str, Any]], driver: str, chance: random.Random) -> str:
    rows = [(name, gpu.sm.capability, gpu.generation) for name, gpu in gpus]
    if kind in ("csv", "bare csv"):
        head = "name, compute_cap, driver_version, memory.total [MiB]\n" if kind == "csv" else ""
        return head + "".join(f"{name}, {capability}, {driver}, 15360 MiB\n" for name, capability, _ in rows)
    if kind == "list":
        return "".join(f"GPU {n}: {name} (UUID: GPU-0{n})\n" for n, (name, _, _) in enumerate(rows))
    if kind == "query":
        word = chance.choice((True, True, False))
        sections = "".join(
            f"\nGPU 00000000:0{n}:00.0\n    Product Name                : {name}\n"
            + (f"    Product Architecture        : {generation}\n" if word else "")
            + "    FB Memory Usage\n        Total                   : 24564 MiB\n"
            for n, (name, _, generation) in enumerate(rows)
        )
        head = f"Driver Version            : {driver}\nAttached GPUs             : {len(rows)}\n"
        return f"==============NVSMI LOG==============\n\n{head}{sections}"
    if kind == "xml":
        sections = "".join(
            f'<gpu id="00000000:0{n}:00.0"><product_name>{name}</product_name>'
            f"<product_architecture>{generation}</product_architecture></gpu>\n"
            for n, (name, _, generation) in enumerate(rows)
        )
        return (
            f'<?xml version="1.0" ?>\n<nvidia_smi_log>\n<driver_version>{driver}</driver_version>\n'
            f"<attached_gpus>{len(rows)}</attached_gpus>\n{sections}</nvidia_smi_log>\n"
        )
    shown = [name if len(name) < 24 else name[:20] + "..." for name, _, _ in rows]
    lines = "".join(
        f"|   {n}  {name:<26} On  |   00000000:0{n}:00.0 Off |                    0 |\n"
        for n, name in enumerate(shown)
    )
    return f"| NVIDIA-SMI {driver}   Driver Version: {driver}   CUDA Version: 13.0 |\n{lines}"
