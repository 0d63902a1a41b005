"""Rules: small functions with a stable id, whose docstring is their documentation."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, get_type_hints

from torchsmith.auditing.finding import FindingFix, Severity, Sure
from torchsmith.core.problem import NotKnown, did_you_mean
from torchsmith.recipe.read import Edit

if TYPE_CHECKING:
    from torchsmith.recipe.read import Recipe, Span
    from torchsmith.workspace.subject import Subject

Over = Literal["recipe", "repo", "file", "unread", "unused", "derivations"]
ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
MAX_CHARACTERS = 1_000_000  # of a file that is checked; recipes have some ten thousand
CERTAIN, LIKELY, GUESS = Sure.CERTAIN, Sure.LIKELY, Sure.GUESS


@dataclass(frozen=True, slots=True)
class Defect:
    """What a rule noticed. `at` is None for the file as a whole, `of` the recipe that `at` counts in."""

    message: str
    at: Span | None = None
    hint: str = ""
    fix: FindingFix | None = None
    severity: Severity | None = None  # if it is not the rule's own
    sure: Sure | None = None  # if the rule is less sure than usual
    of: Recipe | None = None
    file: str = ""  # another file than the one that is checked
    about: str = ""  # an attribute of nixpkgs: the defect is one if the repository does not define it


RuleFunction = Callable[..., Iterator[Defect]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what it is called, and over what it is.

    Of a recipe it asks for facts by the types of its arguments, such as a Gpu; if the recipe has none, or
    is what `unless` names, it does not apply.
    """

    id: str
    title: str
    severity: Severity
    over: Over
    group: str
    check: RuleFunction
    sure: Sure = CERTAIN
    unless: tuple[str, ...] = ()
    anywhere: bool = False  # also for Nix files that are not named after a variant

    def defects(self, subject: Subject) -> Iterator[Defect]:
        """What is wrong with a recipe that it applies to."""
        facts = [subject.fact(kind) for kind in wanted_by(self.check)[1:]]
        if None not in facts and not any(getattr(subject, name) for name in self.unless):
            yield from self.check(subject, *facts)

    @property
    def worst(self) -> Severity:
        """How bad its findings are at most."""
        return max(self.severity, self.sure.worst, key=lambda severity: severity.rank)

    @property
    def depth(self) -> Literal["text", "derivations"]:
        """How deep it looks."""
        return "derivations" if self.over == "derivations" else "text"

    @property
    def documentation(self) -> str:
        return inspect.getdoc(self.check) or ""


@cache
def wanted_by(check: RuleFunction) -> tuple[type, ...]:
    """The types of what a rule's function is handed, in order."""
    hints = get_type_hints(check)
    return tuple(kind for name, kind in hints.items() if name != "return")


def convention(subject: Subject) -> Sure | None:
    """Return how sure a rule of our own conventions is: it guesses for recipes that need not follow them."""
    return None if subject.enforce_conventions else Sure.GUESS


def rewrite(span: Span, text: str, *, safe: bool = True) -> FindingFix:
    """The fix that puts another text in a place."""
    return FindingFix(f"write {text}", (Edit(span.start, span.end, text),), safe)


REMOVED_AFTER = "0.2.0"  # the last version that had these rules
REMOVED = """
TS005 TS107 TS108 TS109 TS110 TS202 TS203 TS211 TS213 TS302 TS307 TS309 TS310 TS311 TS411 TS412 TS413 TS414
TS415 TS416 TS417 TS418 TS419 TS420 TS423 TS507 TS602 TS603 TS604 TS605 TS606 TS607 TS608 TS609 TS704 TS705
TS707 TS708 TS802 TS806 TS851 TS852 TS853 TS907 TS951 TS952 TS953 TS954 TS961 TS962 TS963
""".split()  # noqa: SIM905


def is_removed(word: str) -> bool:
    """Whether there were rules of a name or prefix, and there are none now."""
    return not any(rule.id.startswith(word) for rule in all_rules()) and any(
        id.startswith(word) for id in REMOVED
    )


_known: dict[str, Rule] = {}


def rule(
    id: str,
    title: str,
    severity: Severity = ERROR,
    *,
    sure: Sure = CERTAIN,
    over: Over = "recipe",
    unless: tuple[str, ...] = (),
    anywhere: bool = False,
) -> Callable[[RuleFunction], RuleFunction]:
    """Make a function a rule; two rules with one id are a bug of ours."""

    def known(check: RuleFunction) -> RuleFunction:
        if id in _known and _known[id].check.__qualname__ != check.__qualname__:
            raise ValueError(f"two rules are called {id}")
        group = check.__module__.rpartition(".")[2]
        _known[id] = Rule(id, title, severity, over, group, check, sure, unless, anywhere)
        return check

    return known


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    from torchsmith.auditing import rules

    for module in pkgutil.iter_modules(rules.__path__):
        importlib.import_module(f"{rules.__name__}.{module.name}")
    return tuple(_known[id] for id in sorted(_known))


def rules_called(word: str) -> list[Rule]:
    """The rule of an id, or those of a prefix such as TS70. Raises NotKnown if there is none."""
    called = [rule for rule in all_rules() if rule.id.startswith(word.upper())]
    if not called:
        raise unknown_rule(word)
    return called


def unknown_rule(word: str) -> NotKnown:
    """The problem that no rule is called so, with the nearest id."""
    if is_removed(word.upper()):
        hint = "CHANGELOG.md has the rules of today"
        return NotKnown(f"rule {word} was removed after {REMOVED_AFTER}", hint=hint)
    ids = [rule.id for rule in all_rules()]
    known = f"rules are {ids[0]} to {ids[-1]}; torchsmith audit --explain {ids[0]} explains one"
    return NotKnown(f"no rule is called {word}", hint=did_you_mean(word.upper(), ids) or known)
