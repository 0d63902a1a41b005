"""`package add` writes what a person and Nix said, and nothing else; `package remove` takes it out again."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.building.conftest import ISA
from tests.cli.conftest import Call
from tests.nix.conftest import MINI
from torchsmith.core.problem import Where
from torchsmith.core.toml_edit import drop, set_list
from torchsmith.edit.package_entry import _in_template, gpu_lists
from torchsmith.nix.errors import Cause
from torchsmith.nix.worker import EvalResult

TOML = f"""\
format = 1 # mine

# the one block
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["12.8", "cpu"]
sm = ["sm90"]
isa = ["{ISA}"]
"""
STATE = {".git", ".torchsmith"}
CELL = f"python313-cuda12_8-sm90-{ISA}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/torchsmith.toml").write_text(TOML)
    return tmp_path / "w"


def files(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file() and not STATE & {*path.parts})
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


@pytest.mark.needs("nix")
def test_nix_says_what_a_package_needs_and_recipes_evaluate(root: Path, nix_here: Path, call: Call) -> None:
    (root / "catalog").mkdir()
    (root / "catalog/packages.toml").write_text("# ours\n\n[xformers] # changed\norder = 41\n")
    added = call("package", "add", "torchmix", "--title", "TorchMix", "-w", str(root))
    assert added.code == 0, added.err
    assert "needs pytorch\n" in added.out
    text = (root / "catalog/packages.toml").read_text()
    assert text.startswith("# ours\n\n[xformers] # changed\norder = 41\n")
    entry = tomllib.loads(text)["torchmix"]
    assert (entry["needs"], entry["modules"], entry["title"]) == (["pytorch"], ["torchmix"], "TorchMix")
    assert "gpu_list" not in entry, "its torch tells it"
    assert tomllib.loads((root / "catalog/pins.toml").read_text())["6a030d5"]["torchmix"] == "0.3.0"
    settings = (root / "torchsmith.toml").read_text()
    listed = 'packages = ["pytorch", "torchvision", "torchaudio", "torchmix"]\n'
    assert settings == TOML.replace("# mine\n", f"# mine\n{listed}")
    assert not [*root.rglob("*.nix")], "recipes follow by apply"
    assert call("apply", "-w", str(root)).code == 0
    result = call("eval", "package:torchmix", "--json", "-w", str(root))
    assert (result.code, len(json.loads(result.out)["recipes"])) == (0, 2), result.out
    judged = call("audit", str(root), "--eval", "--json")
    assert json.loads(judged.out)["findings"] == []


def text_of(report: dict[str, Any], path: str) -> str:
    return str(next(file["after"] for file in report["files"] if file["path"] == path))


@pytest.mark.needs("nix")
def test_other_packages_of_the_matrix_below_it_are_found(root: Path, nix_here: Path, call: Call) -> None:
    (root / "catalog").mkdir()
    # The built-in entries step aside, so that the attributes are free.
    (root / "catalog/packages.toml").write_text('[vllm]\nattr = "elsewhere"\nmodules = []\n')
    added = json.loads(call("package", "add", "serving", "--attr", "vllm", "--json", "-w", str(root)).out)
    assert added["needs"] == ["pytorch", "torchvision", "torchaudio", "xformers", "bitsandbytes"]
    ways = tomllib.loads(text_of(added, "catalog/packages.toml"))["serving"]["gpu_list"]
    assert {"by": "cmake", "name": "CUTLASS_NVCC_ARCHS_ENABLED", "form": "90"} in (
        ways if isinstance(ways, list) else [ways]
    )


@pytest.mark.needs("nix")
def test_what_nix_refuses_is_left_out_with_its_own_error(root: Path, nix_here: Path, call: Call) -> None:
    (root / "catalog").mkdir()
    (root / "catalog/packages.toml").write_text('[flash-attn]\nattr = "elsewhere"\nmodules = []\n')
    added = call("package", "add", "flash", "--attr", "flash-attn", "--json", "-w", str(root))
    told = json.loads(added.out)
    assert told["cells"] == [f"flash-{CELL}"]
    assert list(told["left_out"]) == [f"flash-python313-cpu-{ISA}"]
    entry = tomllib.loads(text_of(told, "catalog/packages.toml"))["flash"]
    assert entry["needs_cuda"] is True


@pytest.mark.needs("nix")
def test_a_package_that_the_matrix_does_not_have_everywhere_says_where(
    root: Path, nix_here: Path, call: Call
) -> None:
    own = 'packages = ["pytorch"]\nline = "2.10"\npython = ["3.12"]\ncuda = ["cpu"]\n'
    (root / "torchsmith.toml").write_text(f'{TOML}[[matrix]]\n{own}isa = ["{ISA}"]\n')
    report = json.loads(call("package", "add", "torchmix", "--json", "-w", str(root)).out)
    assert f"torchmix-python312-cpu-{ISA}" in report["left_out"]


def test_a_package_that_no_build_can_have_is_refused_with_the_reason_and_where_it_can_be(
    root: Path, call: Call
) -> None:
    (root / "torchsmith.toml").write_text(TOML.replace('"12.8", "cpu"', '"13.0"'))
    refused = call("package", "add", "vllm", "-w", root)
    assert (refused.code, refused.error) == (1, "cannot-build")
    assert (
        "no build of this workspace can have vllm; for 1 of 1: vLLM: its cupy asks for cuDNN 8.9"
        in refused.err
    )
    assert "CUDA 12.8" in refused.err
    assert "vllm" not in (root / "torchsmith.toml").read_text()


def test_facts_of_the_sample_are_not_written_about_a_package(root: Path, call: Call) -> None:
    before = files(root)
    refused = call("package", "add", "torchmix", "-w", root, "--nixpkgs", "sample")
    assert (refused.code, refused.error) == (2, "invalid")
    assert files(root) == before


@pytest.mark.needs("nix")
def test_removing_gives_back_what_was_there(root: Path, nix_here: Path, call: Call) -> None:
    settings = root / "torchsmith.toml"
    settings.write_bytes(settings.read_bytes().replace(b"\n", b"\r\n"))
    (root / "catalog").mkdir()
    (root / "catalog/pins.toml").write_bytes(b'"6a030d5".unproved = "ours" # \r\n')
    assert call("apply", "-w", str(root)).code == 0
    before = files(root)
    sort = ("cudasort", "--gpu-list", "variable:CUDASORT_ARCHS:90")
    assert call("package", "add", *sort, "-w", str(root)).code == 0
    assert call("apply", "-w", str(root)).code == 0
    assert (root / f"build-cudasort/.flox/pkgs/cudasort-{CELL}.nix").exists()
    for name in ("torchsmith.toml", "catalog/pins.toml"):
        text = (root / name).read_bytes()
        assert text != before[name]
        assert text.count(b"\n") == text.count(b"\r\n")
    assert call("package", "remove", "cudasort", "-w", str(root)).code == 0
    assert call("apply", "-w", str(root)).error == "refused", "a deletion is asked for"
    assert call("apply", "-w", str(root), "--yes").code == 0
    after = files(root)
    assert not [path for path in after if "build-cudasort" in path]
    left = after.pop("torchsmith.toml").decode().replace("\r\n", "\n")
    assert left.replace('packages = ["pytorch", "torchvision", "torchaudio"]\n', "") == TOML
    before.pop("torchsmith.toml")
    copies = [after.pop(f"catalog/{name}.toml.orig") for name in ("packages", "pins")]
    assert all(b"cudasort" in text for text in copies), "git has them not"
    assert {path: text for path, text in after.items() if "cudasort" not in path} == before


@pytest.mark.needs("nix")
@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["torchmux"], "not-found", "torchmix?"),
        (["zzz"], "not-found", "templates/zzz.nix"),
        (["cudasort"], "incomplete", "--gpu-list"),
        (["torchmix", "--version", "0.9"], "incomplete", "--source"),
    ],
)
def test_what_only_nix_can_tell(
    words: list[str], code: str, hint: str, root: Path, nix_here: Path, call: Call
) -> None:
    before = files(root)
    result = call("package", "add", *words, "-w", str(root), "--json")
    error = json.loads(result.out)["error"]
    assert (result.code, error["code"], hint in error["hint"]) == (2, code, True), error
    assert words[-1] in error["message"]
    assert files(root) == before


@pytest.mark.needs("nix")
def test_a_system_that_lacks_a_package_is_not_asked_for_its_derivation(
    root: Path, tmp_path: Path, nix_here: Path, call: Call
) -> None:
    """The probe of the tree says so; the package there is no derivation at all."""
    (tmp_path / "tree/lib").mkdir(parents=True)
    (tmp_path / "tree/lib/default.nix").write_text("import MINI/lib\n".replace("MINI", str(MINI)))
    (tmp_path / "tree/default.nix").write_text(
        f"""args: let pkgs = import {MINI} args; in pkgs // {{
          python3Packages = pkgs.python3Packages // {{
            torchmix = {{ version = "9"; meta.available = false; }};
          }};
        }}"""
    )
    words = ("--nixpkgs", str(tmp_path / "tree"), "-w", str(root), "--json")
    error = json.loads(call("package", "add", "torchmix", *words).out)["error"]
    assert (error["code"], "not available on" in error["message"]) == ("cannot-build", True), error


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["add", "Mix"], "invalid", "lower-case"),
        (["add", "a-python3"], "invalid", "lower-case"),
        (["add", "mix", "--attr", "a b"], "invalid", "nixpkgs'"),
        (["add", "xformers", "--title", "X"], "exists", "package add xformers, without other options"),
        (["add", "torchvision"], "exists", "; torchsmith package remove"),
        (["add", "pytorch"], "exists", "it is in this workspace"),
        (["add", "mix", "--attr", "flash-attn"], "exists", "flash-attn"),
        (["add", "mix", "--source", "gitlab:a/b"], "invalid", "github:"),
        (["add", "mix", "--source", "github:a/b", "--tag", "v1"], "invalid", "v{version}"),
        (["add", "mix", "--tag", "v{version}"], "incomplete", "--source"),
        (["add", "mix", "--gpu-list", "TORCH"], "invalid", "variable:"),
        (["add", "mix", "--gpu-list", "cmake:X:12"], "invalid", "variable:"),
        (["remove", "mix"], "not-known", ""),
        (["remove", "pytorch"], "conflict", ""),
        (["remove", "xformers"], "not-found", "list"),
    ],
)
def test_a_bad_request_is_refused_before_nix_is_asked(
    words: list[str], code: str, hint: str, root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    result = call("package", *words, "-w", str(root), "--json")
    error = json.loads(result.out)["error"]
    assert (result.code, error["code"], hint in error["hint"]) == (2, code, True), error
    assert error["where"] is None  # torchsmith's own files are not at fault
    assert words != ["add", "pytorch"] or "remove" not in error["hint"]


def test_cells_that_are_named_one_by_one_go_with_their_package(tmp_path: Path, call: Call) -> None:
    cell = ("--cell", f"pytorch-{CELL}")
    assert call("init", str(tmp_path), *cell).code == call("apply", "-w", str(tmp_path)).code == 0
    removed = call("package", "remove", "torchvision", "-w", str(tmp_path))
    assert removed.code == 0
    asked = tomllib.loads((tmp_path / "torchsmith.toml").read_text())
    assert asked["include"] == [f"pytorch-{CELL}", f"torchaudio-{CELL}"]
    assert call("apply", "-w", str(tmp_path), "--yes").code == 0
    assert not [*tmp_path.glob("build-torchvision/.flox/pkgs/*.nix")]
    assert call("apply", "-w", str(tmp_path), "--check").code == 0


def test_a_built_in_package_is_added_without_asking_nix(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert call("package", "add", "xformers", "-w", str(root)).code == 0
    assert tomllib.loads((root / "torchsmith.toml").read_text())["packages"][-1] == "xformers"
    assert not (root / "catalog").exists()
    assert call("package", "remove", "xformers", "-w", str(root)).code == 0
    assert "xformers" not in (root / "torchsmith.toml").read_text()


def test_a_package_is_added_to_builds_that_are_named_one_by_one(tmp_path: Path, call: Call) -> None:
    assert call("init", tmp_path, "--cell", f"pytorch-python313-cuda12_8-sm90-{ISA}").code == 0
    before = (tmp_path / "torchsmith.toml").read_text()
    assert call("package", "add", "vllm", "-w", tmp_path).code == 0
    assert f"vllm-python313-cuda12_8-sm90-{ISA}" in call("list", "--names", "-w", tmp_path).out.split()
    assert call("package", "remove", "vllm", "-w", tmp_path).code == 0
    after = (tmp_path / "torchsmith.toml").read_text()
    assert tomllib.loads(after) == tomllib.loads(before)


def test_a_package_that_another_needs_stays(root: Path, call: Call) -> None:
    (root / "catalog").mkdir()
    entry = '[{}]\ntitle = "x"\nattr = "{}"\nneeds = ["pytorch"{}]\nsource = "a test"\n'
    text = entry.format("mix", "mix", "") + entry.format("mux", "mux", ', "mix"')
    (root / "catalog/packages.toml").write_text(text)
    result = call("package", "remove", "mix", "-w", str(root), "--json")
    error = json.loads(result.out)["error"]
    assert (result.code, error["code"], error["where"][-18:]) == (2, "conflict", "/packages.toml:9:1")


def test_packages_are_listed_with_their_cells(root: Path, call: Call) -> None:
    rows = json.loads(call("package", "list", "--json", "-w", str(root)).out)["packages"]
    found = {row["name"]: row for row in rows}
    assert (found["pytorch"]["cells"], found["vllm"]["cells"], found["vllm"]["own"]) == (2, 0, False)
    assert found["vllm"]["releases"]["2.10"] == "0.11.0"
    assert "vllm" in call("package", "list", "-w", str(root)).out


@pytest.mark.parametrize(
    ("told", "torch", "found"),
    [
        ({"TORCH_CUDA_ARCH_LIST": "8.0;9.0"}, True, []),
        ({"TORCH_CUDA_ARCH_LIST": "8.0;9.0"}, False, [("variable", "TORCH_CUDA_ARCH_LIST", "9.0")]),
        ({"FOO_CUDA_ARCHS": "80;90"}, True, [("variable", "FOO_CUDA_ARCHS", "90")]),
        (
            {"cmakeFlags": "-DX=1 -DCMAKE_CUDA_ARCHITECTURES:STRING=80;90"},
            False,
            [("cmake", "CMAKE_CUDA_ARCHITECTURES", "90-real")],
        ),
        ({"version": "8.0", "ARCH": "x86_64", "pname": "90"}, False, []),
    ],
)
def test_the_gpu_list_is_read_off_the_derivation(
    told: dict[str, str], torch: bool, found: list[tuple[str, str, str]]
) -> None:
    assert [(one.by, one.name, one.form) for one in gpu_lists(told, with_torch=torch)] == found


def test_a_list_is_edited_with_its_comments() -> None:
    text = 'format = 1\npackages = [\n  "a", # first\n  "b", # second\n]\n\n[x]\npackages = ["z"]\n'
    for wanted in (["a", "b", "c"], ["a"], ["b"], ["c"], []):
        made = set_list(text, "packages", wanted)
        assert tomllib.loads(made)["packages"] == wanted
        assert tomllib.loads(made)["x"] == {"packages": ["z"]}
        assert [f"# {word}" in made for word in ("first", "second")] == [one in wanted for one in "ab"]
    assert set_list("# top\nformat = 1", "packages", ["a"]) == '# top\nformat = 1\npackages = ["a"]\n'


def test_a_table_goes_with_what_is_below_it_and_comments_stay() -> None:
    text = "# top\n\n[a]\nx = 1\n\n# about b\n[b]\ny = 1\n[b.c]\nz = 1\n\n[d]\nw = 1\n"
    assert drop(text, "b") == "# top\n\n[a]\nx = 1\n\n# about b\n[d]\nw = 1\n"
    assert tomllib.loads(drop(text, "d", "w")).keys() == {"a", "b"}
    assert drop("[d]\nv = 1\nw = 2 # two\n", "d", "w") == "[d]\nv = 1\n"


def test_an_error_in_a_template_names_the_template() -> None:
    recipe, template = Path("/r/x.nix"), Where("torchmix.nix.tmpl", 7)
    result = EvalResult("x", recipe, 0.0, cause=Cause("undefined variable", Where(str(recipe), 3)))
    told = _in_template(result, {str(recipe): {3: template}})
    assert told.cause is not None
    assert told.cause.message == "torchmix.nix.tmpl:7: undefined variable"
