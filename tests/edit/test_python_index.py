"""What the Python index has: its pages, and metadata out of a wheel of which little is read."""

from __future__ import annotations

import io
import os
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from torchsmith.core.problem import MissingRequirement
from torchsmith.edit.python_index import PUBLIC_INDEX, PublishedWheel, newest, pip_settings

SIZE = 3_000_000  # of the content of a wheel, which nobody should download


def wheel(package: str, version: str, *requires: str) -> bytes:
    """A large wheel with little metadata."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        lines = [f"Name: {package}", f"Version: {version}", *(f"Requires-Dist: {text}" for text in requires)]
        file.writestr(f"{package}-{version}.dist-info/METADATA", "\n".join(lines) + "\n\nAbout it.\n")
        file.writestr("code.so", bytes(SIZE))
    return packed.getvalue()


NAME = "{}-{}-cp313-cp313-manylinux_2_28_x86_64.whl"
FILES = {
    NAME.format("torch", "2.9.1"): b"",
    NAME.format("torch", "2.15.0"): b"",
    "torch-2.99.0-cp313-cp313-win_amd64.whl": b"",  # another system
    "torch-2.16.0rc1-cp313-cp313-manylinux_2_28_x86_64.whl": b"",  # not a final release
    NAME.format("torchvision", "0.29.2"): wheel(
        "torchvision", "0.29.2", "numpy", "torch (==2.15.0)", "torch>=3; extra == 'gpu'", "torchmetrics>1"
    ),
    NAME.format("torchaudio", "2.9.1"): wheel("torchaudio", "2.9.1"),
}


class Index:
    """A Python index on this machine."""

    def __init__(self) -> None:
        self.metadata = False
        self.sent = 0
        self.asked: list[str] = []
        self.port = 0

    def page(self, package: str) -> tuple[str, bytes]:
        names = [name for name in FILES if name.startswith(f"{package}-")]
        mark = ' data-core-metadata="sha256=0"' if self.metadata else ""
        links = [f'<a href="../../files/{name}#sha256=0"{mark}>{name}</a>' for name in names]
        links.append(f'<a href="/x/{NAME.format(package, "99.0")}" data-yanked="broken">x</a>')
        return "text/html", "".join(links).encode()


@pytest.fixture
def index() -> Iterator[Index]:
    own = Index()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *words: object) -> None:
            pass

        def do_GET(self) -> None:
            own.asked.append(self.path)
            kind, content, code = "application/octet-stream", b"", 200
            if self.path.startswith("/simple/"):
                kind, content = own.page(self.path.split("/")[2])
            elif self.path.endswith(".metadata"):
                packed = zipfile.ZipFile(
                    io.BytesIO(FILES[self.path.split("/")[-1].removesuffix(".metadata")])
                )
                content = packed.read(packed.namelist()[0])
            else:
                code = 404
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            own.sent += len(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield own
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("metadata", [True, False])
def test_the_newest_release_and_the_torch_that_its_wheel_asks_for(index: Index, metadata: bool) -> None:
    """Wheels themselves are not downloaded."""
    index.metadata = metadata
    found = newest(["torch", "torchvision", "torchaudio"], f"http://127.0.0.1:{index.port}/simple/")
    assert found == {
        "torch": PublishedWheel("torch", "2.15.0"),
        "torchvision": PublishedWheel("torchvision", "0.29.2", "==2.15.0" if metadata else ""),
        "torchaudio": PublishedWheel("torchaudio", "2.9.1"),
    }
    assert not [path for path in index.asked if path.endswith(".whl")]


def test_a_package_that_the_index_lacks_is_left_out(index: Index) -> None:
    assert newest(["absent"], f"http://127.0.0.1:{index.port}/simple") == {}


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/simple", "file:///etc"])
def test_an_index_that_does_not_answer_is_an_error(address: str) -> None:
    with pytest.raises(MissingRequirement):
        newest(["torch"], address)


def test_a_name_that_is_searched_for_long_is_an_error_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def search(*words: object, **more: object) -> list[object]:
        answered.wait(60)
        return []

    monkeypatch.setattr("socket.getaddrinfo", search)
    began = time.monotonic()
    with pytest.raises(MissingRequirement):
        newest(["torch"], "https://mirror.invalid/simple")
    assert time.monotonic() - began < 5
    answered.set()


def test_the_index_is_the_one_that_pip_is_set_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of pip's places decides over the ones before it, as `pip config debug` lists them."""
    for name in ("PIP_INDEX_URL", "PIP_CERT", "CONDA_PREFIX", "VIRTUAL_ENV", "XDG_CONFIG_DIRS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert pip_settings() == (PUBLIC_INDEX, "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "site"))
    monkeypatch.delenv("PIP_CONFIG_FILE")
    for place, section in {"user/pip": "global", "site": "install"}.items():
        (tmp_path / place).mkdir(parents=True)
        index = f"https://{section}.invalid/simple"
        (tmp_path / place / "pip.conf").write_text(f"[{section}]\nindex-url = {index}\ncert = /{place}\n")
        assert pip_settings() == (index, f"/{place}")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.invalid/simple")
    assert pip_settings() == ("https://mirror.invalid/simple", "/site")
    (tmp_path / "site/pip.conf").write_text("not a configuration")
    assert pip_settings()[1] == "/user/pip"
    stated = tmp_path / "stated.conf"
    stated.write_text("[install]\ncert = /stated\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(stated))
    assert pip_settings()[1] == "/stated"


def test_the_real_index_knows_a_torch() -> None:
    index, _ = pip_settings()
    address = urlsplit(index)
    try:
        with closing(socket.create_connection((address.hostname, address.port or 443), timeout=3)):
            pass
    except OSError:
        pytest.skip("the Python index cannot be reached")
    assert newest(["torch"])["torch"].version >= "2.1"
