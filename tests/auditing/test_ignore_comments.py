"""Comments that silence rules name them, and what is not a rule or not Nix is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.rule_examples import NAME, right_texts
from torchsmith.auditing.run import audit
from torchsmith.auditing.suppress import RuleSelection
from torchsmith.core.problem import Invalid, NotFound

RIGHT = right_texts()


def ignoring(words: str, folder: Path, directive: str = "torchsmith: ignore") -> list[str]:
    """The rules that a recipe with a wrong target and a comment breaks."""
    old, new = 'gpuArchSM = "12.0"', f'# {directive}{words}\n  gpuArchSM = "9.0"'
    (folder / f"{NAME}.nix").write_text(RIGHT[NAME].replace(old, new))
    report = audit((folder / f"{NAME}.nix",), choice=RuleSelection(select=("TS012", "TS401")))
    assert bool(report.silenced) is ("TS401" not in [one.rule for one in report.findings])
    return [one.rule for one in report.findings]


@pytest.mark.parametrize(
    "words",
    ["", " TS401", " TS4", " ts401, TS213", " TS401: it is meant", " TS401 it is meant", "-file TS401"],
)
def test_a_comment_silences_the_rules_that_it_names(words: str, tmp_path: Path) -> None:
    assert ignoring(words, tmp_path) == []


@pytest.mark.parametrize("words", [" TS4o1", " TS4xyz", " TS/", " everything here", "-file TS401x"])
def test_a_comment_that_names_no_rule_is_an_error_and_silences_nothing(words: str, tmp_path: Path) -> None:
    assert ignoring(words, tmp_path) == ["TS012", "TS401"]


@pytest.mark.parametrize(
    "directive", ["ingore", "ignored", "Ignore", "description", "lines", "ignore=TS401", "noqa=", "disable:"]
)
def test_another_word_after_torchsmith_is_an_error(directive: str, tmp_path: Path) -> None:
    assert ignoring(" TS401", tmp_path, f"torchsmith: {directive}") == ["TS012", "TS401"]
    assert ignoring(" TS401", tmp_path, f"torchsmith:{directive}") == ["TS012", "TS401"]


def test_only_a_comment_that_begins_so_is_read(tmp_path: Path) -> None:
    assert ignoring(" TS401", tmp_path, "torchsmith:ignore") == []
    assert ignoring(" TS401", tmp_path, "as in torchsmith: ignore") == ["TS401"]
    assert ignoring("TS401", tmp_path, "torchsmith: line 2.10 ") == ["TS401"]


@pytest.mark.parametrize(
    ("words", "unused"), [(" TS401", []), (" TS401, TS402: both", ["TS402"]), (" TS3", ["TS3"]), ("", [])]
)
def test_ids_that_silence_nothing_are_named(words: str, unused: list[str], tmp_path: Path) -> None:
    old, new = 'gpuArchSM = "12.0"', f'# torchsmith: ignore{words}\n  gpuArchSM = "9.0"'
    recipe = tmp_path / f"{NAME}.nix"
    recipe.write_text(RIGHT[NAME].replace(old, new))
    found = [one for one in audit((recipe,)).findings if one.rule == "TS013"]
    assert [one.message.split()[0] for one in found] == unused
    hints = ["remove TS402 from the comment" if "," in words else "remove the comment"]
    assert [one.hint for one in found] == hints * len(unused)
    chosen = audit((recipe,), choice=RuleSelection(select=("TS013", "TS401"))).findings
    assert not [one for one in chosen if one.rule == "TS013"]  # a rule that is not checked finds nothing


def test_a_comment_in_the_file_of_a_wrapper_counts_there(tmp_path: Path) -> None:
    text = RIGHT[NAME].replace('gpuArchSM = "12.0"', '# torchsmith: ignore TS902\n  gpuArchSM = "12.0"')
    (tmp_path / "torch.nix").write_text(text)
    (tmp_path / f"{NAME}.nix").write_text("# torchsmith: ignore TS902\n{ }:\nimport ./torch.nix { }\n")
    places = [one.where for one in audit((tmp_path / f"{NAME}.nix",)).findings if one.rule == "TS013"]
    assert [(Path(where.file).name, where.line) for where in places] == [(f"{NAME}.nix", 1)]


def test_a_rule_that_is_gone_is_not_said_to_be_ignored(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.nix").write_text(RIGHT[NAME])
    with pytest.raises(Invalid) as problem:
        audit((tmp_path,), choice=RuleSelection(select=("TS213",)))
    assert problem.value.hint == "TS213 was removed after 0.2.0"


def test_a_named_file_that_is_not_nix_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost")
    with pytest.raises(NotFound):
        audit((tmp_path / "hosts",))


def test_a_comment_is_named_with_its_column(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.nix").write_text("  # torchsmith: ingore\n" + RIGHT[NAME])
    report = audit((tmp_path / f"{NAME}.nix",), choice=RuleSelection(select=("TS012",)))
    assert [(one.where.line, one.where.column) for one in report.findings] == [(1, 3)]
