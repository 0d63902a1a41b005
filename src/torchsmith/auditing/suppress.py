"""Which findings count: rules chosen by id, and comments that say why not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import PurePath
from typing import NamedTuple

from torchsmith.auditing.finding import Finding
from torchsmith.auditing.rule import REMOVED_AFTER, all_rules, is_removed, unknown_rule
from torchsmith.recipe.read import Span
from torchsmith.workspace.settings import AuditSettings

MARK = "torchsmith:"
# The grammar of a comment to torchsmith, of Nix or of the shell code in a string: `# torchsmith: WORD ...`.
# `format=` begins what torchsmith itself wrote at the start of a file.
DIRECTIVE = re.compile(rf"(?:#|/\*) *{MARK} *(?!format=)(?P<word>[\w-]+=?)(?P<rest>.*)")
DIRECTIVES = ("ignore", "ignore-file", "line")


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """Rules by id or by the start of one (`TS4` is all about GPUs), and the line of recipes that do not say
    theirs. `strict` binds recipes of others to our conventions too."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_path: tuple[tuple[str, tuple[str, ...]], ...] = ()  # rules that do not count in some files
    line: str | None = None
    strict: bool = False

    def selects(self, rule: str) -> bool:
        """Whether a rule is chosen: of two prefixes the longer one decides, as in ruff."""
        chosen, ignored = (
            max((len(prefix) for prefix in prefixes if rule.startswith(prefix)), default=-1)
            for prefixes in (self.select or ("",), self.ignore)
        )
        return chosen > ignored

    @property
    def removed(self) -> tuple[str, ...]:
        """Its words for rules that no longer exist, each with the last version that had them."""
        words = dict.fromkeys((*self.select, *self.ignore, *(id for _, ids in self.per_path for id in ids)))
        return tuple(f"{word} was removed after {REMOVED_AFTER}" for word in words if is_removed(word))

    def keep(self, findings: Sequence[Finding]) -> tuple[list[Finding], int]:
        """Without those of rules that do not count in their file; and how many those were."""
        counted = [finding for finding in findings if not self._left_out(finding)]
        return counted, len(findings) - len(counted)

    def _left_out(self, finding: Finding) -> bool:
        return any(
            finding.rule.startswith(rules) and PurePath(finding.where.file).match(pattern)
            for pattern, rules in self.per_path
        )

    def also(self, settings: AuditSettings) -> RuleSelection:
        """With what torchsmith.toml says; what was chosen by hand comes first."""
        _check(settings.select, "audit", "select")
        _check(settings.ignore, "audit", "ignore")
        for pattern, ids in settings.per_path.items():
            _check(ids, "audit", "per_path", pattern)
        return replace(
            self,
            select=self.select or settings.select,
            ignore=(*self.ignore, *settings.ignore),
            per_path=tuple(settings.per_path.items()),
            line=self.line or settings.line,
            strict=self.strict or settings.strict,
        )


def choose(select: Sequence[str], ignore: Sequence[str], line: str | None = None) -> RuleSelection:
    """A choice from the words of a person; a Problem names ids that no rule has."""

    def split(parts: Sequence[str]) -> tuple[str, ...]:
        return tuple(word.upper() for part in parts for word in re.split(r"[\s,]+", part) if word)

    _check((*split(select), *split(ignore)))
    return RuleSelection(split(select), split(ignore), line=line)


def _check(prefixes: Sequence[str], *path: str) -> None:
    """Raise NotKnown for a word that no rule is called; `path` is that of the value in torchsmith.toml."""
    for index, word in enumerate(prefixes):
        if not is_rule(word):
            raise unknown_rule(word).replace(path=(*path, index) if path else ())


def is_rule(word: str) -> bool:
    """Whether rules are, or were, called so or begin so."""
    word = word.upper()
    return any(rule.id.startswith(word) for rule in all_rules()) or is_removed(word)


class Directive(NamedTuple):
    """A comment to torchsmith. An `ignore` silences rules by ids or their beginnings, as in --select; without
    a word, all."""

    at: Span
    word: str
    rules: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # words in place of a rule that no rule is called

    def covers(self, finding: Finding, rules: str | tuple[str, ...], file: str) -> bool:
        """Whether it, in a file, silences a finding by these of its rules: on its line, the line below, or
        anywhere."""
        here = finding.where.file == file and finding.where.line - self.at.line in (0, 1)
        return (here or self.word == "ignore-file") and finding.rule.startswith(rules)


def directives(text: str) -> Iterator[Directive]:
    """The comments to torchsmith in a file. What follows the ids of an `ignore` is their reason."""
    for number, line in enumerate(text.split("\n") if MARK in text else (), start=1):
        for match in DIRECTIVE.finditer(line) if MARK in line else ():
            at = Span(0, 0, number, match.start() + 1)
            if match["word"] not in ("ignore", "ignore-file"):
                yield Directive(at, match["word"])
                continue
            rest = re.split(r"[\s,]+", match["rest"].partition("*/")[0])
            words = [word.rstrip(":;.") for word in rest if word]
            ids = [*takewhile(lambda word: word.upper().startswith("TS"), words)]
            known = tuple(word.upper() for word in ids if is_rule(word))
            unknown = tuple(word for word in ids or words[:1] if not is_rule(word))
            yield Directive(at, match["word"], known if words else ("",), unknown)


class Unmuted(NamedTuple):
    """The findings of a recipe that count, how many comments silence, and ids that silence nothing, each with
    its comment and file."""

    findings: tuple[Finding, ...]
    silenced: int
    unused: tuple[tuple[str, Directive, str], ...]


def unmuted(findings: Sequence[Finding], texts: Mapping[str, str]) -> Unmuted:
    """The findings of a recipe without those that a comment in one of its files silences."""
    comments = [
        (file, comment)
        for file, text in texts.items()
        for comment in directives(text)
        if comment.word in ("ignore", "ignore-file")
    ]
    counted = tuple(
        finding
        for finding in findings
        if not any(comment.covers(finding, comment.rules, file) for file, comment in comments)
    )
    unused = tuple(
        (file, comment, id)
        for file, comment in comments
        for id in comment.rules
        if not any(comment.covers(finding, id, file) for finding in findings)
    )
    return Unmuted(counted, len(findings) - len(counted), unused)
