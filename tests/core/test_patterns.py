"""A pattern holds a whole text: a line break behind it is not part of a name, an address or a path."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from torchsmith.building.farm import from_settings, machines_option
from torchsmith.catalog import builtin_catalog
from torchsmith.core.text import anchored
from torchsmith.workspace.settings import BuilderSettings, CiSettings, Settings, schema

SRC = Path(__file__).parents[2] / "src/torchsmith"
END = anchored("")[-len(r"$(?!\n)") :]


def patterns(value: object) -> Iterator[str]:
    """Every pattern of a JSON Schema."""
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        for one in value.values():
            yield from patterns(one)
    elif isinstance(value, list):
        for one in value:
            yield from patterns(one)


def test_every_pattern_of_the_settings_and_of_the_catalog_holds_the_whole_text() -> None:
    found = set(patterns(schema(builtin_catalog())))
    assert len(found) >= 10
    assert [one for one in found if not (one.startswith("^(?:") and one.endswith(END))] == []
    unbound = re.compile(r"Meta\(\s*pattern=(?!anchored\()")
    assert [file for file in SRC.rglob("*.py") if unbound.search(file.read_text())] == []
    assert not re.search(anchored("a|b"), "a\n")
    assert re.search(anchored("a|b"), "b")


def test_no_pattern_in_the_code_checks_a_text_with_a_dollar() -> None:
    """`fullmatch` does; `$` means a line's end, and says so by MULTILINE."""
    wrong = []
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value) != "re" or node.func.attr == "sub" or not node.args:
                continue
            first = node.args[0]
            text = first.value if isinstance(first, ast.Constant) else ""
            lines = any("MULTILINE" in ast.unparse(more) for more in [*node.args, *node.keywords])
            checks = isinstance(text, str) and text.startswith("^") and text.endswith("$") and not lines
            if checks or (node.func.attr == "match" and isinstance(text, str) and text.endswith("$")):
                wrong.append(f"{file.relative_to(SRC)}:{node.lineno} {text!r}")
    assert wrong == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ssh_key", "/key ssh://evil x86_64-linux"),
        ("ssh_key", "/key;ssh://evil"),
        ("ssh_key", "/key\nssh://evil x86_64-linux"),
        ("features", ["big parallel"]),
        ("features", ["kvm ; ssh://evil x86_64-linux"]),
        ("features", ["kvm\nssh://evil"]),
        ("features", ["kvm,more"]),
        ("address", "builder\n"),
        ("address", "builder;evil"),
    ],
)
def test_no_field_of_a_builder_adds_a_machine(field: str, value: object) -> None:
    good = {"address": "ssh://nix@builder:22", "systems": ["x86_64-linux"], "features": ["kvm"]}
    good |= {"ssh_key": "/root/.ssh/id_ed25519"}
    option = machines_option(from_settings([msgspec.convert(good, BuilderSettings)]))
    assert option == "ssh://nix@builder:22 x86_64-linux /root/.ssh/id_ed25519 1 1 kvm - -"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(good | {field: value}, BuilderSettings)


@pytest.mark.parametrize("value", ["--index-url=https://evil", "-r", "torchsmith\n", "a b"])
def test_what_ci_installs_is_no_option_of_pip(value: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"torchsmith": value}, CiSettings)


@pytest.mark.parametrize("field", ["ccache", "org"])
def test_a_line_break_ends_no_setting(field: str) -> None:
    good = {"format": 1, "ccache": "/var/cache", "org": "us"}
    msgspec.convert(good, Settings)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(good | {field: f"{good[field]}\n"}, Settings)
