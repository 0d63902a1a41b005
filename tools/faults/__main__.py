"""`python -m tools.faults [N [VERB]...]`: N faults in writing verbs; exit 1 at the first torn file.

A file is torn when its text is neither the old nor the new one, or when the verb, run again, does not end
where a run without a fault ends. ENOSPC comes from a tmpfs of a few kilobytes if mounting is allowed
(`unshare -m`), else it is injected like EIO. EIO comes twice: in Python, where a file is opened, renamed or
removed (eio), and below everything, in a preloaded write(2) that SQLite and git pass through too (disk-eio).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tools.faults.scenarios import SCENARIOS, Scenario, base, environment, torchsmith
from torchsmith.core.state import state_folder

FAULTS = ("kill", "term", "eio", "disk-eio", "enospc")
WEIGHTS = (4, 2, 2, 2, 2)
LAYER = Path(__file__).parent / "eio.c"
DRAFT = (".torchsmith-new", ".new")
OWN = {".git", ".torchsmith"}
State = dict[str, bytes]


@dataclass
class Pattern:
    """A scenario's workspace before and after, and how many writes are between."""

    scenario: Scenario
    before: Path
    old: State
    new: State
    code: int
    writes: int
    disk_writes: int  # that reach the disk, of every process


@dataclass
class Tally:
    """What happened."""

    survived: Counter[str] = field(default_factory=Counter)
    between: int = 0
    struck: int = 0


def state(root: Path) -> State:
    """Every file that a person reads; neither git's own nor the workspace's state."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and not {".git", ".torchsmith"} & set(path.relative_to(root).parts)
    }


def compiled(folder: Path) -> Path:
    """The failing disk, as a library to be preloaded."""
    library = folder / "eio.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, LAYER, "-ldl"], check=True)
    return library


@dataclass
class Struck:
    """A run with a fault: how it ended, and how many writes it came to."""

    done: subprocess.CompletedProcess[str]
    writes: int
    disk_writes: int


def strike(scenario: Scenario, root: Path, env: dict[str, str], fault: str = "none", at: int = 0) -> Struck:
    log, disk = root.parent / "count", root.parent / "disk-count"
    disk.write_bytes(bytes(8))
    here = {**env, "LD_PRELOAD": str(root.parent / "eio.so"), "FAULTS_ROOT": f"{root}/"}
    here |= {"FAULTS_COUNT": str(disk), "FAULTS_AT": str(at if fault == "disk-eio" else 0)}
    top = Path(__file__).parents[2]
    here["PYTHONPATH"] = f"{top}:{top / 'src'}"
    above = "none" if fault == "disk-eio" else fault
    command = [sys.executable, "-m", "tools.faults.child", str(root), above, str(at), str(log), "--"]
    done = subprocess.run(
        [*command, *scenario.words], cwd=root, env=here, capture_output=True, text=True, timeout=300
    )
    return Struck(done, int(log.read_text() or 0), int.from_bytes(disk.read_bytes(), sys.byteorder))


def learn(scenario: Scenario, start: Path, folder: Path, env: dict[str, str]) -> Pattern:
    """Run it once without a fault."""
    before = folder / f"before-{scenario.verb.replace(' ', '')}"
    shutil.copytree(start, before, symlinks=True)
    scenario.prepare(before)
    old = state(before)
    root = folder / "run"
    shutil.copytree(before, root, symlinks=True)
    run = strike(scenario, root, env)
    new = state(root)
    shutil.rmtree(root)
    assert scenario.verb == "build" or new != old, f"{scenario.verb} writes nothing: {run.done.stderr}"
    assert run.writes > 1, run.done.stderr
    assert "Traceback" not in run.done.stderr, run.done.stderr
    return Pattern(scenario, before, old, new, run.done.returncode, run.writes, run.disk_writes)


def torn(pattern: Pattern, root: Path) -> list[str]:
    """Files whose text is neither the old nor the new one; drafts are none."""
    now = state(root)
    return [
        path
        for path, text in now.items()
        if not path.endswith(DRAFT) and text not in (pattern.old.get(path), pattern.new.get(path))
    ]


def wrong_record(root: Path) -> list[str]:
    record = state_folder(root) / "record.sqlite"
    if not record.exists():
        return []
    with sqlite3.connect(record) as database:
        found = database.execute("pragma integrity_check").fetchone()[0]
    return [] if found == "ok" else [f"record.sqlite: {found}"]


def drafts(root: Path) -> list[str]:
    """Drafts, the workspace's own among them."""
    found = (str(path.relative_to(root)) for path in root.rglob(".*") if path.name.endswith(DRAFT))
    return [path for path in found if not path.startswith(".git/")]


