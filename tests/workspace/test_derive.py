"""A torchsmith.toml read off recipes that are there: all possible cells and no other, and plan keeps them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Problem
from torchsmith.edit.package import propose_removal
from torchsmith.edit.plan import plan_workspace
from torchsmith.matrix import Accepted, Cell, Variant, assess
from torchsmith.matrix.text import products_of
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.workspace.load import open_workspace, read_as
from torchsmith.workspace.start import derive_workspace, write_derived

CATALOG = builtin_catalog()
OTHER_HANDS = Path(__file__).parents[1] / "auditing/other-hands"
TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0", "12.9"]
sm = ["sm90", "sm120"]
isa = ["avx2", "avx512"]
[[matrix]]
line = "2.10"
packages = ["pytorch"]
python = ["3.12", "3.13"]
cuda = ["cpu"]
isa = ["avx2", "armv9"]
"""


def repository(folder: Path, *names: str, manner: str = "other-ways-to-configure") -> Path:
    """A repository whose recipes are copies of one, under these names."""
    (pkgs := folder / ".flox/pkgs").mkdir(parents=True)
    (recipe,) = (OTHER_HANDS / manner).glob("*.nix")
    for name in names:
        shutil.copy(recipe, pkgs / f"{name}.nix")
    return folder


def test_what_was_generated_is_derived_again(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    before = open_workspace(tmp_path).matrix.cells
    (tmp_path / "torchsmith.toml").unlink()
    derived = derive_workspace(sorted(tmp_path.glob("build-*")))
    write_derived(derived)
    assert not derived.left_out
    assert not derived.folders
    assert [(cell.name, cell.line) for cell in open_workspace(tmp_path).matrix.cells] == [
        (cell.name, cell.line) for cell in before
    ]
    assert {one.kind for one in plan_workspace(tmp_path).changes} == {"keep"}


def test_packages_of_one_repository_stay_there(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    (tmp_path / "torchsmith.toml").unlink()
    for recipe in tmp_path.glob("build-torchvision/.flox/pkgs/*.nix"):
        recipe.rename(tmp_path / "build-pytorch/.flox/pkgs" / recipe.name)
    shutil.rmtree(tmp_path / "build-torchvision")
    derived = derive_workspace(sorted(tmp_path.glob("build-*")))
    write_derived(derived)
    assert derived.folders == {"torchvision": "build-pytorch"}
    planned = plan_workspace(tmp_path).changes
    assert {one.kind for one in planned if one.recipe} == {"keep"}
    assert {one.path.partition("/")[0] for one in planned} == {"build-pytorch", "build-torchaudio"}
    [rewritten] = [one for one in planned if one.path == "build-pytorch/default.nix"]
    assert '(./.flox/pkgs + "/torchvision-${cell}.nix")' in (rewritten.after or "")
    propose_removal(open_workspace(tmp_path), "torchvision").write("package remove", 0)
    gone = [one for one in plan_workspace(tmp_path).changes if one.kind == "delete" and one.recipe]
    assert {Path(one.path).name.partition("-")[0] for one in gone} == {"torchvision"}


def test_recipes_of_other_hands_are_kept_and_the_rest_is_told(tmp_path: Path) -> None:
    right = "pytorch-python313-cuda12_9-sm90-avx2"
    names = (right, "pytorch-python313-cuda13_0-sm70-avx2", "pytorch-python313-xpu-arc")
    repo = repository(tmp_path / "torch-for-us", *names)
    derived = derive_workspace([repo])
    write_derived(derived)
    assert [one.name for one in derived.left_out] == [names[1], names[2]]
    assert derived.folders == {"pytorch": "torch-for-us"}
    assert [cell.name for cell in open_workspace(tmp_path).matrix.cells] == [right]
    planned = {one.path: one.kind for one in plan_workspace(tmp_path).changes if one.recipe}
    assert planned[f"torch-for-us/.flox/pkgs/{right}.nix"] == "keep"
    assert not {"create", "rewrite"}.intersection(planned.values())


def test_the_workspace_is_the_folder_that_holds_the_repositories(tmp_path: Path) -> None:
    repository(tmp_path / "theirs/build-pytorch", "pytorch-python313-cuda12_9-sm90-avx2")
    for named in ("theirs", "theirs/build-pytorch"):
        derived = derive_workspace([tmp_path / named], "2.9")
        assert derived.file.resolve() == tmp_path / "theirs/torchsmith.toml"


def test_a_release_that_nothing_tells_is_asked_for_and_not_guessed(tmp_path: Path) -> None:
    name = "pytorch-python313-cuda12_9-sm90-avx512"
    repo = repository(tmp_path / "build-pytorch", name, manner="pin-that-nobody-knows")
    with pytest.raises(Problem, match="--line"):
        derive_workspace([repo])
    assert [cell.line for cell in derive_workspace([repo], "2.9").cells] == ["2.9"]


def test_a_recipe_that_cannot_be_parsed_is_listed_and_the_others_are_taken_in(tmp_path: Path) -> None:
    names = [f"pytorch-python313-cuda12_9-{sm}-avx2" for sm in ("sm90", "sm100", "sm120")]
    repo = repository(tmp_path / "build-pytorch", *names)
    broken = repo / f".flox/pkgs/{names[1]}.nix"
    broken.write_text(broken.read_text() + "}\n")
    for line in (None, "2.9"):
        derived = derive_workspace([repo], line)
        assert {cell.name for cell in derived.cells} == {names[0], names[2]}
        assert [skipped.name for skipped in derived.left_out] == [names[1]]


def test_a_recipe_without_a_release_is_left_out_with_the_way_to_state_it(tmp_path: Path) -> None:
    names = [f"pytorch-python313-cuda12_9-{sm}-avx2" for sm in ("sm90", "sm100", "sm120")]
    repo = repository(tmp_path / "build-pytorch", *names, manner="pin-that-nobody-knows")
    for name in names[:2]:
        recipe = repo / f".flox/pkgs/{name}.nix"
        recipe.write_text("# torchsmith: line 2.10\n" + recipe.read_text())
    derived = derive_workspace([repo])
    assert {cell.name for cell in derived.cells} == set(names[:2])
    [left] = derived.left_out
    assert left.name == names[2]
    assert "--line LINE," in left.why


def test_a_recipe_whose_torch_lacks_its_build_is_of_the_line_that_is_named(tmp_path: Path) -> None:
    names = [f"pytorch-python313-cuda13_0-{sm}-avx2" for sm in ("sm90", "sm100", "sm120", "sm70")]
    repo = repository(tmp_path / "build-pytorch", *names)
    for name in names[2:]:
        recipe = repo / f".flox/pkgs/{name}.nix"
        recipe.write_text(
            recipe.read_text().replace(CATALOG.pins["6a030d5"].rev, CATALOG.pins["fe5e41d"].rev)
        )
    stated = repo / f".flox/pkgs/{names[2].replace('avx2', 'avx512')}.nix"  # what its owner says counts
    stated.write_text("# torchsmith: line 2.8\n" + (repo / f".flox/pkgs/{names[2]}.nix").read_text())
    left = {one.name: one.why for one in derive_workspace([repo]).left_out}
    assert left.keys() == {*names[2:], stated.stem}
    assert {name for name, why in left.items() if "; --line 2.12" in why} == {names[2]}
    derived = derive_workspace([repo], "2.9")
    write_derived(derived)
    assert {one.name for one in derived.left_out} == {names[3], stated.stem}
    planned = {Path(one.path).stem: one for one in plan_workspace(tmp_path).changes if one.recipe}
    assert planned[names[2]].kind == "rewrite"


@pytest.mark.parametrize("lines", ["", '["2.9".cuda."13.0"]\npin = "6a030d5"\n'])
def test_a_nixpkgs_that_a_workspace_states_itself_is_not_replaced(lines: str, tmp_path: Path) -> None:
    repo = repository(tmp_path / "build-pytorch", name := "pytorch-python313-cuda13_0-sm90-avx2")
    recipe = repo / f".flox/pkgs/{name}.nix"
    text = recipe.read_text().replace(CATALOG.pins["6a030d5"].rev, CATALOG.pins["0182a36"].rev)
    recipe.write_text("# torchsmith: line 2.9\n" + text)
    if lines:
        (tmp_path / "catalog").mkdir()
        (tmp_path / "catalog/lines.toml").write_text(lines)
    derived = derive_workspace([repo])
    assert [*derived.pins.values()] == ([] if lines else ["0182a36"])


def test_of_two_recipes_of_a_build_the_one_left_out_names_the_other(tmp_path: Path) -> None:
    name = "torchvision-python313-cuda13_0-sm90-avx2"
    own = repository(tmp_path / "build-torchvision", name)
    repository(tmp_path / "build-pytorch", name, name.replace("torchvision", "pytorch"))
    [left] = derive_workspace([tmp_path / "build-pytorch", own]).left_out
    assert left.path.is_relative_to(own)
    assert left.why.startswith(str(tmp_path / "build-pytorch"))


def test_every_recipe_is_a_build_or_left_out_and_libraries_are_neither(tmp_path: Path) -> None:
    name = "pytorch-python313-cuda12_9-sm90-avx2"
    repo = repository(tmp_path / "build-pytorch", name, f"{name}-magma")
    (library := repo / ".flox/pkgs/lib/fixups.nix").parent.mkdir()
    for path, text in ((library, "{ }: import ./sizes.nix\n"), (library.with_name("sizes.nix"), "{ }\n")):
        path.write_text(text)
    library.with_name("unused.nix").write_text("{ }\n")
    recipe = repo / f".flox/pkgs/{name}.nix"
    recipe.write_text(recipe.read_text().rstrip() + " // import ./lib/fixups.nix { } # ./lib/unused.nix\n")
    derived = derive_workspace([repo])
    write_derived(derived)
    assert {one.name for one in derived.left_out} == {f"{name}-magma", "unused"}
    assert derived.recipes == len(derived.cells) + len(derived.left_out)
    codes = {Path(one.path).stem: one.code for one in plan_workspace(tmp_path).changes}
    assert (codes["fixups"], codes["sizes"], codes["unused"]) == ("imported", "imported", "not-wanted-valid")


def test_repositories_that_cannot_be_one_workspace_are_refused(tmp_path: Path) -> None:
    name = "pytorch-python313-cuda12_9-sm90-avx2"
    here, twice = repository(tmp_path / "a/one", name), repository(tmp_path / "a/two", name)
    apart = repository(tmp_path / "b/three", name)
    for repos in ([here, apart], [here, twice], [here / "x"], [here / ".flox/pkgs"]):
        with pytest.raises(Problem):
            derive_workspace(repos)
    write_derived(derive_workspace([here, tmp_path / "a"]))  # the folder that holds them is the workspace
    with pytest.raises(Problem, match="already"):
        write_derived(derive_workspace([here]))


CUDAS = [cuda for cuda in CATALOG.cuda if str(cuda) in ("12.8", "12.9", "13.0")]
NAMES = st.builds(
    lambda package, python, cuda, sm, isa: f"{package}-python{python}-{cuda}{sm and '-' + sm}-{isa}",
    st.sampled_from(["pytorch", "torchvision"]),
    st.sampled_from(["312", "313"]),
    st.sampled_from([f"cuda{cuda.slug}" for cuda in CUDAS]),
    st.sampled_from(["sm80", "sm89", "sm90", "sm120"]),
    st.sampled_from(["avx2", "avx512", "armv9"]),
)


@given(st.sets(NAMES, min_size=1, max_size=40))
def test_products_hold_the_cells_and_no_other(names: set[str]) -> None:
    variants = [Variant.parse(name, CATALOG) for name in sorted(names)]
    decisions = [(one, assess(one, CATALOG, "2.10")) for one in variants]
    cells = [Cell(one, how.line.name) for one, how in decisions if isinstance(how, Accepted)]
    if cells:
        text = "format = 1\n" + "".join(one.text() for one in products_of(cells))
        assert {cell.name for cell in read_as(Path("x.toml"), text).cells} == {cell.name for cell in cells}
