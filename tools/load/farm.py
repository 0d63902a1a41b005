"""The farm under load: recipes that write down when they begin and end, and builders that die."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.building.conftest import CONF, MINI, nix_variables
from tests.building.farm import LoopbackBuilder, loopback
from tools.load.reckon import Load, Result, reckon

SYSTEM = f"{os.uname().machine}-linux"
SHARED = 20  # every 20th derivation is needed by the 19 after it
APART = 8  # derivations that begin between two deaths: on a slow machine no job may meet five of them
LIMIT = 3600.0  # seconds, after which a run is given up
RECIPE = """\
{{ }}:
derivation {{
  name = "{name}";
  system = "{system}";
  builder = "/bin/sh";
  args = [
    "-c"
    ''
      PATH=/usr/bin:/bin
      date '+begin %s.%N' >> {note}
      sleep {seconds}
      echo {name} > $out
      date '+end %s.%N' >> {note}
    ''
  ];
  needs = [ {needs} ];
}}
"""


def run(folder: Path, load: Load, say: Callable[[str], None] = lambda _: None) -> Result:
    """Build everything while builders die, then look at what happened."""
    root, ledger, told = folder / "workspace", folder / "ledger", folder / "told"
    ledger.mkdir(parents=True)
    write_recipes(root, ledger, load)
    names = [f"b{number:02}" for number in range(load.builders)]
    _write_settings(root, names)
    with _farm(folder, names) as (env, builders):
        command = [sys.executable, "-m", "tools.load.child", str(root), str(told)]
        child = subprocess.Popen(command, env=env, cwd=Path(__file__).parents[2])
        try:
            killed = _kill_at_random(child, list(builders.values()), load, ledger, say)
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
    result = reckon(root, ledger, told, load, killed)
    result.faults += [f"still running: {words}" for words in left_running(folder)]
    return result


def write_recipes(root: Path, ledger: Path, load: Load) -> None:
    """Derivations that anybody can build; some are needed by those after them."""
    pkgs = root / "build-load/.flox/pkgs"
    pkgs.mkdir(parents=True)
    for number, name in enumerate(load.names):
        shared = load.names[number - number % SHARED]
        needs = "" if name == shared else f"(import ./{shared}.nix {{ }})"
        text = RECIPE.format(name=name, system=SYSTEM, note=ledger / name, seconds=load.seconds, needs=needs)
        (pkgs / f"{name}.nix").write_text(text)


def _write_settings(root: Path, names: list[str]) -> None:
    tables = "".join(
        f'\n[[builder]]\naddress = "{name}"\nsystems = ["{SYSTEM}"]\nmax_jobs = 1\n' for name in names
    )
    (root / "torchsmith.toml").write_text(f"format = 1\n{tables}")


@contextmanager
def _farm(folder: Path, names: list[str]) -> Iterator[tuple[dict[str, str], dict[str, LoopbackBuilder]]]:
    """Builders with one store of their own, and the environment of a client with another one."""
    there, here = folder / "farm", folder / "client"
    for place in (there, here):
        (place / "conf").mkdir(parents=True)
        (place / "conf/nix.conf").write_text(CONF)
    remote = nix_variables(there)
    env = {
        **os.environ,
        **nix_variables(here),
        "NIX_STORE_DIR": remote["NIX_STORE_DIR"],
        "NIX_REMOTE": f"local?root={here}/root&real={here}/root{remote['NIX_STORE_DIR']}",
        "NIX_SSHOPTS": f"-F {there}/ssh_config",
        "TORCHSMITH_CACHE": str(folder / "cache"),
        "TORCHSMITH_NIXPKGS": str(MINI),
    }
    with loopback(there, names, remote) as builders:
        yield env, builders


def _kill_at_random(
    child: subprocess.Popen[bytes],
    builders: list[LoopbackBuilder],
    load: Load,
    ledger: Path,
    say: Callable[[str], None],
) -> int:
    """Until the build ends: now and then a builder dies, and comes back some seconds later."""
    killed, seen, began = 0, 0, time.monotonic()
    due = began + random.uniform(*load.every)
    back: list[tuple[float, LoopbackBuilder]] = []
    while child.poll() is None and time.monotonic() - began < LIMIT:
        time.sleep(0.1)
        now = time.monotonic()
        for when, one in [pair for pair in back if pair[0] <= now]:
            one.boot()
            back.remove((when, one))
        begun = len(os.listdir(ledger))
        up = [one for one in builders if one not in [gone for _, gone in back]]
        if now < due or begun < seen + APART or len(up) < 2:
            continue
        victim = random.choice([one for one in up if one.busy] or up)
        victim.kill()
        killed, seen = killed + 1, begun
        back.append((now + random.uniform(*load.down), victim))
        due = now + random.uniform(*load.every)
        if killed % 10 == 0:
            say(f"{now - began:.0f} s: {killed} builders killed, {begun} derivations begun")
    return killed


def left_running(folder: Path, patience: float = 10.0) -> list[str]:
    """Processes that name the folder, in their words or their environment, once those that end have ended."""
    sign = os.fsencode(folder)
    until = time.monotonic() + patience
    while True:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes()
                mine = sign in words or sign in (process / "environ").read_bytes()
                if mine and int(process.name) != os.getpid():
                    found.append(words.replace(b"\0", b" ").decode(errors="replace").strip())
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)
