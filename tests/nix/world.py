"""A git server and an archive on 127.0.0.1 that serve a nixpkgs in several revisions."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Edit = Callable[[Path], None]
IDENTITY = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t"}
IDENTITY |= {"GIT_COMMITTER_EMAIL": "t@t", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


@dataclass
class World:
    """The servers, and what they serve."""

    root: Path
    port: int = 0
    slow_seconds: float = 0.0  # between the pieces of an answer
    sending: bool = False  # a piece of a slow answer was sent
    revisions: list[str] = field(default_factory=list)

    @property
    def remote(self) -> str:
        return f"http://127.0.0.1:{self.port}/nixpkgs.git"

    @property
    def archive(self) -> str:
        return f"http://127.0.0.1:{self.port}/archive/{{rev}}.tar.gz"

    def commit(self, tree: Path, channel: str = "nixos-unstable") -> str:
        """Publish a tree as the new head of a channel. Returns its revision."""
        work, bare = self.root / "work", self.root / "served/nixpkgs.git"
        if not bare.exists():
            self.git("init", "-q", "--bare", str(bare))
            self.git("init", "-q", "-b", channel, str(work))
        for old in (path for path in work.iterdir() if path.name != ".git"):
            subprocess.run(["rm", "-rf", str(old)], check=True)
        subprocess.run(["cp", "-r", f"{tree}/.", str(work)], check=True)
        self.git("-C", str(work), "checkout", "-q", "-B", channel)
        self.git("-C", str(work), "add", "-A")
        self.git("-C", str(work), "commit", "-q", "--allow-empty", "-m", "a revision")
        self.git("-C", str(work), "push", "-q", "--force", str(bare), channel)
        self.git("-C", str(bare), "update-server-info")
        rev = self.git("-C", str(work), "rev-parse", "HEAD").strip()
        self.pack(rev, tree)
        self.revisions.append(rev)
        return rev

    def pack(self, rev: str, tree: Path, *, links: dict[str, str] | None = None) -> None:
        """Serve a tree as the archive of a revision; `links` are added to it, by name."""
        file = self.root / f"served/archive/{rev}.tar.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(file, "w:gz", compresslevel=1) as packed:
            packed.add(tree, f"nixpkgs-{rev}", filter=_plain)
            for name, target in (links or {}).items():
                link = tarfile.TarInfo(f"nixpkgs-{rev}/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, target
                packed.addfile(link, io.BytesIO())

    def git(self, *words: str) -> str:
        env = {**os.environ, **IDENTITY}
        return subprocess.run(["git", *words], env=env, check=True, capture_output=True, text=True).stdout


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.mtime = 0
    return member


@contextmanager
def serving(root: Path) -> Iterator[World]:
    """A world that answers on a port of 127.0.0.1 until the block ends."""
    (root / "served").mkdir(parents=True)
    world = World(root)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *words: object, **more: object) -> None:
            super().__init__(*words, directory=str(root / "served"), **more)  # type: ignore[arg-type]

        def log_message(self, format: str, *words: object) -> None:
            pass

        def copyfile(self, source: object, outputfile: object) -> None:
            while piece := source.read(4096 if world.slow_seconds else 1 << 20):  # type: ignore[attr-defined]
                outputfile.write(piece)  # type: ignore[attr-defined]
                world.sending = world.slow_seconds > 0
                time.sleep(world.slow_seconds)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    world.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
