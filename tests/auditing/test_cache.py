"""What is kept of an audit holds as long as nothing that a judgement rests on has changed, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchsmith.auditing import run
from torchsmith.auditing.context import CheckTask, Context, FileFindings
from torchsmith.auditing.run import AuditReport, audit
from torchsmith.verbs.apply import ApplyRequest, apply

# As few recipes as are worth keeping judgements of, in two repositories.
TORCHSMITH = """format = 1
packages = ["pytorch", "torchvision"]
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["12.8"]
sm = ["sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm120"]
isa = ["avx", "avx2", "avx512", "avx512vnni"]
"""


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The files that were judged, and not looked up, one after the other."""
    monkeypatch.setenv("TORCHSMITH_CACHE", str(tmp_path / "cache"))
    names: list[str] = []
    judge = run._check

    def counted(task: CheckTask, context: Context) -> FileFindings:
        names.append(task.path.name)
        return judge(task, context)

    monkeypatch.setattr(run, "_check", counted)
    return names


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "torchsmith.toml").write_text(TORCHSMITH)
    apply(ApplyRequest(workspace=root, git=False))
    return root


def kept(root: Path) -> AuditReport:
    return audit((root,), cached=True)


def recipe_of(root: Path) -> Path:
    return min(root.glob("build-pytorch/.flox/pkgs/*-sm90-avx512.nix"))


def test_an_unchanged_repository_is_not_judged_again(workspace: Path, judged: list[str]) -> None:
    file = recipe_of(workspace)
    file.write_text(file.read_text().replace("-mavx512f", "-mavx"))
    first = kept(workspace)
    assert first.findings
    assert len(judged) >= len(list(workspace.glob("build-*/.flox/pkgs/*.nix"))) >= 56
    judged.clear()
    assert kept(workspace) == first
    assert judged == []
    assert audit((workspace,)) == first


def test_one_edit_costs_one_judgement(workspace: Path, judged: list[str]) -> None:
    clean = kept(workspace)
    judged.clear()
    file = recipe_of(workspace)
    right = file.read_text()
    file.write_text(right.replace('"-mfma"', '"-mfma" "-mavx512fp16"'))
    assert {one.rule for one in kept(workspace).findings} > {one.rule for one in clean.findings}
    assert judged == [file.name]
    judged.clear()
    file.write_text(right)
    assert kept(workspace) == clean
    assert judged == [file.name]


def changed_line(root: Path) -> None:
    (root / "torchsmith.toml").write_text(f'{TORCHSMITH}[audit]\nline = "2.9"\n')


def changed_catalog(root: Path) -> None:
    (root / "catalog").mkdir()
    (root / "catalog/gpus.toml").write_text('[sm90]\nalso_called = ["the big one"]\n')


@pytest.mark.parametrize("change", [changed_line, changed_catalog])
def test_other_facts_or_rules_judge_everything_again(
    workspace: Path, judged: list[str], change: Callable[[Path], None]
) -> None:
    kept(workspace)
    count = len(judged)
    judged.clear()
    change(workspace)
    kept(workspace)
    assert len(judged) == count


def test_a_recipe_is_judged_again_where_a_file_that_it_imports_changes(
    tmp_path: Path, judged: list[str]
) -> None:
    for number in range(60):
        (tmp_path / f"shell{number}.nix").write_text(
            f"{{ pkgs }}: pkgs.mkShell {{ n = {number}; packages = [ pkgs.python3Packages.torch ]; }}"
        )
    (tmp_path / "flags.nix").write_text("[ ]")
    (tmp_path / "a.nix").write_text("{ torch }: torch.overrideAttrs { flags = import ./more; }")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/default.nix").write_text("import ../flags.nix")
    kept(tmp_path)
    judged.clear()
    kept(tmp_path)
    assert judged == []
    (tmp_path / "flags.nix").write_text('[ "-march=native" ]')
    kept(tmp_path)
    assert judged == ["a.nix"]


def test_a_damaged_cache_costs_time_alone(workspace: Path, judged: list[str], tmp_path: Path) -> None:
    first = kept(workspace)
    [file] = (tmp_path / "cache/audits").glob("*/*.json")
    file.write_text(file.read_text()[:-200])
    count = len(judged)
    judged.clear()
    assert kept(workspace) == first
    assert len(judged) == count
