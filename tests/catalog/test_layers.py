"""New hardware and releases are a TOML edit and no Python."""

from pathlib import Path

import pytest

from torchsmith.catalog import Sm, builtin_catalog, load_catalog
from torchsmith.catalog.check import Contradiction
from torchsmith.core.problem import Invalid, NotKnown, Problem
from torchsmith.workspace.load import open_workspace

NEW_CATALOG = {
    "gpus": """
        [sm130]
        generation = "Rubin"
        title = "R100"
        parts = ["R100"]
        platforms = ["x86_64-linux"]
        min_driver = "600"
        source = "a rumour"
    """,
    "isas": """
        [avx10]
        title = "AVX10"
        platform = "x86_64-linux"
        level = 9
        flags = ["-mavx10.1"]
        macros = ["__AVX10_1__"]
        features = ["avx", "avx2"]
        first_cpus = ["Diamond Rapids"]
        source = "a rumour"
    """,
    "cuda": """
        ["14.0"]
        targets = ["100", "130"]
        min_driver = "600"
        attr = "cudaPackages_14_0"
        source = "a rumour"
    """,
    "pins": """
        [abcdef0]
        rev = "abcdef0123456789abcdef0123456789abcdef01"
        cudas = ["14.0"]
        pythons = ["3.13"]
        source = "a rumour"
        unproved = "nobody has it"
    """,
    "lines": """
        ["3.0"]
        prefix = "pytorch30"
        torch = "3.0.0"
        torchvision = "0.40.0"
        torchaudio = "3.0.0"
        pythons = ["3.13"]
        source = "a rumour"

        ["3.0".cuda."14.0"]
        pin = "abcdef0"
    """,
}
WORKSPACE = """
format = 1

[[matrix]]
line = "3.0"
packages = ["pytorch"]
python = ["3.13"]
cuda = ["14.0"]
sm = ["sm100", "sm130"]
isa = ["avx2", "avx10"]
"""


OWN_LINE = """\
["2.10-ours"]
prefix = "pytorch210"
torch = "2.10.0"
torchvision = "0.25.0"
pythons = ["3.13"]
source = "us"

["2.10-ours".cuda."13.0"]
pin = "6a030d5"
fixes = ["cuda-package-set"]
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    (folder / "catalog").mkdir()
    for name, text in files.items():
        (folder / "catalog" / f"{name}.toml").write_text(text)
    return folder


def test_one_new_entry_of_each_kind_expands_to_a_matrix(tmp_path: Path) -> None:
    write(tmp_path, NEW_CATALOG)
    (tmp_path / "torchsmith.toml").write_text(WORKSPACE)
    names = [cell.name for cell in open_workspace(tmp_path).matrix.cells]
    assert names == [
        "pytorch-python313-cuda14_0-sm100-avx10",
        "pytorch-python313-cuda14_0-sm100-avx2",
        "pytorch-python313-cuda14_0-sm130-avx10",
        "pytorch-python313-cuda14_0-sm130-avx2",
    ]


def test_a_list_is_added_to_without_copying_it(tmp_path: Path) -> None:
    new = NEW_CATALOG["gpus"].replace("parts =", "parts.add =")
    write(tmp_path, {"gpus": '[sm90]\nparts.add = ["H900", "H100"]\n' + new})
    gpus = load_catalog(tmp_path / "catalog").gpus
    assert gpus[Sm(90)].parts == ("H100", "H200", "H800", "H20", "GH200", "H900")
    assert gpus[Sm(130)].parts == ("R100",)


def test_a_layer_may_change_one_field_and_leave_the_rest(tmp_path: Path) -> None:
    write(tmp_path, {"gpus": '[sm90]\nmin_driver = "999"\n'})
    changed = load_catalog(tmp_path / "catalog").gpus[Sm(90)]
    assert str(changed.min_driver) == "999"
    assert "H200" in changed.parts


@pytest.mark.parametrize(
    ("file", "text", "at", "kind", "said"),
    [
        ("gpus", "[sm90]\nmin_drivr = '1'\n", "2:1", NotKnown, "min_driver?"),
        ("gpus", "[sm90]\nparts = 'H100'\n", "2:1", Invalid, "a list"),
        ("gpus", "[sm90]\nmin_driver = 'new'\n", "2:1", Invalid, "'new'"),
        ("gpus", "[sm90\n", "1:6", Invalid, "TOML"),
        ("gpus", "sm90 = 1\n", "1:1", Invalid, "sm90"),
        ("lines", '["2.10".cpu]\n["2.10".cuda."13.0"]\npim = "x"\n', "3:1", NotKnown, "pin?"),
        ("lines", '["2.10"]\ntorchvision = 0.25\n', "2:1", Invalid, "(in torchvision)"),
        ("pins", "\n[[6a030d5.limits.add]]\nsms = []\n", "2:3", Invalid, "(in limits)"),
        (
            "pins",
            '[6a030d5.limits.a]\nreason = "x"\n[6a030d5.limits.b]\nreason = 3\n',
            "4:1",
            Invalid,
            "(in limits.b.reason)",
        ),
        ("lines", '["2.10".cuda."13.0"]\npin = "nowhere"\n', "2:1", Contradiction, "'nowhere'"),
        ("lines", '["2.8".cuda."12.8"]\nfixes = ["magma-cuda13"]\n', "2:1", Contradiction, "magma-cuda13"),
        ("gpu", "", "", NotKnown, "gpu.toml"),
        ("lines", OWN_LINE, "9:1", Contradiction, "2.9.1"),
        ("cuda", '["13.2"]\nattr = "cudaPackages_13.2"\n', "2:1", Contradiction, "'cudaPackages_13.2'"),
        ("cuda", '["13.2"]\nattr = "cudaPackages_13_3"\n', "2:1", Contradiction, "'cudaPackages_13_3'"),
        ("gpus", '[sm90]\nparts.add = ["RTX 4090"]\n', "2:1", Contradiction, "RTX 4090"),
        ("lines", '["2.8"]\ntorch = "2.7.1"\n', "1:2", Contradiction, "pytorch28"),
        ("lines", '["2.13".cuda."13.0"]\nunproved = ""\n', "1:2", Contradiction, "2.13"),
        ("cpus", "[zen4]\nproducts.add = ['EPYC (']\n", "2:1", Contradiction, "'EPYC ('"),
        ("pins", '[6a030d5]\nrev = "' + "0" * 40 + '"\n', "2:1", Contradiction, "6a030d5"),
    ],
)
def test_a_fault_in_a_catalog_file_is_placed_and_named(
    tmp_path: Path, file: str, text: str, at: str, kind: type[Problem], said: str
) -> None:
    write(tmp_path, {file: text})
    with pytest.raises(kind) as caught:
        load_catalog(tmp_path / "catalog")
    assert str(caught.value.where) == str(tmp_path / f"catalog/{file}.toml") + (at and f":{at}")
    assert said in str(caught.value)


def test_a_workspace_with_templates_alone_has_them(tmp_path: Path) -> None:
    folder = tmp_path / "catalog"
    assert load_catalog(folder) is builtin_catalog()
    template = tmp_path / "templates" / "mine.nix"
    template.parent.mkdir()
    template.write_text("{ }\n")
    assert load_catalog(folder).template_of("mine") == str(template)
