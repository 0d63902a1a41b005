"""Builds that take no time: a torch that agrees to everything, and a probe whose times a test decides."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.artifact.toy import TOY

# Times are those of a machine whose noise is known; SLOW, WRONG, CRASH and FAIL name what to plant.
PROBE = """
import json, os, random, sys
with open(os.environ["COUNT"], "a+") as count:  # each process differs, every test run is the same
    count.write(".")
    count.flush()
    number = count.tell()
    state = random.Random(os.environ["SEED"] + str(number))
slow, wrong, crash, fail = (os.environ.get(name, "") for name in ("SLOW", "WRONG", "CRASH", "FAIL"))
noise = float(os.environ.get("NOISE", "0.005"))
names = [f"op{index}" for index in range(20)]
jitter = lambda: 1 + abs(state.gauss(0, noise))
for line in sys.stdin:
    asked = json.loads(line)
    do, name = asked["do"], asked.get("name")
    if do == crash and number < 9: os.abort()
    if do == "load":
        answer = {"import": jitter(), "memory": 1 << 27, "file": os.environ["FILE"], "version": "2.10.0",
                  "cuda": "", "capability": "AVX2", "gpu": None,
                  "hip": os.environ.get("HIP", ""), "clock_step": 1e-9, "import_cpu": jitter()}
        if fail == "load": answer = {"failed": "ImportError: libmissing.so"}
    elif do == "open":
        answer = {"first": 0.0, "operations": names}
    elif do == "check":
        answer = {"right": name != wrong, "error": float(name == wrong), "limit": 1e-5, "sample": [1.0]}
        if name == fail: answer = {"failed": "RuntimeError: not implemented"}
    elif do == "time":
        if name == crash: os.abort()
        answer = {"seconds": 1e-3 * jitter() * (1.05 if name == slow else 1)}
    else:
        answer = {"libraries": {}}
    if fail == "form": answer = [answer]
    print(json.dumps(answer), flush=True)
"""


def environment(folder: Path) -> Path:
    """An environment whose torch agrees to everything."""
    torch = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "torch"
    torch.mkdir(parents=True)
    shutil.copy(TOY, torch)
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(sys.executable)
    return folder
