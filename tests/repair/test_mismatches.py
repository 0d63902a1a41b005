"""Hashes in every spelling, mismatches in every wording, and files changed in one place alone."""

from __future__ import annotations

import base64
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.core.process import run
from torchsmith.core.toml_edit import set_string
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.hashes import DIGITS, PLACEHOLDER, is_placeholder, read_mismatches, to_sri
from torchsmith.nix.log import Failure
from torchsmith.repair.fix_hashes import _why, suspicion

OLD = "sha256-" + base64.b64encode(bytes(range(32))).decode()
NEW = "sha256-" + base64.b64encode(bytes(range(1, 33))).decode()
DRV = "/nix/store/9krlzvny65gdc8s7kpb6lkx8cd02c25b-source.drv"


def to_base32(raw: bytes) -> str:
    """Bytes in Nix' base 32."""
    number = int.from_bytes(raw, "little")
    length = (len(raw) * 8 - 1) // 5 + 1
    return "".join(DIGITS[number >> 5 * place & 31] for place in reversed(range(length)))


@given(st.binary(min_size=32, max_size=32))
def test_every_spelling_means_the_same_hash(raw: bytes) -> None:
    sri = "sha256-" + base64.b64encode(raw).decode()
    for other in (to_base32(raw), raw.hex(), sri, f"sha256:{to_base32(raw)}"):
        assert to_sri(other) == sri


@pytest.mark.needs("nix")
def test_nix_spells_base_32_as_we_do() -> None:
    done = run(["nix-hash", "--type", "sha256", "--to-base32", bytes(range(32)).hex()])
    assert done.stdout.strip() == to_base32(bytes(range(32)))


ZERO_512 = "sha512-" + base64.b64encode(bytes(64)).decode()
REAL_512 = "sha512-" + base64.b64encode(bytes(range(64))).decode()


@pytest.mark.parametrize(
    "text", ["", PLACEHOLDER, "0" * 52, "sha256:" + "0" * 64, "TODO", ZERO_512, "0" * 103, "0" * 128]
)
def test_placeholders_ask_to_be_told(text: str) -> None:
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    [
        OLD,
        REAL_512,
        to_base32(bytes(range(64))),
        f"sha512:{bytes(range(64)).hex()}",
        OLD[:-2],
        "f" * 40,
    ],
)
def test_a_hash_of_any_algorithm_is_a_statement_even_when_damaged(text: str) -> None:
    assert not is_placeholder(text)


@pytest.mark.needs("nix")
def test_nix_spells_a_sha_512_as_we_do() -> None:
    done = run(["nix-hash", "--type", "sha512", "--to-base32", bytes(range(64)).hex()])
    assert done.stdout.strip() == to_base32(bytes(range(64)))
    assert to_sri(f"sha512:{done.stdout.strip()}") == REAL_512


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            f"error: hash mismatch in fixed-output derivation '{DRV}':\n"
            f"         specified: {OLD}\n            got:    {NEW}\n",
            id="2.8",
        ),
        pytest.param(
            f"error: hash mismatch in fixed-output derivation '{DRV}':\n        likely URL: https://example.invalid/x\n"
            f"         specified: {OLD}\n            got:    {NEW}\n",
            id="2.26",
        ),
        pytest.param(
            f"source> error: hash mismatch in fixed-output derivation '{DRV}':\n"
            f"source>          specified: {OLD}\nsource>             got:    {NEW}\n",
            id="remote",
        ),
    ],
)
def test_a_mismatch_is_read_in_every_wording(text: str) -> None:
    (found,) = read_mismatches(f"some noise\n{text}error: 1 dependencies failed\n")
    assert (found.derivation, found.specified, found.got) == (DRV, OLD, NEW)


def test_a_tarball_that_is_fetched_while_evaluating_is_read_too() -> None:
    old, new = to_base32(bytes(range(32))), to_base32(bytes(range(1, 33)))
    text = (
        "error: hash mismatch in file downloaded from 'https://example.invalid/x.tar.gz':\n"
        f"         specified: sha256:{old}\n         got:       sha256:{new}"
    )
    (found,) = read_mismatches(text)
    assert (found.url, found.specified, found.got) == ("https://example.invalid/x.tar.gz", OLD, NEW)


def test_what_is_free_to_write_and_what_may_be_tampering() -> None:
    assert suspicion("", NEW, "source v2", {}) == ""
    assert "revision" in suspicion(OLD, NEW, "source v2", {"source v1": OLD})
    assert "stated" in suspicion(OLD, NEW, "source v2", {"source v2": NEW}), "whatever else was learnt"
    assert "stated" in suspicion(OLD, NEW, "source v2", {})
    assert "before" in suspicion(OLD, NEW, "source v2", {"source v2": OLD})
    assert "before" in suspicion("", NEW, "source v2", {"source v2": OLD})


TOML = """\
# ours
[nightly.pytorch] # nightly
rev = "abc" # pinned
hash = "" # learn it

[other]
a = { b = "c" }
"""


def test_setting_a_value_changes_nothing_else() -> None:
    assert set_string(TOML, ("nightly", "pytorch", "hash"), NEW) == TOML.replace(
        'hash = ""', f'hash = "{NEW}"'
    )
    assert set_string(TOML, ("other", "a", "b"), "d") == TOML.replace('"c"', '"d"')
    assert set_string(TOML, ("other", "x"), "y") == TOML + 'x = "y"\n'


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=4), WORDS)
def test_a_value_set_anywhere_is_read_back(path: list[str], value: str) -> None:
    text = set_string(set_string(TOML, ["new", *path], "first"), ["new", *path], value)
    found = tomllib.loads(text)["new"]
    for name in path:
        found = found[name]
    assert found == value
    assert tomllib.loads(text)["nightly"] == tomllib.loads(TOML)["nightly"]


def test_a_download_without_a_log_has_the_reason_that_names_no_other() -> None:
    download = Derivation(DRV, "source", "x86_64-linux", "builtin:fetchurl", (), {}, {}, (), {})
    others, own = (
        "error: builder for '/nix/store/x-other.drv' failed",
        "error: unable to download 'https://x'",
    )
    assert _why([Failure(others), Failure(own)], download) == own.removeprefix("error: ")
