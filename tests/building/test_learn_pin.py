"""The hash of a nixpkgs tarball, learnt from a server and believed by Nix."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from torchsmith.catalog import load_catalog
from torchsmith.core.process import run
from torchsmith.verbs.apply import ApplyRequest, apply

PROGRAM = str(Path(sys.executable).with_name("torchsmith"))
NAME = "pytorch-python312-cuda12_8-sm90-avx2"
TOML = """format = 1
[[matrix]]
line = "2.9"
python = ["3.12"]
cuda = ["12.8"]
sm = ["sm90"]
isa = ["avx2"]
"""


def test_the_hash_of_a_tarball_is_learnt_from_a_server(tmp_path: Path, nix_here: Path) -> None:
    (workspace := tmp_path / "here").mkdir()
    (workspace / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=workspace, git=False))
    (tree := tmp_path / "served/nixpkgs").mkdir(parents=True)
    (tree / "default.nix").write_text("{ }")
    run(["tar", "-C", tree.parent, "-czf", tree.parent / "nixpkgs.tar.gz", "nixpkgs"])
    with served(tree.parent) as address:
        done = run(
            [PROGRAM, "pin", "2.9", "-w", workspace, "--learn", "--tarball", f"{address}/nixpkgs.tar.gz"]
        )
        assert done.ok, done.stderr
        stated = load_catalog(workspace / "catalog").pins["6a030d5"].sha256
        asked = f'builtins.fetchTarball {{ url = "{address}/nixpkgs.tar.gz"; sha256 = "{stated}"; }}'
        proved = run(["nix-instantiate", "--eval", "--read-write-mode", "-E", f"builtins.readDir ({asked})"])
    assert proved.ok, proved.stderr
    assert f'sha256 = "{stated}"' in (workspace / f"build-pytorch/.flox/pkgs/{NAME}.nix").read_text()
    again = run([PROGRAM, "pin", "2.9", "-w", workspace, "--learn", "--json"])
    assert json.loads(again.stdout)["error"]["code"] == "empty"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
