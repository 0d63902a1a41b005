"""Ownership: files that torchsmith wrote and that were changed since; comments to the audit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from torchsmith.auditing.rule import WARNING, Defect, rule, unknown_rule
from torchsmith.auditing.suppress import ignore_comments
from torchsmith.core.problem import nearest
from torchsmith.matrix.variant import package_name
from torchsmith.recipe.header import owner_of, read_header
from torchsmith.recipe.read import Span

DIRECTIVES = ("ignore", "ignore-file", "line")
DIRECTIVE = re.compile(r"\btorchsmith: *([\w-]+)\b(?!=)")
READ = re.compile(r"torchsmith: (ignore|line)\b")
MISTYPED = 0.7  # how near a word is to one of them


@rule("TS010", "generated file edited by hand", WARNING, over="file")
def generated_files_are_untouched(path: Path, text: str) -> Iterator[Defect]:
    """torchsmith no longer updates a file that was edited, so it does not follow changes of torchsmith.toml.
    Move the change into torchsmith.toml, or remove the header and maintain the file yourself."""
    if owner_of(text) == "edited":
        yield Defect(
            "edited by hand since torchsmith wrote it", hint="torchsmith plan --adopt PATH --diff shows how"
        )


@rule("TS011", "generated file of another name", WARNING, over="file")
def generated_files_keep_their_name(path: Path, text: str) -> Iterator[Defect]:
    """The header names the variant that a file was generated for; a copy under another name still builds that
    variant."""
    header = read_header(text)
    variant = header.facts.get("variant", "") if header else ""
    if variant and variant != package_name(path):
        yield Defect(f"was written for {variant}", hint="torchsmith apply --adopt PATH rewrites it")


@rule("TS012", "comment that ignores no rule", over="file")
def comments_name_rules(path: Path, text: str) -> Iterator[Defect]:
    """After `# torchsmith: ignore` come ids of rules or their beginnings, then the reason, or nothing, which
    silences all. A word that no rule is called silences nothing, and neither does a mistyped `ignore`."""
    for match in DIRECTIVE.finditer(text) if path.suffix == ".nix" else ():
        meant, start = nearest(match[1].lower(), DIRECTIVES, MISTYPED), match.start()
        if meant and not READ.match(match[0]):
            at = Span(0, 0, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
            message = f"torchsmith does not read a comment {match[0]}"
            yield Defect(message, at, hint=f"did you mean torchsmith: {meant}?")
    for comment in ignore_comments(text) if path.suffix == ".nix" else ():
        for word in comment.unknown:
            problem = unknown_rule(word)
            yield Defect(problem.message, comment.at, hint=problem.hint)
