"""What a recipe says is read off its text, with its place; what only an evaluation knows stays open."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.core.problem import Problem, TooLarge, Where
from torchsmith.recipe.read import Recipe, Unreadable, read_recipe, read_text_as_recipe
from torchsmith.recipe.read.located import Unknown
from torchsmith.recipe.read.open import without_definitions

GOLDEN = Path(__file__).parent.parent / "golden"
PIN = "6a030d535719c5190187c4cec156f335e95e3211"


def golden(name: str) -> Recipe:
    return read_recipe(GOLDEN / f"{name}.nix")


def read(text: str) -> Recipe:
    return read_text_as_recipe(text.encode(), Path("x.nix"))


def at(recipe: Recipe, start: int, end: int) -> str:
    return recipe.syntax.data[start:end].decode()


def test_the_pin_is_read_with_the_place_of_its_revision() -> None:
    recipe = golden("torch-gpu")
    [pin] = recipe.pins
    assert pin.rev is not None
    assert pin.rev.value == PIN
    assert at(recipe, pin.rev.span.start, pin.rev.span.end) == PIN
    assert recipe.text.splitlines()[pin.rev.span.line - 1][pin.rev.span.column - 1 :].startswith(PIN)
    assert pin.sha256 is None


def test_a_pin_with_a_hash_tells_it() -> None:
    recipe = read(
        'import (builtins.fetchTarball { url = "https://x/' + PIN + '.tar.gz"; sha256 = "0abc"; }) { }'
    )
    [pin] = recipe.pins
    assert pin.sha256 is not None
    assert pin.sha256.value == "0abc"


def test_overlays_are_told_in_order_with_what_each_changes() -> None:
    overlays = golden("torch-gpu").overlays
    assert [overlay.packages for overlay in overlays] == [
        ("cudaPackages",),
        ("magma",),
        ("python3Packages.torch",),
    ]


def test_the_import_tells_its_system_and_config() -> None:
    [one] = golden("torch-gpu").imports
    assert one.system is not None
    assert one.system.value == "x86_64-linux"
    assert {name: said.value for name, said in one.config.items()}["cudaSupport"] is True


def test_every_hash_can_be_replaced_in_place_and_nothing_else_changes() -> None:
    found = 0
    for file in sorted(GOLDEN.glob("*.nix")):
        recipe = read_recipe(file)
        for source in recipe.sources:
            if source.hash is None:
                continue
            found += 1
            span = source.hash.span
            assert at(recipe, span.start, span.end) == source.hash.value, file
            data = recipe.syntax.data
            again = read_text_as_recipe(data[: span.start] + b"sha256-NEW" + data[span.end :], file)
            changed = [s.hash.value for s in again.sources if s.hash]
            kept = [s.hash.value for s in recipe.sources if s.hash]
            assert changed.count("sha256-NEW") == 1
            assert len([1 for one, other in zip(changed, kept, strict=True) if one != other]) == 1
    assert found > 5


def test_a_hash_in_a_variable_is_placed_where_it_is_written() -> None:
    recipe = read('let h = "sha256-A"; in fetchurl { url = "u"; hash = h; }')
    [source] = recipe.sources
    assert source.hash is not None
    assert at(recipe, source.hash.span.start, source.hash.span.end) == "sha256-A"


def test_versions_names_platforms_and_descriptions_are_told() -> None:
    recipe = golden("torchvision")
    assert "0.25.0" in [version.value for version in recipe.strings("version")]
    assert [pname.value for pname in recipe.strings("pname")][-1].startswith("torchvision-python313-")
    assert recipe.platforms[-1].value == ("x86_64-linux",)
    assert any("TorchVision" in said.value for said in recipe.strings("description"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('x.override { gpuTargets = [ "12.0" ]; }', ("gpuTargets", ("12.0",))),
        ('let gpuArchSM = "8.6"; in gpuArchSM', ("variable", ("8.6",))),
        ('let gpuArch = "sm_120"; in gpuArch', ("variable", ("sm_120",))),
        (
            "{ preConfigure = ''\n  export TORCH_CUDA_ARCH_LIST=\"8.6;9.0+PTX\"\n''; }",
            ("arch-list", ("8.6", "9.0+PTX")),
        ),
        ('{ env.TORCH_CUDA_ARCH_LIST = "9.0"; }', ("arch-list", ("9.0",))),
        ('{ preConfigure = "export CMAKE_CUDA_ARCHITECTURES=90"; }', ("cmake-list", ("90",))),
        ('{ config.cudaCapabilities = [ "11.0" ]; }', ("cudaCapabilities", ("11.0",))),
    ],
)
def test_gpu_targets_are_told_however_they_are_spelled(
    text: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    [mention] = read(text).gpu_targets
    assert (mention.spelling, mention.values) == expected


def test_gpu_targets_follow_variables_into_lists_and_phases() -> None:
    recipe = read(
        'let sm = "12.1"; in { gpuTargets = [ sm ]; preBuild = "export TORCH_CUDA_ARCH_LIST=${sm}"; }'
    )
    assert [mention.values for mention in recipe.gpu_targets] == [("12.1",), ("12.1",)]


def test_cpu_flags_are_told_one_by_one() -> None:
    [flags] = golden("torch-gpu").cpu_flags
    assert flags.name == "cpuFlags"
    assert flags.values[0] == "-mavx512f"
    recipe = golden("torch-gpu")
    for flag in flags.flags:
        assert at(recipe, flag.span.start, flag.span.end) == flag.value


def test_override_arguments_are_told() -> None:
    overrides = [one for one in golden("torch-gpu").overrides if one.kind == "override" and "torch" in one.of]
    assert overrides[0].of == "pkgs.python3Packages.torch"
    assert overrides[0].arguments["cudaSupport"].value is True


def test_what_phases_export_is_told_with_interpolations_filled_in() -> None:
    exports = {export.variable: export for export in golden("torch-gpu").exports}
    assert exports["NIX_BUILD_CORES"].value == "32"
    assert exports["CXXFLAGS"].value.startswith("-mavx512f -mavx512dq")
    recipe = golden("torch-gpu")
    span = exports["CXXFLAGS"].span
    assert at(recipe, span.start, span.end).startswith('CXXFLAGS="')


def test_a_value_that_needs_evaluation_is_unknown_and_not_guessed_at() -> None:
    recipe = read('{ pkgs }: with pkgs; { version = lib.getVersion torch; pname = "a-${stem}"; }')
    assert recipe.strings("version") == ()
    assert recipe.strings("pname") == ()
    overridden = read("x.overrideAttrs (o: { patches = o.patches ++ [ ]; })").overrides[0]
    assert overridden.arguments["patches"].value == Unknown("o.patches ++ [ ]")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('let v = "1"; in let v = "2"; in { version = v; }', "2"),
        ('let v = "1"; in { v = "2"; version = v; }', "1"),
        ('let v = "1"; in rec { v = "2"; version = v; }', "2"),
        ('let v = "1"; in rec { inherit v; version = v; }', "1"),
        ('{ v ? "3" }: { version = v; }', "3"),
        ('let s = { v = "4"; }; in { version = s.v; }', "4"),
        ('let a = "1"; in { version = "${a}.${toString 2}"; }', "1.2"),
        ('let a = true; in { version = if a then "5" else "6"; }', "5"),
    ],
)
def test_names_mean_what_nix_says_they_mean(text: str, version: str) -> None:
    assert [said.value for said in read(text).strings("version")] == [version]


def test_a_table_in_a_file_of_its_own_is_read_and_nothing_else_is_imported(tmp_path: Path) -> None:
    (tmp_path / "versions.nix").write_text('{ torch = "2.10.0"; }')
    (tmp_path / "a.nix").write_text("{ version = (import ./versions.nix).torch; }")
    assert [said.value for said in read_recipe(tmp_path / "a.nix").strings("version")] == ["2.10.0"]
    (tmp_path / "of.nix").write_text('{ minor }: { torch = "2.${minor}.0"; }')
    (tmp_path / "c.nix").write_text('{ version = (import ./of.nix { minor = "9"; }).torch; }')
    assert [said.value for said in read_recipe(tmp_path / "c.nix").strings("version")] == ["2.9.0"]
    (tmp_path / "b.nix").write_text("{ file }: { version = (import file).torch; }")
    assert read_recipe(tmp_path / "b.nix").strings("version") == ()


def test_a_variable_that_means_itself_does_not_hang() -> None:
    assert read("let v = v; in { version = v; }").strings("version") == ()


@pytest.mark.parametrize(
    "text",
    ["{ a, b, }: a", "{\n  a,\n  b, # why\n}:\na", "{ a, b, /* c */ }@all: a", "{ x }: { a, }: a"],
)
def test_a_trailing_comma_in_formals_is_read(text: str) -> None:
    assert read(text).arguments
    assert read(text).text == text


def test_text_that_is_no_nix_is_unread_with_its_place() -> None:
    with pytest.raises(Unreadable) as caught:
        read("{\n  a = ;\n}")
    assert caught.value.where is not None
    assert caught.value.where.line == 2


def test_a_file_without_an_expression_is_unread_at_its_beginning() -> None:
    with pytest.raises(Unreadable) as caught:
        _ = read("# nothing\n").arguments
    assert caught.value.where == Where("x.nix", 1, 1)


@pytest.mark.parametrize("text", ["x: " * 10_000 + "1", "{ a = " * 3_000 + "1" + "; }" * 3_000])
def test_a_text_too_deep_to_be_read_soon_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(Unreadable, match="1000 expressions within each other") as caught:
        read(text)
    assert caught.value.where is not None
    column = caught.value.where.column
    assert column > 1
    assert text[column - 2] == " " != text[column - 1], "an expression begins there"


def test_an_attribute_that_is_set_twice_is_refused_as_nix_does() -> None:
    with pytest.raises(Unreadable, match="pname"):
        read('{ pname = "a"; pname = "b"; }')
    assert read("{ a.b = 1; a.c = 2; }").text


def test_a_set_that_is_bound_twice_is_merged_as_nix_does() -> None:
    text = b"{ env = { A = 1; }; meta = { }; env = { B = 2; }; }"
    assert read_text_as_recipe(text, Path("x.nix")).bound("A")[0].value == 1
    with pytest.raises(Unreadable):
        read_text_as_recipe(b"{ env = { A = 1; }; env = 2; }", Path("x.nix"))


def test_an_unread_file_is_asked_of_nix_and_then_has_no_positions(tmp_path: Path) -> None:
    file = tmp_path / "x.nix"
    file.write_text("x |> y")
    recipe = read_recipe(file, ask=lambda _: '({ pname = "a"; })')
    assert [said.value for said in recipe.strings("pname")] == ["a"]
    assert not recipe.syntax.exact
    with pytest.raises(Unreadable):
        read_recipe(file, ask=lambda _: None)


@pytest.mark.parametrize(
    "call",
    ['import ./lib/x.nix { sm = "9.0"; }', '{ ... }@given: import ./lib/x.nix (given // { sm = "9.0"; })'],
)
def test_a_wrapper_is_followed_to_what_it_passes(call: str, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/x.nix").write_text(
        '{ sm, isa ? "avx2" }: { gpuTargets = [ sm ]; pname = "torch-${sm}-${isa}"; }'
    )
    (tmp_path / "w.nix").write_text(call)
    recipe = read_recipe(tmp_path / "w.nix")
    assert recipe.wrapper is not None
    assert recipe.wrapper.arguments["sm"].value == "9.0"
    assert recipe.content.path == tmp_path / "lib/x.nix"
    assert [said.value for said in recipe.content.strings("pname")] == ["torch-9.0-avx2"]
    assert recipe.content.gpu_targets[0].values == ("9.0",)


def test_wrappers_that_wrap_each_other_end_with_words(tmp_path: Path) -> None:
    (tmp_path / "a.nix").write_text("import ./b.nix { }")
    (tmp_path / "b.nix").write_text("import ./a.nix { }")
    with pytest.raises(Problem, match="8"):
        read_recipe(tmp_path / "a.nix")


@pytest.mark.parametrize(("wrappers", "followed"), [(8, True), (9, False)])
def test_a_wrapper_of_wrappers_is_followed_eight_times(wrappers: int, followed: bool, tmp_path: Path) -> None:
    for number in range(wrappers):
        (tmp_path / f"{number}.nix").write_text(f"import ./{number + 1}.nix {{ }}")
    (tmp_path / f"{wrappers}.nix").write_text('{ pname = "torch"; }')
    if followed:
        assert read_recipe(tmp_path / "0.nix").content.path == tmp_path / f"{wrappers}.nix"
    else:
        with pytest.raises(TooLarge):
            read_recipe(tmp_path / "0.nix")


def test_columns_count_characters_and_not_bytes() -> None:
    recipe = read('{ note = "ä"; pname = "x"; }')
    [pname] = recipe.strings("pname")
    assert recipe.text[pname.span.column - 1] == "x"


def test_names_are_told_where_they_first_stand() -> None:
    for name in ("torchvision", "nightly"):
        starts = [node.start_byte for node in golden(name).syntax.variables]
        assert starts == sorted(starts)


@pytest.mark.parametrize("function", ["callPackage", "pkgs.python3Packages.callPackage"])
def test_a_package_that_is_defined_in_place_counts_as_that_of_nixpkgs(function: str) -> None:
    recipe = read(f'{{ pkgs }}: {{ torch = {function} ({{ src }}: {{ pname = "own"; }}) {{ }}; }}')
    assert recipe.strings("pname")
    assert not without_definitions(recipe, ["torch"]).strings("pname")


def test_a_value_in_parentheses_has_the_place_of_its_literal() -> None:
    recipe = read('let hash = ("abc"); in { a = (hash); }')
    [said] = recipe.bound("a")
    assert (said.value, at(recipe, said.span.start, said.span.end)) == ("abc", "abc")


def test_a_name_that_is_inherited_twice_is_followed() -> None:
    [said] = read("let v = { w = 1; }; inherit (v) w; in { a = { inherit w; }; }").bound("a")
    assert said.value == {"w": 1}


def test_an_overlay_in_parentheses_changes_what_is_inside_of_them() -> None:
    packages = "(prev.python3Packages.override { overrides = pfinal: pprev: { torch = pprev.torch; }; })"
    text = f"import <nixpkgs> {{ overlays = [ (final: prev: {{ python3Packages = {packages}; }}) ]; }}"
    assert [overlay.packages for overlay in read(text).overlays] == [("python3Packages.torch",)]


def test_an_overlay_may_inherit_what_it_changes() -> None:
    text = "import <nixpkgs> { overlays = [ (final: prev: { inherit (other) magma; cudaPackages = 1; }) ]; }"
    assert [overlay.packages for overlay in read(text).overlays] == [("magma", "cudaPackages")]


def test_a_nixpkgs_that_is_inherited_is_imported_all_the_same() -> None:
    fetched = f'builtins.fetchTarball {{ url = "https://github.com/NixOS/nixpkgs/archive/{PIN}.tar.gz"; }}'
    for middle in ("", "let inherit src; in "):
        recipe = read(f"let src = {fetched}; in {middle}import src {{ config.cudaSupport = true; }}")
        assert [list(imported.config) for imported in recipe.imports] == [["cudaSupport"]]


def test_a_value_is_an_argument_if_it_is_a_default_or_is_passed_to_the_function() -> None:
    text = b'{ own ? "one" }: [ (driver { hash = "two"; }) (other { hash = "three"; }) "four" ]'
    recipe = read_text_as_recipe(text, Path("x.nix"))
    places = {}
    for word in ("one", "two", "three", "four"):
        start = text.index(word.encode())
        places[word] = recipe.is_argument(recipe.syntax.span_at(start, start + len(word)), ("driver",))
    assert places == {"one": True, "two": True, "three": False, "four": False}
