"""One audit: read each recipe once, run the rules over it, keep small facts, then run the rules over
repositories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from torchsmith.auditing.context import CheckTask, Context, FileFindings
from torchsmith.auditing.finding import Finding, Severity, SortKey, Sure
from torchsmith.auditing.repo import RecipeFacts, Repo, facts_of
from torchsmith.auditing.rule import MAX_CHARACTERS, all_rules
from torchsmith.auditing.rules.reading import lacks_import
from torchsmith.auditing.suppress import RuleSelection
from torchsmith.catalog import builtin_catalog
from torchsmith.core.files import read_text, text_or_none
from torchsmith.core.problem import Invalid, Problem, Where
from torchsmith.core.process import find
from torchsmith.matrix.cells import find_line
from torchsmith.matrix.variant import package_name, try_read
from torchsmith.nix.tool import canonical_text
from torchsmith.recipe.header import owner_of
from torchsmith.recipe.read import Recipe, read_recipe
from torchsmith.recipe.values import RecipeOptions
from torchsmith.workspace.checkout import Repository, discover, workspace_of
from torchsmith.workspace.git import seen_files
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.search import mentioned
from torchsmith.workspace.wanted import recipe_options

ALL_RULES = RuleSelection()
Stepper = Callable[[int], AbstractContextManager[Callable[[str], None]]]
UNCHECKED = ("TS014", "TS101", "TS210")  # rules whose findings say that others did not run
PIPES = "|>"  # an operator that newer Nix takes when asked, and the grammar here does not know


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What was found, and in how many files. Of the Nix files that were `searched`, some are `concerned` with
    torch or CUDA; of those, the `named` ones are checked by name and text, the others by their text alone."""

    FORMAT: ClassVar = 4
    findings: tuple[Finding, ...]
    recipes: int
    files: int
    silenced: int = 0
    searched: int = 0
    concerned: int = 0
    named: int = 0
    fixed: int = 0  # findings with a safe fix; `diff` shows the fixes
    diff: str = ""
    removed: tuple[str, ...] = ()  # rules that were named and no longer exist
    recovered: str = ""  # what a stopped run had left, and what became of it
    accepted: Literal["none", "fixable"] = "none"  # errors that do not count: `diff` fixes the fixable

    @property
    def ok(self) -> bool:
        """Whether no error is left that counts: `audit` exits with 1 otherwise."""
        fixable = self.accepted == "fixable"
        return all(fixable and error.fix for error in self.of(Severity.ERROR))

    def of(self, *severities: Severity) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity in severities]

    def shown(self, *, notes: bool) -> AuditReport:
        """The report with all findings, or without the notes that do not say what was left unchecked."""
        shown = (
            finding
            for finding in self.findings
            if notes or finding.severity is not Severity.NOTE or finding.rule in UNCHECKED
        )
        return replace(self, findings=tuple(shown))

    @property
    def printable(self) -> AuditReport:
        """The report without control characters from recipes or their names."""
        return replace(self, findings=tuple(finding.printable for finding in self.findings))


def _unwatched(total: int) -> AbstractContextManager[Callable[[str], None]]:
    return nullcontext(lambda name: None)


