"""What the Python index has: its pages, and metadata out of a wheel of which little is read."""

from __future__ import annotations

import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from torchsmith.core.problem import MissingRequirement
from torchsmith.edit.python_index import PUBLIC_INDEX, PublishedWheel, newest

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


def test_the_real_index_knows_a_torch() -> None:
    address = urlsplit(PUBLIC_INDEX)
    try:
        with closing(socket.create_connection((address.hostname, address.port or 443), timeout=3)):
            pass
    except OSError:
        pytest.skip("the Python index cannot be reached")
    assert newest(["torch"])["torch"].version >= "2.1"
