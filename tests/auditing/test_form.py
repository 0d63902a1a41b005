"""Recipes of many cells are judged once: never with another verdict than each would get alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from torchsmith.auditing import run
from torchsmith.auditing.context import Context
from torchsmith.auditing.finding import Severity
from torchsmith.auditing.rule import Defect, Rule, find_rule, rules_over
from torchsmith.auditing.suppress import RuleSelection
from torchsmith.catalog import Gpu, Isa, builtin_catalog
from torchsmith.recipe.read import read_text_as_recipe
from torchsmith.workspace.load import SettingsFile, Workspace, parse_settings
from torchsmith.workspace.subject import Subject
from torchsmith.workspace.wanted import wanted_repos

CATALOG = builtin_catalog()
GPUS = [CATALOG.gpus[sm] for sm in CATALOG.gpus if str(sm) in ("sm75", "sm90")]
ISAS = [CATALOG.isas[name] for name in ("avx2", "avx512")]
SETTINGS = """format = 1
packages = ["pytorch"]
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["12.8"]
sm = ["sm75", "sm90"]
isa = ["avx2", "avx512"]
"""
IN_KEY = {"platforms", "tegra", "cpus", "never_called", "platform", "torch_off"}
ALIKE = {
    "source",
    "unproved",
    "note",
    "words",
    "beyond_flags",
    "other_flags",
    "last_driver",
    "torch_drops",
}  # the cells here may have one value of it
Seen = list[tuple[str, int, str]]


def generated(settings: str) -> tuple[Workspace, dict[str, str]]:
    """A workspace, and the text of each of its recipes by name."""
    source = SettingsFile("form", settings)
    workspace = Workspace(None, source, parse_settings(source), CATALOG, "")
    repos = wanted_repos(workspace)
    return workspace, {file.cell: file.text for repo in repos for file in repo.files if file.cell}


@pytest.fixture(scope="module")
def right() -> dict[str, str]:
    """One recipe for each GPU and each instruction set, without a header, as if written by hand."""
    texts = generated(SETTINGS)[1]
    diagonal = [f"-{gpu.name}-{isa.name}" for gpu, isa in zip(GPUS, ISAS, strict=True)]
    chosen = {name: text.partition("\n")[2] for name, text in texts.items() if name.endswith(tuple(diagonal))}
    assert len(chosen) == len(diagonal)
    return chosen


def judged(files: Sequence[Path], contexts: Iterator[Context]) -> dict[str, Seen]:
    return {
        file.stem: [
            (one.rule, one.where.line, one.message)
            for one in run.check_file(file, file.stem, True, context).findings
        ]
        for file, context in zip(files, contexts, strict=False)
    }


def new_contexts() -> Iterator[Context]:
    while True:
        yield Context(CATALOG, RuleSelection(), {})


def differences(folder: Path, recipes: dict[str, str]) -> list[tuple[str, Seen, Seen]]:
    """Where a recipe that is judged after others, in either order, gets another verdict than alone."""
    files = [folder / f"{name}.nix" for name in sorted(recipes)]
    for file in files:
        file.write_text(recipes[file.stem])
    alone = judged(files, new_contexts())
    found = []
    for order in (files, files[::-1]):
        together = judged(order, iter([next(new_contexts())] * len(order)))
        found += [(name, alone[name], together[name]) for name in alone if together[name] != alone[name]]
    return found


def commented(*words: str) -> list[tuple[str, str]]:
    return [("let\n", f"# Good for {word}.\nlet\n") for word in words]


def of_gpu(gpu: Gpu) -> list[tuple[str, str]]:
    number, capability = gpu.sm.number, gpu.sm.capability
    return [
        *commented(gpu.name, gpu.title, gpu.generation, *gpu.parts[:3], *gpu.also_called[:2], *gpu.vgpus[:1]),
        *commented(f"driver {gpu.min_driver} or newer", f"capability {capability}"),
        ("let\n", f'let\n  gpuArchNum = "{number}";\n'),
        ("gpuTargets = [ gpuArchSM ]", f'gpuTargets = [ "{capability}" ]'),
        ("export CFLAGS", f"export TORCH_CUDA_ARCH_LIST={capability}\n        export CFLAGS"),
        ("export CFLAGS", f"export TORCH_CUDA_ARCH_LIST='{capability}+PTX'\n        export CFLAGS"),
    ]


def of_isa(isa: Isa) -> list[tuple[str, str]]:
    flags = " ".join(isa.flags)
    return [
        *commented(isa.name, isa.title, *isa.words[:2], *isa.first_cpus[:2], *sorted(isa.features)[:3]),
        *commented(f"first in {', '.join(isa.first_cpus)}"),
        ('export CXXFLAGS="${toString cpuFlags} ', f'export CXXFLAGS="{flags} '),
        (
            "cpuFlags = [",
            f"otherFlags = [ {' '.join(map(repr, isa.flags))} ];\n  cpuFlags = [".replace("'", '"'),
        ),
    ]


ANYWHERE = [
    ("let\n", "let\n"),
    ("export CFLAGS", "export USE_CUDNN=0\n        export CFLAGS"),
    *(("6a030d535719c5190187c4cec156f335e95e3211", pin.rev) for pin in CATALOG.pins.values()),
]
EDITS = [
    *ANYWHERE,
    *(edit for gpu in GPUS for edit in of_gpu(gpu)),
    *(edit for isa in ISAS for edit in of_isa(isa)),
]


def test_what_is_right_in_one_cell_is_not_taken_as_right_in_the_next(
    tmp_path: Path, right: dict[str, str]
) -> None:
    for old, new in EDITS:
        assert all(old in text for text in right.values()), old
        edited = {name: text.replace(old, new, 1) for name, text in right.items()}
        assert not differences(tmp_path, edited), new


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, one.name) for kind in (Gpu, Isa) for one in msgspec.structs.fields(kind)],
)
def test_a_rule_that_reads_what_the_forms_leave_out_would_be_noticed(
    tmp_path: Path, right: dict[str, str], monkeypatch: pytest.MonkeyPatch, kind: type, field: str
) -> None:
    """A made-up rule that complains of every value of a field but one."""
    entries: Sequence[Gpu | Isa] = GPUS if kind is Gpu else ISAS
    values = [getattr(one, field) for one in entries]

    def check(subject: Subject) -> Iterator[Defect]:
        if getattr(subject.gpu if kind is Gpu else subject.isa, field) != values[0]:
            yield Defect("reads a field that forms leave out")

    extra = Rule("TS999", "made up", find_rule("TS401").severity, "recipe", "gpu", check)
    more = lambda over: (*rules_over(over), *([extra] * (over == "recipe")))  # noqa: E731
    monkeypatch.setattr("torchsmith.auditing.context.rules_over", more)
    differ = any(value != values[0] for value in values)
    assert bool(differences(tmp_path, right)) == (differ and field not in IN_KEY)
    assert differ or field in IN_KEY | ALIKE


def test_a_python_is_blanked_and_another_one_is_not(tmp_path: Path) -> None:
    settings = SETTINGS.replace('"3.13"', '"3.11", "3.12"').replace('"sm75", ', "").replace('"avx2", ', "")
    texts = {name: text.partition("\n")[2] for name, text in generated(settings)[1].items()}
    forms = Context(CATALOG, RuleSelection(), {}).forms
    assert len(texts) == 2
    assert len({forms.of(name, text, None) for name, text in texts.items()} - {None}) == 1
    named = commented("Python 3.11", "Python: 3.12", "python312", "pytorch-python311-cuda12_8-sm90-avx512")
    sets = [
        ("let\n", f"let\n  names = pkgs: pkgs.{attr};\n") for attr in ("python3Packages", "python311Packages")
    ]
    for old, new in (*named, *sets):
        edited = {name: text.replace(old, new, 1) for name, text in texts.items()}
        assert edited != texts, old
        assert not differences(tmp_path, edited), new


EVERYTHING = """format = 1
packages = ["pytorch", "xformers", "flash-attn", "bitsandbytes", "torchsde", "vllm", "onnxruntime"]
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["12.8"]
sm = ["sm89", "sm90"]
isa = ["avx", "avx512"]
"""


def test_recipes_of_every_package_have_a_form_and_no_error() -> None:
    workspace, texts = generated(EVERYTHING)
    assert len(texts) > 20
    context = Context(CATALOG, RuleSelection(), workspace.lines)
    forms = {name: context.forms.of(name, text, workspace.lines[name]) for name, text in texts.items()}
    assert [name for name, form in forms.items() if form is None] == []
    assert len(set(forms.values())) <= 2 * 7  # of each package one for avx, which switches parts of torch off
    for name, text in texts.items():
        recipe = read_text_as_recipe(text.encode(), Path(f"{name}.nix"))
        findings = run.check_recipe(recipe, name, context).findings
        assert [one for one in findings if one.severity is not Severity.NOTE] == []