def settle(pattern: Pattern, root: Path, env: dict[str, str]) -> list[str]:
    """Run the verb again: what is not as it should be, drafts that are left too."""
    again = torchsmith(pattern.scenario.words, root, env)
    now, left = state(root), drafts(root)
    faults = [f"{path} is left after another run" for path in left]
    late = [path for path in pattern.new.keys() | now.keys() if path not in left]
    faults += [f"{path} after another run" for path in late if now.get(path) != pattern.new.get(path)]
    done_before = pattern.scenario.verb == "init" and again.returncode != 0  # it refuses to write over itself
    if again.returncode != pattern.code and not done_before:
        faults.append(f"another run ends with {again.returncode}, not {pattern.code}: {again.stderr[-600:]}")
    if "Traceback" in again.stderr:
        faults.append(again.stderr[-600:])
    return faults


def trial(
    pattern: Pattern, fault: str, folder: Path, env: dict[str, str], tally: Tally, mounts: bool
) -> list[str]:
    """One fault: what it tore."""
    root = folder / "run"
    root.mkdir()
    small = fault == "enospc" and mounts
    if small:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", root], check=True)
    try:
        shutil.copytree(pattern.before, root, symlinks=True, dirs_exist_ok=True)
        if small:
            _shrink(root, random.randrange(0, 48))
        on_disk = fault == "disk-eio"
        last = pattern.disk_writes if on_disk else pattern.writes
        at = random.randint(min(2, last), last)
        run = strike(pattern.scenario, root, env, "none" if small else fault, at)
        count = run.disk_writes if on_disk else run.writes
        hit = run.done.returncode != pattern.code if small else count >= at
        tally.struck += hit
        tally.between += hit and 1 < (at if on_disk else count) <= last
        faults = torn(pattern, root)
        if "Traceback" in run.done.stderr:
            faults.append(run.done.stderr[-800:])
        if small:
            subprocess.run(["mount", "-o", "remount,size=64m", root], check=True)
        faults += wrong_record(root)
        return faults + settle(pattern, root, env) + wrong_record(root)
    finally:
        if small:
            subprocess.run(["umount", "-l", root], check=True)
        shutil.rmtree(root)


def _shrink(root: Path, spare_kib: int) -> None:
    used = shutil.disk_usage(root).used // 1024
    subprocess.run(["mount", "-o", f"remount,size={used + spare_kib}k", root], check=True)


def may_mount() -> bool:
    """Whether mounts are this process' own; it starts itself again where they are, if that can be had."""
    if os.environ.get("TORCHSMITH_FAULTS_APART"):
        return True
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    allowed = subprocess.run(probe, capture_output=True).returncode == 0
    if allowed:
        os.environ["TORCHSMITH_FAULTS_APART"] = "1"
        os.execvp("unshare", ["unshare", "-m", sys.executable, "-m", "tools.faults", *sys.argv[1:]])
    return allowed


def main() -> int:
    """N trials over all verbs in turn."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    mounts = may_mount()
    chosen = [one for one in SCENARIOS if one.verb in sys.argv[2:] or not sys.argv[2:]]
    random.seed(os.environ.get("SEED"))
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="torchsmith-faults-") as name:
        folder = Path(name)
        env = environment(folder)
        os.environ.update(env)
        start = base(folder, env)
        compiled(folder)
        patterns = [learn(scenario, start, folder, env) for scenario in chosen]
        for pattern in patterns:
            told = f"{pattern.writes} writes, {pattern.disk_writes} that reach the disk"
            print(f"{pattern.scenario.verb}: {told}", flush=True)
        for count in range(number):
            pattern = patterns[count % len(patterns)]
            fault = random.choices(FAULTS, WEIGHTS)[0]
            faults = trial(pattern, fault, folder, env, tally, mounts)
            if faults:
                print(f"TORN after {count} faults: {pattern.scenario.verb}, {fault}", *faults, sep="\n  ")
                return 1
            tally.survived[fault] += 1
            if (count + 1) % 25 == 0:
                print(f"{count + 1} faults, {tally.between} between the first and the last write", flush=True)
    kinds = ", ".join(f"{fault} {count}" for fault, count in tally.survived.items())
    full = "a real tmpfs" if mounts else "injected: no mounts here"
    print(f"{tally.survived.total()} of {number} faults survived ({kinds}; enospc: {full})")
    print("no torn file, and no draft was left by another run")
    print(f"{tally.struck} struck, {tally.between} of them between the first and the last write")
    return 0 if tally.between * 2 >= number else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its folder goes all the same
    sys.exit(main())