def audit(
    paths: Sequence[Path],
    ruled_by: Path | None = None,
    *,
    choice: RuleSelection = ALL_RULES,
    evaluate: bool = False,
    trees: Mapping[str, Path] | None = None,
    selectors: Sequence[str] = (),
    cached: bool = False,
    steps: Stepper = _unwatched,
) -> AuditReport:
    """Check everything below the paths, or of the recipes there those that selectors pick, by the workspace
    `ruled_by`, else by that above them. Raises Contradiction if facts of the workspace contradict others.

    `evaluate`: ask Nix for derivations, with local nixpkgs `trees` by revision.
    `cached`: unchanged files are not checked again. `steps` gets the number of files to check, and its
    function the name of each.
    """
    workspace = workspace_of(paths, ruled_by)
    folders = discover(paths, workspace, selectors, search=True).repositories
    catalog = workspace.catalog if workspace else builtin_catalog()
    lines = workspace.lines if workspace else {}
    if workspace:
        choice = workspace.source.placed(partial(choice.also, workspace.settings.audit))
    if not any(choice.selects(rule.id) for rule in all_rules()):
        hint = "; ".join(choice.removed) or "the ignored ones include all that are selected"
        raise Invalid("no rule is left to check", hint=hint)
    if choice.line is not None:
        find_line(catalog, choice.line)
    context = Context(catalog, choice, lines, _options_of(workspace))
    cache = None
    if cached:
        from torchsmith.auditing.cache import FindingsCache

        cache = FindingsCache(folders, context, workspace.root if workspace else None)
    work = [(folder, task) for folder in folders for task in _tasks(folder, context)]
    checked = {task: earlier for _, task in work if cache and (earlier := cache.checked(task))}
    todo = [task for _, task in work if task not in checked]
    with steps(len(todo)) as step:
        for task in todo:
            checked[task] = _check(task, context)
            step(task.label)
    findings = [finding for folder in folders for finding in _held(folder, work, checked)]
    deeper: list[FileFindings] = []
    if cache and todo and all(folder.whole for folder in folders):
        cache.keep(checked)
    if evaluate:
        from torchsmith.auditing.derivations import check_derivations

        addresses = workspace.addresses if workspace else ()
        deeper += check_derivations(folders, context, trees or {}, addresses)
    findings += [finding for result in deeper for finding in result.findings]
    silenced = sum(result.silenced for result in (*checked.values(), *deeper))
    concerned = sum(result.concerns for result in checked.values())
    findings += _repo_findings(folders, {task.label: checked[task].facts for _, task in work}, context)
    counted, left_out = choice.keep(_unique(findings))
    recipes = [recipe for folder in folders for recipe in folder.recipes]
    named = sum(recipe.variant is not None for recipe in recipes)
    searched = len(recipes) + sum(len(folder.elsewhere) for folder in folders)
    return AuditReport(
        findings=tuple(counted),
        recipes=len(recipes),
        files=len(work),
        silenced=silenced + left_out,
        searched=searched,
        concerned=concerned + named,
        named=named,
        removed=choice.removed,
    )


def _options_of(workspace: Workspace | None) -> RecipeOptions:
    """How a workspace writes its recipes; as by default if it cannot write all of them."""
    try:
        return recipe_options(workspace) if workspace else RecipeOptions()
    except Problem:
        return RecipeOptions()


def _held(
    folder: Repository,
    work: Sequence[tuple[Repository, CheckTask]],
    checked: Mapping[CheckTask, FileFindings],
) -> Iterator[Finding]:
    """Yield the findings of a repository, without those about attributes of nixpkgs that it may define
    itself."""
    own = [(task, checked[task]) for other, task in work if other is folder]
    defined = {name for _, result in own for name in result.defines}
    for task, result in own:
        for finding in result.findings:
            foreign = task.kind == "expression" and bool(finding.about)
            if not foreign or (folder.whole and finding.about not in defined):
                yield finding


def _unique(findings: Iterable[Finding]) -> list[Finding]:
    """Wrappers of one file find the same things in it."""
    seen: dict[SortKey, Finding] = {}
    for finding in findings:
        seen.setdefault(finding.sort_key, finding)
    return [seen[key] for key in sorted(seen)]


def _tasks(folder: Repository, context: Context) -> Iterator[CheckTask]:
    yield from (CheckTask(recipe.path, folder.label_of(recipe.path), "recipe") for recipe in folder.recipes)
    yield from (CheckTask(path, folder.label_of(path), "page") for path in (*folder.others, *folder.pages))
    checked = (path for path in folder.elsewhere if not folder.whole or _mentions(path, context))
    yield from (CheckTask(path, folder.label_of(path), "expression") for path in checked)


def _check(task: CheckTask, context: Context) -> FileFindings:
    if task.kind == "expression":
        return check_expressions(task.path, task.label, context)
    return check_file(task.path, task.label, task.kind == "recipe", context)


