"""Sources and hashes: what is downloaded, and whether it can be believed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.finding import FindingFix
from torchsmith.auditing.rule import NOTE, WARNING, Defect, rewrite, rule
from torchsmith.auditing.rules.companion import other_torch
from torchsmith.catalog import Line, Package
from torchsmith.catalog.facts import Patch
from torchsmith.matrix import Variant
from torchsmith.nix.hashes import is_placeholder, parse_hash, to_sri, wrong_length
from torchsmith.recipe.read import FetchedSource, Located
from torchsmith.workspace.subject import Subject

NIX32 = re.compile(r"sha256-[0-9abcdfghijklmnpqrsvwxyz]{52}")
HASHES = {"hash", "sha256", "sha512", "outputHash"}
OPEN = ("mkDriver",)  # functions that need not be passed every hash
HASHLESS = ("fetchTarball", "fetchGit", "fetchTree")


def _package(subject: Subject, source: FetchedSource) -> Package | None:
    """The package whose source it is, by the repository's name."""
    repo = source.fields.get("repo")
    packages = subject.catalog.packages.values()
    return next(
        (
            package
            for package in packages
            if repo and package.upstream and package.upstream.repo == repo.value
        ),
        None,
    )


def _known_hash(subject: Subject, source: FetchedSource) -> str:
    """What the catalog knows of a source: by its repository and release, or by its address."""
    if "url" in source.fields:
        patch = _patch(subject, source)
        return patch.hash if patch else ""
    package = _package(subject, source)
    if package is None or subject.line is None or subject.flavored:
        return ""
    return subject.line.hashes.get(package.name, "")


def _patch(subject: Subject, source: FetchedSource) -> Patch | None:
    url = source.fields.get("url")
    patches = [patch for fix in subject.catalog.fixes.values() for patch in fix.patches.values()]
    return next((patch for patch in patches if url is not None and patch.url == url.value), None)


def _hashes(subject: Subject) -> Iterator[tuple[FetchedSource, Located[str], str, FindingFix | None]]:
    """Sources that state their hash: the stated hash, the known one if the catalog has it, and the fix."""
    for source in subject.whole.sources:
        if source.hash is not None and not subject.whole.is_argument(source.hash.span, OPEN):
            known = _known_hash(subject, source)
            yield source, source.hash, known, rewrite(source.hash.span, known) if known else None


@rule("TS901", "empty hash", anywhere=True)
def hash_is_not_empty(subject: Subject) -> Iterator[Defect]:
    """An empty hash stops the build, with the right hash in the error; `torchsmith fix-hashes` fills it in.
    For nightlies, which change every day, this is a note."""
    for _, stated, known, fix in _hashes(subject):
        if not stated.value:
            # A nightly moves every day; its hash is learned when it is built.
            severity = NOTE if subject.flavored and not known else None
            hint = "" if known else "torchsmith fix-hashes learns it"
            yield Defect("the hash is empty", stated.span, hint=hint, fix=fix, severity=severity)


@rule("TS902", "malformed hash", anywhere=True)
def hash_is_well_formed(subject: Subject) -> Iterator[Defect]:
    """A hash is `sha256-` with 43 characters of base64, or another spelling that Nix reads; Nix 2.8 and 2.26
    do without the `=` at its end. A fake one is a placeholder that was forgotten; in a nightly, whose source
    changes every day, it is a note."""
    for _, stated, known, fix in _hashes(subject):
        if not stated.value or "$" in stated.value:
            continue
        if is_placeholder(stated.value):
            severity = NOTE if subject.flavored and not known else None
            yield Defect("the hash is a placeholder", stated.span, fix=fix, severity=severity)
        elif NIX32.fullmatch(stated.value):
            bare = stated.value.removeprefix("sha256-")
            right = to_sri(f"sha256:{bare}")
            message, hint = f"{bare} is Nix' base 32, and sha256- takes base 64", f"sha256:{bare}, or {right}"
            yield Defect(message, stated.span, hint=hint, fix=rewrite(stated.span, known or right))
        elif parse_hash(stated.value) is None:
            hint = wrong_length(stated.value)
            yield Defect(f"{stated.value} is not a hash", stated.span, hint=hint, fix=fix)
    for match in re.finditer(r"=\s*(lib\.fake\w+|\w+\.lib\.fake\w+)", subject.code):
        at = subject.span(match, 1)
        if not subject.body.is_argument(at, OPEN):
            yield Defect(f"{match[1]} is a placeholder", at, severity=NOTE if subject.flavored else None)


@rule("TS903", "hash of another source")
def hash_is_the_known_one(subject: Subject) -> Iterator[Defect]:
    """The hash of this source is in the catalog, and the recipe states another one; or the hash is that of
    another release."""
    for source, stated, known, fix in _hashes(subject):
        other = _release_of(subject, source, stated.value)
        if other and stated.value != known:  # otherwise the tag is wrong, which TS905 is about
            yield Defect(f"the hash is that of {other}", stated.span, fix=fix)
        if other or not known or is_placeholder(stated.value):
            continue
        plain = stated.value.startswith("sha256-") and parse_hash(stated.value)
        if plain and plain.sri != known and _release(subject, source):
            yield Defect(f"not the hash of {_called(source)}: that is {known}", stated.span, fix=fix)


