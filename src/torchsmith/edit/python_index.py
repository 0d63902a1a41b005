"""The newest wheels on the Python index: its list of files, and the metadata of single wheels."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.parser import HeaderParser
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec

from torchsmith.catalog.ranges import version_key
from torchsmith.core.problem import MissingRequirement

TORCH = "torch"  # as the index calls it
SECONDS = 15.0
LARGEST_ANSWER = 1 << 25  # bytes
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*\(?([^);]*)\)?")
PUBLIC_INDEX = "https://pypi.org/simple"
# `torch-2.10.0-cp312-cp312-manylinux_2_28_x86_64.whl`; releases before the final one are left out.
WHEEL = re.compile(r"[A-Za-z0-9._]+-(?P<version>[0-9.]+)-(?P<tags>[^-]+-[^-]+-[^-]+)\.whl")
HINT = "python_index in [sources] of torchsmith.toml names another index"
Errors = (OSError, http.client.HTTPException, ValueError)


class PublishedWheel(msgspec.Struct, frozen=True):
    """A release on the index: its version, and the torch that its wheel asks for."""

    package: str
    version: str
    torch: str = ""  # as its metadata has it, such as ==2.10.0; empty: it asks for none, or has none


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A wheel on the index; `metadata`: its METADATA can be had beside it."""

    version: str
    address: str
    metadata: bool = False


def newest(packages: Sequence[str], index: str = "") -> dict[str, PublishedWheel]:
    """The newest release of each package that has wheels for Linux on x86_64, by an index, else PyPI. Raises
    MissingRequirement if it does not answer."""
    index = index or PUBLIC_INDEX

    def ask(package: str) -> PublishedWheel | None:
        files = list(_files(f"{index.rstrip('/')}/{quote(package)}/"))
        if not files:
            return None
        last = max(files, key=lambda file: version_key(file.version))
        metadata = "" if package == TORCH else _metadata(last)
        return PublishedWheel(package, last.version, _required_torch(metadata))

    try:
        with ThreadPoolExecutor(len(packages) or 1) as pool:
            found = list(pool.map(ask, packages))
    except Errors as error:
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        raise MissingRequirement(f"{index} does not answer: {why}", hint=HINT) from error
    return {wheel.package: wheel for wheel in found if wheel is not None}


def _get(address: str, **headers: str) -> http.client.HTTPResponse:
    if urlsplit(address).scheme not in ("http", "https"):
        raise ValueError(f"{address} is not an address of a server")
    request = urllib.request.Request(address, headers={"User-Agent": "torchsmith", **headers})
    opener = urllib.request.build_opener()  # urlopen would keep the proxies of its first call
    answer: http.client.HTTPResponse = opener.open(request, timeout=SECONDS)
    return answer


class _Links(HTMLParser):
    """The links of a page of the index."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append({name: value or "" for name, value in attrs})


def _files(address: str) -> Iterator[IndexFile]:
    """The final releases' wheels for Linux on x86_64 that a page of the index lists."""
    page = _Links()
    with _get(address, Accept="text/html") as answer:
        page.feed(answer.read(LARGEST_ANSWER).decode(errors="replace"))
    for link in page.links:
        place = urljoin(answer.geturl(), link.get("href", "")).partition("#")[0]
        match = WHEEL.fullmatch(unquote(urlsplit(place).path.rpartition("/")[2]))
        if not match or "data-yanked" in link:
            continue
        if match["tags"].endswith("x86_64") or match["tags"].endswith("-any"):
            yield IndexFile(match["version"], place, _has_metadata(link))


def _has_metadata(link: Mapping[str, str]) -> bool:
    return any(
        link.get(name, "false") != "false" for name in ("data-core-metadata", "data-dist-info-metadata")
    )


def _metadata(file: IndexFile) -> str:
    """The METADATA beside a wheel; empty if the index has none."""
    if not file.metadata:
        return ""
    with _get(f"{file.address}.metadata") as answer:
        return answer.read(LARGEST_ANSWER).decode(errors="replace")


def _required_torch(metadata: str) -> str:
    """The torch releases that a wheel asks for; empty if it asks for none."""
    for requirement in HeaderParser().parsestr(metadata).get_all("Requires-Dist", []):
        match = REQUIREMENT.match(requirement)
        if match and match[1].lower() == TORCH and "extra ==" not in requirement:
            return match[2].replace(" ", "")
    return ""
