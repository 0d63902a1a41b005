"""Remote builders on loopback: real sshd, one port each, with one store together or one each."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


@dataclass
class LoopbackBuilder:
    """One machine of the farm: an sshd, and every process that a login started."""

    name: str
    port: int
    config: Path
    own_store: bool
    process: subprocess.Popen[bytes]

    @property
    def busy(self) -> bool:
        """Whether a user is logged in."""
        return bool(descendants(self.process.pid))

    def kill(self) -> None:
        """The machine goes away, in the middle of what it does."""
        self._signal(signal.SIGKILL)
        self.process.wait()

    def freeze(self) -> None:
        """The machine hangs: connections stay open, and nothing answers any more."""
        self._signal(signal.SIGSTOP)

    def boot(self) -> None:
        """The machine comes back, after it was killed."""
        self.process = _sshd(self.config, self.port, self.own_store)

    def _signal(self, number: signal.Signals) -> None:
        for pid in (self.process.pid, *descendants(self.process.pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def descendants(root: int) -> list[int]:
    """Every process below one."""
    table: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = entry.read_text().rpartition(")")[2].split()
            table.setdefault(int(words[1]), []).append(int(entry.parent.name))
    found, todo = [], [root]
    while todo:
        below = table.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(folder: Path, name: str, variables: dict[str, str], own_store: bool) -> LoopbackBuilder:
    port = _free_port()
    config = folder / f"{name}.conf"
    # A home without start-up files: those of whoever runs this may not be cut off in the middle. And Nix,
    # wherever its installer laid it: a login by ssh finds the system's folders alone.
    path = f"{Path(shutil.which('nix-store') or '').parent}:/usr/bin:/bin"
    given = {**variables, "HOME": str(folder), "PATH": path}
    told = " ".join(f"{key}={value}" for key, value in given.items())
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nSetEnv {told}\n"
    )
    return LoopbackBuilder(name, port, config, own_store, _sshd(config, port, own_store))


def _sshd(config: Path, port: int, own_store: bool) -> subprocess.Popen[bytes]:
    """A daemon that answers; with a store of its own it sees that, and nobody else's, at the place of all."""
    log = config.with_suffix(".log")
    root = os.getuid() == 0
    mounts = []
    for part in ("store", "var") if own_store else ():
        own, shared = config.with_suffix("") / part, config.parent / part
        own.mkdir(parents=True, exist_ok=True)
        shared.mkdir(exist_ok=True)
        mounts.append(f"mount --bind {own} {shared}")
    user = pwd.getpwuid(os.getuid())
    if user.pw_shell.endswith(("/nologin", "/false")):  # it sees itself as somebody who may log in
        users = config.with_suffix(".passwd")
        users.write_text(f"{user.pw_name}:x:{user.pw_uid}:{user.pw_gid}::{user.pw_dir}:/bin/sh\n")
        mounts.append(f"mount --bind {users} /etc/passwd")
        users.with_suffix(".shadow").write_text(f"{user.pw_name}:x:1::::::\n")
        mounts.append(f"mount --bind {users.with_suffix('.shadow')} /etc/shadow")
    # Who may mount is root where the mounts are, as whom sshd would not run: back to who it was.
    back = f"unshare --map-user={os.getuid()} --map-group={os.getgid()}" if mounts and not root else ""
    command = " && ".join([*mounts, f"exec {back} {SSHD} -D -e -f {config}"])
    apart = ["unshare", "-m" if root else "-rm"] if mounts else []
    with log.open("ab") as told:
        process = subprocess.Popen([*apart, "sh", "-c", command], stderr=told)
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return process
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@contextmanager
def loopback(
    folder: Path, names: Sequence[str], variables: dict[str, str], *, own_stores: bool = False
) -> Iterator[dict[str, LoopbackBuilder]]:
    """Start builders; `ssh -F FOLDER/ssh_config NAME` reaches them."""
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd insists on an empty folder
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    builders = {name: _start(folder, name, variables, own_stores) for name in names}
    hosts = "".join(f"Host {one.name}\n  Port {one.port}\n" for one in builders.values())
    (folder / "ssh_config").write_text(
        f"{hosts}Host *\n  HostName 127.0.0.1\n  User {getpass.getuser()}\n  IdentityFile {folder}/user\n"
        "  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  LogLevel ERROR\n"
    )
    try:
        yield builders
    finally:
        for one in builders.values():
            if one.process.poll() is None:
                one.kill()
