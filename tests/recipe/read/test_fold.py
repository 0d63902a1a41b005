"""Nix' own words folded without Nix: what is known is what Nix says, and what is not known stays so."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.recipe.read.fold import MAX_IMPORTS, ConstantFolder
from torchsmith.recipe.read.located import Unknown
from torchsmith.recipe.read.syntax import parse


def folded(expression: str) -> object:
    syntax = parse(f"{{ x }}: {expression}".encode(), "test.nix")
    body = syntax.root.child_by_field_name("body")
    assert body is not None
    value = ConstantFolder(syntax, {}, None, 0).fold(body)
    return "unknown" if isinstance(value, Unknown) else value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x && false", False),
        ("false && x", False),
        ("x || true", True),
        ("true || x", True),
        ("x && true", "unknown"),
        ("true && x", "unknown"),
        ("x || false", "unknown"),
        ("false || x", "unknown"),
        ("true && false", False),
        ("false || true", True),
        ("false || false", False),
    ],
)
def test_a_part_that_decides_alone_decides(expression: str, expected: object) -> None:
    assert folded(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 < 2", True),
        ("2 < 2", False),
        ("2 <= 2", True),
        ("3 > 2", True),
        ("2 >= 3", False),
        ('"12.8" < "13.0"', True),
        ('1 < "2"', "unknown"),
        ("1 < x", "unknown"),
    ],
)
def test_values_are_compared_as_nix_does(expression: str, expected: object) -> None:
    assert folded(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('builtins.replaceStrings [ "a" "a" ] [ "1" "2" ] "aba"', "1b1"),  # the first of two alike counts
        ('builtins.replaceStrings [ "a" "ab" ] [ "1" "2" ] "ab"', "1b"),
        ('builtins.replaceStrings [ "ab" "a" ] [ "2" "1" ] "aba"', "21"),
        ('builtins.replaceStrings [ "." ] [ "_" ] "12.8"', "12_8"),
        ('builtins.replaceStrings [ "a" "b" ] [ "b" "a" ] "ab"', "ba"),  # what was put in is not replaced
        ('builtins.replaceStrings [ "" ] [ "-" ] "ab"', "unknown"),
        ('builtins.replaceStrings [ "a" "b" ] [ "1" ] "ab"', "unknown"),
        ('builtins.replaceStrings [ "a" ] [ "1" ] x', "unknown"),
    ],
)
def test_strings_are_replaced_as_nix_does(expression: str, expected: object) -> None:
    assert folded(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("{ a = 1; }.a or 2", 1), ("{ a = 1; }.b or 2", 2), ("{ a = 1; }.b", "unknown")],
)
def test_a_default_is_used_if_an_attribute_is_missing(expression: str, expected: object) -> None:
    assert folded(expression) == expected


@pytest.mark.parametrize(("files", "expected"), [(MAX_IMPORTS, "deep"), (MAX_IMPORTS + 1, "unknown")])
def test_files_that_import_each_other_are_followed_a_few_deep(
    files: int, expected: str, tmp_path: Path
) -> None:
    for number in range(files):
        (tmp_path / f"{number}.nix").write_text(f"{{ a = (import ./{number + 1}.nix).a; }}")
    (tmp_path / f"{files}.nix").write_text('{ a = "deep"; }')
    path = tmp_path / "0.nix"
    syntax = parse(path.read_bytes(), "0.nix")
    (binding,) = (one for one in syntax.root.named_children[0].named_children if one.type == "binding")
    value = ConstantFolder(syntax, {}, path, 0).fold(binding.named_children[-1])
    assert ("unknown" if isinstance(value, Unknown) else value) == expected