def _called(source: FetchedSource) -> str:
    """How people call a source: by repository and tag, or by its file."""
    fields = (source.fields.get(name) for name in ("repo", "rev", "tag", "name"))
    return " ".join(str(field.value) for field in fields if field) or "this source"


def _release_of(subject: Subject, source: FetchedSource, hash: str) -> str:
    """The tag of another release that a hash is of; empty if the catalog does not know it."""
    package, rev = _package(subject, source), source.fields.get("rev") or source.fields.get("tag")
    if package is None or rev is None:
        return ""
    tags = (
        _right_tag(package, line)
        for line in subject.catalog.lines.values()
        if hash and line.hashes.get(package.name) == hash
    )
    return next((tag for tag in tags if tag != rev.value), "")


def _release(subject: Subject, source: FetchedSource) -> bool:
    """Whether the source is the release that the known hash is of; patches are by their address."""
    if "url" in source.fields:
        return True
    package, rev = _package(subject, source), source.fields.get("rev") or source.fields.get("tag")
    if package is None or rev is None or subject.line is None:
        return False
    return rev.value == _right_tag(package, subject.line)


def _right_tag(package: Package, line: Line) -> str:
    return package.upstream.tag_of(line.version_of(package.name)) if package.upstream else ""


@rule("TS904", "source without a hash")
def source_has_a_hash(subject: Subject) -> Iterator[Defect]:
    """Every download but the pin's needs a hash; Nix refuses to fetch it otherwise."""
    for source in subject.whole.sources:
        if source.fetcher not in HASHLESS and source.fields and not source.fields.keys() & HASHES:
            known = _known_hash(subject, source)
            hint = f'add hash = "{known}";' if known else ""
            yield Defect(f"{source.fetcher} states no hash", source.span, hint=hint)


# What each fetcher cannot do without; of several names one is enough.
HOST = (("owner",), ("repo",), ("rev", "tag"))
NEEDED = {
    "fetchFromGitHub": HOST,
    "fetchFromGitLab": HOST,
    **dict.fromkeys(("fetchurl", "fetchzip", "fetchpatch", "fetchpatch2"), (("url", "urls"),)),
    **dict.fromkeys(("fetchgit", "fetchTarball", "fetchGit"), (("url",),)),
}


@rule("TS908", "incomplete source")
def source_is_complete(subject: Subject) -> Iterator[Defect]:
    """A fetcher without its address, or without owner, repository and tag for GitHub, stops the
    evaluation."""
    for source in subject.body.sources:
        if not source.fields and not re.search(r"\{\s*\}$", subject.body.text_at(source.span)):
            continue  # its arguments are put together elsewhere
        lacking = [
            " or ".join(names) for names in NEEDED[source.fetcher] if not source.fields.keys() & {*names}
        ]
        if lacking:
            yield Defect(f"{source.fetcher} lacks {', '.join(lacking)}", source.span)


@rule("TS905", "source of another release")
def source_is_the_release(subject: Subject, line: Line, variant: Variant) -> Iterator[Defect]:
    """The fetched tag must be the release that the recipe states, from the project's own repository."""
    for source in subject.whole.sources:
        url = source.fields.get("url")
        if url is not None and isinstance(url.value, str) and "://" not in url.value:
            yield Defect(f"{url.value} is not an address", url.span)
        if source.fetcher == "fetchFromGitHub" and {"owner", "repo"} <= source.fields.keys():
            yield from _tag(subject, source, line, variant)


def _tag(subject: Subject, source: FetchedSource, line: Line, variant: Variant) -> Iterator[Defect]:
    package = _package(subject, source)
    rev = source.fields.get("rev") or source.fields.get("tag")
    for_torch = "torch" in re.split(r"\W", source.owner) or variant.package.is_torch
    wanted = subject.catalog.torch if for_torch and "python" in source.owner.lower() else None
    if subject.style != "scratch" and not variant.flavor:
        wanted = wanted or variant.package
        if wanted.upstream and package != wanted and package not in subject.bundled:
            repo = source.fields["repo"]
            yield Defect(f"fetches {repo.value}, not the source of {wanted}", repo.span)
    owner = source.fields["owner"]
    right = package.upstream.owner if package and package.upstream else ""
    if isinstance(owner.value, str) and right and owner.value != right:
        yield Defect(f"fetches from {owner.value}, not from {right}", owner.span, severity=WARNING)
    if package and rev and isinstance(rev.value, str) and not variant.flavor and "$" not in rev.value:
        right = _right_tag(package, line)
        version = subject.version_given(package.attr)
        stated = package.upstream is not None and rev.value == package.upstream.tag_of(version)
        reported = stated and bool(other_torch(subject, package, version))  # by TS701
        if rev.value != right and line.torch and not reported:
            fix = rewrite(rev.span, right) if "${" not in subject.whole.text_at(rev.span) else None
            yield Defect(f"fetches {rev.value}, the release is {right}", rev.span, fix=fix)


@rule("TS906", "torch without its submodules")
def torch_has_submodules(subject: Subject) -> Iterator[Defect]:
    """PyTorch's source is incomplete without its submodules, and its hash covers them."""
    for source in subject.whole.sources:
        if _package(subject, source) != subject.catalog.torch or source.fetcher != "fetchFromGitHub":
            continue
        submodules = source.fields.get("fetchSubmodules")
        if submodules is None or submodules.value is False:
            at = submodules.span if submodules else source.span
            yield Defect("fetchSubmodules is not true", at, hint="write fetchSubmodules = true;")
