"""Which findings count: rules chosen by id, debts that are known, and comments that say why not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.audit.finding import Finding
from torchsmith.edge.files import read_text, write_atomic
from torchsmith.edge.problem import Problem, nearest

IGNORE = re.compile(r"torchsmith: ignore(-file)?((?:[ ,]+TS\d{3,4})*)")


@dataclass(frozen=True, slots=True)
class Choice:
    """Rules by id or by the start of one (`TS4` is all about GPUs), and a baseline of known findings."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()

    def wants(self, rule: str) -> bool:
        chosen = not self.select or any(rule.startswith(one) for one in self.select)
        return chosen and not any(rule.startswith(one) for one in self.ignore)

    def keep(self, findings: Sequence[Finding]) -> tuple[list[Finding], int]:
        """Without the debts of the baseline; and how many those were."""
        kept = [one for one in findings if one.key not in self.known]
        return kept, len(findings) - len(kept)


def choose(select: Sequence[str], ignore: Sequence[str], baseline: Path | None) -> Choice:
    """A choice from the words of a person; a Problem names ids that no rule has."""
    from torchsmith.audit.rule import all_rules

    ids = [one.id for one in all_rules()]
    words = [word for part in (*select, *ignore) for word in re.split(r"[\s,]+", part) if word]
    for word in words:
        if not any(id.startswith(word) for id in ids):
            near = nearest(word, ids)
            hint = f"did you mean {near}?" if near else "docs/rules.md lists them: TS001 to TS963"
            raise Problem(f"no rule is called {word}", hint=hint)

    def split(parts: Sequence[str]) -> tuple[str, ...]:
        return tuple(word for part in parts for word in re.split(r"[\s,]+", part) if word)

    known = read_baseline(baseline) if baseline and baseline.exists() else frozenset()
    return Choice(split(select), split(ignore), known)


def muted(finding: Finding, comments: Sequence[tuple[int, str]]) -> bool:
    """Whether a comment in the file says to leave the finding out: on its line, the line above, or for the
    file."""
    for line, text in comments:
        found = IGNORE.search(text)
        if found is None:
            continue
        ids = re.findall(r"TS\d{3,4}", found[2])
        if ids and finding.rule not in ids:
            continue
        if found[1] or finding.where.line in (line, line + 1):
            return True
    return False


def read_baseline(path: Path) -> frozenset[str]:
    """The findings that a baseline file holds."""
    try:
        table = json.loads(read_text(path))
        return frozenset(f"{one['rule']} {one['file']} {one['message']}" for one in table["findings"])
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(
            f"{path} is not a baseline: {error}", hint="torchsmith audit --write-baseline makes one"
        ) from error


def write_baseline(path: Path, findings: Sequence[Finding]) -> None:
    """Remember findings as known debts."""
    rows = [{"rule": one.rule, "file": one.where.file, "message": one.message} for one in findings]
    write_atomic(path, json.dumps({"format": 1, "findings": rows}, indent=2) + "\n")