def _mentions(path: Path, context: Context) -> bool:
    """Whether a text has a word of torch or CUDA: quicker than parsing every file."""
    text = text_or_none(path)
    return (
        text is not None
        and len(text) <= MAX_CHARACTERS
        and mentioned(context.catalog).search(text) is not None
        and owner_of(text) == "foreign"
    )


def check_expressions(path: Path, label: str, context: Context) -> FileFindings:
    """Check what a Nix file that is not a recipe by its name says about torch and CUDA."""
    try:
        recipe = read_recipe(path, ask=canonical_text)
    except Problem as problem:
        unread = _unread(problem, label, context, _doubt(path))
        return FileFindings(tuple(unread), concerns=_mentions(path, context), lasting=False)
    if not context.concerns(recipe):
        return FileFindings(())
    subject = context.subject(label, recipe)
    findings = [*context.findings("file", Where(label), path, recipe.text), *context.of_recipe(subject)]
    counted, silenced = context.counted(findings, subject)
    return FileFindings(
        counted, silenced=silenced, concerns=True, defines=subject.defines, lasting=_exact(recipe)
    )


def check_file(path: Path, label: str, is_recipe: bool, context: Context) -> FileFindings:
    """Check the text of one file."""
    try:
        text = read_text(path)
    except Problem as problem:
        return FileFindings(tuple(_unread(problem, label, context)), lasting=False)
    findings = list(context.findings("file", Where(label), path, text))
    if not is_recipe or len(text) > MAX_CHARACTERS:
        return FileFindings(tuple(findings))
    name = package_name(path)
    concerns = mentioned(context.catalog).search(text) is not None and try_read(name, context.catalog) is None
    if line := context.line_as_generated(name, text):
        return FileFindings(tuple(findings), RecipeFacts(line, "", frozenset()))
    try:
        recipe = read_recipe(path, ask=canonical_text)
    except Problem as problem:
        unread = _unread(problem, label, context)
        return FileFindings((*findings, *unread), concerns=concerns, lasting=False)
    return replace(check_recipe(recipe, label, context, findings), concerns=concerns)


def check_recipe(recipe: Recipe, label: str, context: Context, known: Sequence[Finding] = ()) -> FileFindings:
    """The findings of the rules over recipes, after those that are `known`."""
    subject = context.subject(label, recipe)
    facts = facts_of(subject, lacks_import=lacks_import(subject))
    findings = [*known, *context.of_recipe(subject)]
    counted, silenced = context.counted(findings, subject)
    return FileFindings(counted, facts, silenced, lasting=_exact(recipe))


def _exact(recipe: Recipe) -> bool:
    """Whether its text was understood without Nix."""
    return all(file.syntax.exact for file in recipe.files)


def _doubt(path: Path) -> Sure | None:
    """Return how sure it is that an unreadable file is not Nix; None: certain."""
    text = text_or_none(path)
    if text is None:
        return None
    return Sure.GUESS if PIPES in text else None if find("nix-instantiate") else Sure.LIKELY


def _unread(problem: Problem, label: str, context: Context, sure: Sure | None = None) -> Iterator[Finding]:
    where = Where(label, problem.where.line, problem.where.column) if problem.where else Where(label)
    return context.findings("unread", where, problem, sure)


def _repo_findings(
    folders: Sequence[Repository], facts: Mapping[str, RecipeFacts | None], context: Context
) -> Iterator[Finding]:
    for folder in (folder for folder in folders if folder.whole or folder.links):
        named = folder.recipes if folder.whole else ()
        recipes = {folder.label_of(recipe.path): recipe for recipe in named}
        known = {label: (recipe, own) for label, recipe in recipes.items() if (own := facts.get(label))}
        files = seen_files(folder.root, ".") if any(own.uses for _, own in known.values()) else None
        links, ignored = (tuple(map(folder.label_of, paths)) for paths in (folder.links, folder.ignored))
        git = {folder.label_of(folder.root / file): tracked for file, tracked in (files or {}).items()}
        repo = Repo(known, git, links, ignored)
        yield from context.findings("repo", Where(folder.label), repo)
