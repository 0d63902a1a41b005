"""Ownership: files that torchsmith wrote and that were changed since; comments to the audit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchsmith.auditing.rule import WARNING, Defect, rule, unknown_rule
from torchsmith.auditing.suppress import DIRECTIVES, Directive, directives
from torchsmith.matrix.variant import package_name
from torchsmith.recipe.header import owner_of, read_header


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
    """A comment to torchsmith begins with `# torchsmith:` and one of the words `ignore`, `ignore-file` and
    `line`; any other word does nothing. After `ignore` come ids of rules or their beginnings, then the
    reason, or nothing, which silences all. A word that is not a rule silences nothing."""
    for comment in directives(text) if path.suffix == ".nix" else ():
        if comment.word not in DIRECTIVES:
            message = f"torchsmith does not read a comment torchsmith: {comment.word}"
            yield Defect(message, comment.at, hint=f"the words are {', '.join(DIRECTIVES)}")
            continue
        for word in comment.unknown:
            problem = unknown_rule(word)
            yield Defect(problem.message, comment.at, hint=problem.hint)


@rule("TS013", "comment that silences nothing", WARNING, over="unused", anywhere=True)
def comments_silence_findings(comment: Directive, id: str) -> Iterator[Defect]:
    """A comment `# torchsmith: ignore` whose rule finds nothing there hides the next mistake in that place.
    Reported if that rule is checked; rules over derivations are with `--eval` alone."""
    what = f"{id} finds" if id else "the rules find"
    place = "in this file" if comment.word == "ignore-file" else "here"
    hint = f"remove {id} from the comment" if len(comment.rules) > 1 else "remove the comment"
    yield Defect(f"{what} nothing {place}", comment.at, hint=hint)
