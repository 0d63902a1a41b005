"""An import that is taken out of its recipe means the same outside; what might not is left where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.recipe.read.closed import Closed, shared_imports
from torchsmith.recipe.read.syntax import parse


def closed(text: str, file: str = "/w/x.nix") -> list[Closed]:
    return shared_imports(parse(text.encode(), file), Path(file), defaulted=True)


def tokens(text: str) -> list[tuple[str, ...]]:
    return [one.tokens for one in closed(text)]


def test_layout_and_comments_make_no_difference() -> None:
    one = "let pkgs = import <nixpkgs> { config = { a = true; }; }; in pkgs.x"
    other = "let # why\n  pkgs = import <nixpkgs> {\n    config = {\n a = true; # b\n }; }; in pkgs.y"
    assert tokens(one) == tokens(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("import <nixpkgs> { a = 1; }", "import <nixpkgs> { a = 2; }"),
        ("let v = 1; in import <nixpkgs> { a = v; }", "let v = 2; in import <nixpkgs> { a = v; }"),
        ("{ v ? 1 }: import <nixpkgs> { a = v; }", "{ v ? 2 }: import <nixpkgs> { a = v; }"),
        ('import <nixpkgs> { a = "x y"; }', 'import <nixpkgs> { a = "x  y"; }'),
        (
            "let w = 1; v = w; in import <nixpkgs> { a = v; }",
            "let w = 2; v = w; in import <nixpkgs> { a = v; }",
        ),
    ],
)
def test_a_difference_anywhere_in_what_is_needed_keeps_imports_apart(one: str, other: str) -> None:
    assert tokens(one)
    assert tokens(other)
    assert tokens(one) != tokens(other)


def test_what_the_import_does_not_need_makes_no_difference() -> None:
    one = 'let sm = "9.0"; pkgs = import <nixpkgs> { }; in pkgs.torch sm'
    other = 'let sm = "12.0"; pkgs = import <nixpkgs> { }; in pkgs.torch sm'
    assert tokens(one) == tokens(other)


@pytest.mark.parametrize(
    "text",
    [
        "{ v }: import <nixpkgs> { a = v; }",  # nobody says what v is
        "args: import <nixpkgs> { a = args.v; }",
        "with builtins; import <nixpkgs> { a = unknown; }",
        "rec { v = 1; pkgs = import <nixpkgs> { a = v; }; }",
        "import <nixpkgs> { a = __curPos; }",
        "x: let f = v: import <nixpkgs> { a = v; }; in f 1",
        "let v = 1; w = f; f = nothing; in import <nixpkgs> { a = w; }",
        "let v = 1; in let w = v; in let v = 2; in import <nixpkgs> { a = v; b = w; }",  # v means two things
    ],
)
def test_an_import_that_depends_on_more_than_its_text_is_left_alone(text: str) -> None:
    assert closed(text) == []


def test_unknown_arguments_leave_alone_only_what_depends_on_them() -> None:
    syntax = parse(
        b"{ lib, v ? 1 }: [ (import <nixpkgs> { a = v; }) (import <nixpkgs> { b = 1; }) ]", "x.nix"
    )
    [one] = shared_imports(syntax, Path("/w/x.nix"), defaulted=False)
    assert "b = 1" in one.body


def test_a_with_inside_the_import_may_bring_its_own_names() -> None:
    assert closed("import <nixpkgs> { f = p: with p; [ torch ]; }")


def test_an_import_of_a_file_of_the_workspace_is_no_package_set() -> None:
    assert closed("import ./lib.nix { }") == []


def test_relative_paths_are_the_same_only_from_the_same_place() -> None:
    text = "import <nixpkgs> { a = ./patches/x.patch; }"
    assert closed(text, file="/w/a/x.nix")[0].tokens != closed(text, file="/w/b/x.nix")[0].tokens
    assert "/w/a/patches/x.patch" in closed(text, file="/w/a/x.nix")[0].text
