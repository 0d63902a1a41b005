"""What a check needs and returns: the catalog and choices, a file's findings, and a defect as a finding in
its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from torchsmith.auditing.finding import Finding, Sure
from torchsmith.auditing.repo import RecipeFacts
from torchsmith.auditing.rule import Defect, Over, Rule, all_rules
from torchsmith.auditing.rules.reading import lacks_import
from torchsmith.auditing.suppress import Directive, RuleSelection, unmuted
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Where
from torchsmith.core.text import grouped
from torchsmith.matrix import Accepted, Cell, Variant, assess
from torchsmith.recipe.header import read_header
from torchsmith.recipe.read import Recipe, Span
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import RecipeWriter
from torchsmith.workspace.search import CUDA, concerned_names
from torchsmith.workspace.subject import Subject


class CheckTask(NamedTuple):
    """A file to check, and the name that findings show it by."""

    path: Path
    label: str
    kind: Literal["recipe", "page", "expression"]


OF_NAMES = ("names", "reading")  # groups of rules that hold of a recipe that can be read in part alone
OF_THE_CELL = ("gpu", "cpu", "names")  # groups of rules that hold a recipe against its name


@dataclass(frozen=True, slots=True)
class FileFindings:
    """One file: what was found, and what its repository needs to know of it."""

    findings: tuple[Finding, ...]
    facts: RecipeFacts | None = None
    silenced: int = 0
    concerns: bool = False  # whether it is about torch or CUDA
    defines: frozenset[str] = frozenset()  # attributes of nixpkgs that it defines otherwise
    lasting: bool = (
        True  # whether it holds as long as no file changes: it depends neither on Nix nor on a clock
    )


@dataclass(frozen=True)
class Context:
    """What checking a file needs besides the file."""

    catalog: Catalog
    choice: RuleSelection
    lines: dict[str, str]  # of the workspace, by variant
    options: RecipeOptions = field(default_factory=RecipeOptions)  # of recipes that torchsmith writes

    def subject(self, label: str, recipe: Recipe) -> Subject:
        """A recipe with what is known about it."""
        line, choice = self.lines.get(recipe.name), self.choice
        return Subject(label, recipe, self.catalog, line, choice.line, choice.strict)

    @cached_property
    def rules(self) -> Mapping[Over, list[Rule]]:
        """The rules that are chosen, by the kind of thing that they are over."""
        return grouped((rule.over, rule) for rule in all_rules() if self.choice.selects(rule.id))

    def concerns(self, recipe: Recipe) -> bool:
        """Whether its code is about torch or CUDA, by a name, by a string that is one, or by a file that is
        called so; comments and prose do not count."""
        used = {*recipe.syntax.identifiers, *recipe.syntax.named_files, *recipe.syntax.plain_strings}
        names = concerned_names(self.catalog)
        return not names.isdisjoint(used) or any(re.fullmatch(CUDA, name) for name in used)

    def of_recipe(self, subject: Subject) -> Iterator[Finding]:
        """The findings of rules over a recipe; of those that hold of any file, if it is not named after a
        variant."""
        partly = lacks_import(subject)
        for rule in self.rules.get("recipe", ()):
            if rule.anywhere or subject.variant is not None:
                for defect in rule.defects(subject):
                    if defect.at or not partly or rule.group in OF_NAMES:
                        yield finding(rule, defect, subject)

    def findings(self, over: Over, where: Where, *things: object) -> Iterator[Finding]:
        """Yield findings of rules over other things than recipes: at `where`, or in a file that they name."""
        for rule in self.rules.get(over, ()):
            for defect in rule.check(*things):
                at = _placed(defect.file or where.file, defect.at) if defect.file or defect.at else where
                yield _finding(rule, defect, at, "")

    def counted(self, findings: Sequence[Finding], subject: Subject) -> tuple[tuple[Finding, ...], int]:
        """The findings of a recipe that count, also those about comments in it that silence nothing, and how
        many are silenced."""
        texts = {subject.label_of(recipe): recipe.text for recipe in subject.recipe.files}
        left, silenced, unused = unmuted(findings, texts)
        for file, comment, id in unused:
            # What other recipes lead to may silence their findings, and a canonical text has other lines.
            if file == subject.file and subject.recipe.syntax.exact and self._all_checked(comment, id):
                left += tuple(self.findings("unused", Where(file), comment, id))
        return left, silenced

    def _all_checked(self, comment: Directive, id: str) -> bool:
        """Whether all rules that a comment silences are checked by text; findings over derivations are of
        the file as a whole."""
        rules = [rule for rule in all_rules() if rule.id.startswith(id)]
        deeper = comment.word == "ignore-file" and any(rule.over == "derivations" for rule in rules)
        return not deeper and all(self.choice.selects(rule.id) for rule in rules)

    @cached_property
    def _writer(self) -> RecipeWriter:
        return RecipeWriter(self.catalog, self.options)

    def line_as_generated(self, name: str, text: str) -> str:
        """The line of a recipe that is byte for byte what torchsmith writes today, in which rules over text
        find nothing; empty if it is not, if no machine can use it, if a hash is not known yet, or if the
        workspace has templates of its own, which may be wrong."""
        if self.catalog.templates:
            return ""
        header = read_header(text)
        variant = Variant.try_parse(name, self.catalog) if header else None
        line = header.facts.get("line", "") if header else ""
        if variant is None or variant.flavor or self.lines.get(name, line) != line or "./" in text:
            return ""
        decision = assess(variant, self.catalog, line if line in self.catalog.lines else None)
        if not isinstance(decision, Accepted) or not decision.usable or decision.line.name != line:
            return ""
        build = decision.line.build_for(variant.toolkit)
        same = text == self._writer.recipe(Cell(variant, line))
        return line if same and build and not self.catalog.unknown_hashes(decision.line, build) else ""


def finding(rule: Rule, defect: Defect, subject: Subject) -> Finding:
    """A defect of a recipe, placed in its file."""
    recipe = defect.of or subject.whole
    if not recipe.syntax.exact:
        # The text is Nix's canonical one, whose positions are not the file's.
        return _finding(rule, defect, Where(subject.file), "", keep_fix=False)
    call = subject.recipe.wrapper
    if recipe is not subject.recipe and rule.group in OF_THE_CELL and call:
        # What the caller passes is wrong for its name, not the file that takes it.
        where = Where(subject.file, call.span.line, call.span.column)
        return _finding(rule, defect, where, subject.recipe.syntax.line(call.span.line), keep_fix=False)
    where = _placed(subject.label_of(recipe), defect.at) if defect.at else Where(subject.file)
    return _finding(rule, defect, where, recipe.syntax.line(where.line), keep_fix=recipe is subject.recipe)


def _placed(file: str, at: Span | None) -> Where:
    """A place in a file, or the file as a whole."""
    return Where(file, at.line, at.column) if at else Where(file)


def _finding(rule: Rule, defect: Defect, where: Where, source: str, *, keep_fix: bool = True) -> Finding:
    """A defect as its rule's finding."""
    sure = defect.sure or rule.sure
    # The mildest counts.
    severity = max(defect.severity or rule.severity, rule.severity, sure.worst, key=lambda one: one.rank)
    fix = defect.fix if keep_fix and sure is not Sure.GUESS else None
    if fix and sure is not Sure.CERTAIN:
        fix = replace(fix, safe=False)
    return Finding(
        rule=rule.id,
        title=rule.title,
        severity=severity,
        where=where,
        message=defect.message,
        hint=defect.hint,
        fix=fix,
        source=source,
        sure=sure,
        about=defect.about,
    )
