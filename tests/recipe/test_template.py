"""Templates read like Nix, and a value can never break out of its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchsmith.core.nixtext import in_indented, in_quotes, nix_value
from torchsmith.core.process import run
from torchsmith.recipe.template import (
    FOLDER,
    Expression,
    Part,
    SourceLine,
    TemplateError,
    compile_lines,
    render,
    template,
)

texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=40)


def compile_text(text: str) -> tuple[Part, ...]:
    split = text.splitlines(keepends=True)
    return compile_lines([SourceLine(line, "text", number) for number, line in enumerate(split, 1)])


def filled(text: str, **values: object) -> str:
    return render(compile_text(text), values)  # type: ignore[arg-type]


def test_a_value_is_escaped_for_where_it_stands() -> None:
    hostile = "a\"b${c}''d\\"
    assert filled('x = "@v@";', v=hostile) == 'x = "a\\"b\\${c}\'\'d\\\\";'
    assert filled("x = ''\n  @v@\n'';", v=hostile) == "x = ''\n  a\"b''${c}'''d\\\n'';"
    assert filled("# @v@\n", v="one\ntwo") == "# one two\n"
    assert filled("x = @v@;", v="python3Packages") == "x = python3Packages;"


def test_holes_inside_interpolations_and_after_escapes_are_placed_right() -> None:
    text = "x = ''\n  ''${NOT} ${f \"@v@\" } @v@\n'' + \"\\\"@v@\";"
    assert filled(text, v='"') == 'x = \'\'\n  \'\'${NOT} ${f "\\"" } "\n\'\' + "\\"\\"";'


def test_lists_and_tables_become_nix() -> None:
    assert filled("  x = @v@;", v=["-a", "-b"]) == '  x = [\n    "-a"\n    "-b"\n  ];'
    assert filled("x = @v@;", v=[]) == "x = [ ];"
    assert filled("x = @v@;", v={"a": "1", "b-c": ["2"], "3": "x"}) == (
        'x = {\n  a = "1";\n  b-c = [\n    "2"\n  ];\n  "3" = "x";\n};'
    )


def test_an_expression_is_interpolated_and_never_escaped() -> None:
    name = Expression("gpu.name")
    assert filled('x = "@v@"; y = @v@;', v=name) == 'x = "${gpu.name}"; y = gpu.name;'


def test_directives_choose_lines() -> None:
    text = "#? fix one\na\n#? end\n#? if two\nb\n#? else\nc\n#? end\n"
    text += "#? unless two\nd\n#? end\n#? each xs\n@item@\n#? end\n"
    assert filled(text, fixes=["one"], two=True, xs=["p", "q"]) == "a\nb\np\nq\n"
    assert filled(text, fixes=[], two=False, xs=[]) == "c\nd\n"


@pytest.mark.parametrize("text", ["#? if a\n", "#? end\n", "#? when a\n#? end\n", "@missing@"])
def test_a_broken_template_is_our_mistake_and_is_said(text: str) -> None:
    with pytest.raises(TemplateError):
        filled(text)


def test_every_template_of_the_package_compiles() -> None:
    names = [path.name for path in FOLDER.glob("*.nix")]
    assert len(names) >= 10
    for name in names:
        assert template(name)


@pytest.mark.needs("nix")
@settings(max_examples=60)
@given(texts, texts)
def test_nix_reads_back_exactly_what_was_written(one: str, two: str) -> None:
    one, two = one.replace("\r", ""), two.replace("\r", "")
    expression = (
        f"[ \"{in_quotes(one)}\" ''{in_indented('x' + one.replace(chr(10), ' '))}x'' "
        f"{nix_value({'k': two, 'l': [one]})} ]"
    )
    words = ["nix-instantiate", "--store", "dummy://", "--eval", "--strict", "--json", "-E", expression]
    done = run(words, timeout=60)
    assert done.ok, done.stderr
    flat = "x" + one.replace("\n", " ") + "x"
    assert json.loads(done.stdout) == [one, flat, {"k": two, "l": [one]}]
