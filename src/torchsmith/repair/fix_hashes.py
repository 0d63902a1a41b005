"""Learning the hashes that sources really have: downloads alone are realised, nothing is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from torchsmith.core.files import read_text
from torchsmith.core.problem import Exit, Refused
from torchsmith.core.text import grouped, some_of
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.errors import Cause, shorten
from torchsmith.nix.evaluate import (
    TREE_HINT,
    EvalResult,
    EvaluationOptions,
    evaluate,
    needs_tree,
    reachable,
)
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.nix.hashes import Mismatch, is_placeholder, read_mismatches, to_sri
from torchsmith.nix.log import Failure, LogLine, LogReader
from torchsmith.nix.store import StoreOptions, realise_command, valid_paths
from torchsmith.nix.tool import Nix
from torchsmith.repair.hash_sites import HashSite, best, hash_sites, searchable_text, source_of
from torchsmith.workspace.change import Change
from torchsmith.workspace.checkout import RecipeFile, choose
from torchsmith.workspace.journal import writing
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import reconcile
from torchsmith.workspace.wanted import wanted_repos
from torchsmith.workspace.write import write_changes

MAX_ROUNDS = 5  # a wrong pin hides the sources behind it


@dataclass(frozen=True, slots=True)
class Correction:
    """A hash to write: where, what was there, what the source has, and whether that is suspicious."""

    site: HashSite
    got: str
    source: str
    recipes: tuple[str, ...]
    suspicion: str = ""

    @property
    def where(self) -> str:
        return str(self.site.where)


@dataclass
class HashFixes:
    """What a run of fix-hashes found and did."""

    FORMAT: ClassVar = 2
    written: list[Correction] = field(default_factory=list)
    suspicious: list[Correction] = field(default_factory=list)  # another hash was right before
    diff: str = ""  # of all files that change
    unplaced: list[str] = field(default_factory=list)  # mismatches that no file of the workspace states
    unchecked: list[str] = field(default_factory=list)  # recipes that do not evaluate
    unfetched: list[str] = field(default_factory=list)  # downloads that failed
    unseen: list[str] = field(default_factory=list)  # placeholders that no file states, and malformed hashes
    proved: dict[str, str] = field(default_factory=dict)  # hashes that were seen to be right, by source
    recovered: str = ""  # what a stopped run had left

    @property
    def exit(self) -> Exit:
        """ENVIRONMENT if nothing but downloads failed."""
        if self.suspicious or self.unplaced or self.unchecked or self.unseen:
            return Exit.CHECK_FAILED
        return Exit.ENVIRONMENT if self.unfetched else Exit.OK


@dataclass
class HashFixer:
    """Looks, corrects and looks again until every stated hash is proved."""

    nix: Nix
    workspace: Workspace
    selectors: Sequence[str]
    trees: Mapping[str, Path]
    proved: Mapping[str, str]  # by source, from earlier runs

    def run(self, *, accept: bool, write: bool) -> HashFixes:
        """Correct what may be corrected; with `accept` also what looks like tampering."""
        fixes = HashFixes()
        if write:
            with writing(self.workspace.home, "fix-hashes") as writer:
                fixes.recovered = writer.recovered
        for _ in range(MAX_ROUNDS):
            corrections = self._look(fixes)
            free = [correction for correction in corrections if accept or not correction.suspicion]
            fixes.suspicious = [correction for correction in corrections if correction not in free]
            if not free:
                break
            fixes.written += free
            changes = changed_files(free, self.workspace.home)
            fixes.diff += "".join(change.diff(context=1) for change in changes)
            if not write:
                break
            self._write(changes)
        else:
            raise Refused(f"hashes still do not match after {MAX_ROUNDS} rounds")
        return fixes

    def _look(self, fixes: HashFixes) -> list[Correction]:
        """Evaluate, realise the downloads whose hashes recipes state, and place every mismatch; `fixes` gets
        what could not be placed or checked, and what is right."""
        fixes.unplaced, fixes.unchecked, fixes.unfetched = [], [], []
        recipes = choose(self.selectors, self.workspace, self.workspace.home).recipes
        results = reachable(self._evaluate(recipes))
        cells = {cell.name: cell for cell in self.workspace.matrix.cells} if self.workspace.lines else {}
        sites = {
            recipe.name: hash_sites(recipe, self.workspace, cells.get(recipe.name)) for recipe in recipes
        }
        graphs = [graph_of(self.nix, results), graph_of(self.nix, self._twins(recipes, results))]
        stated = [stated_downloads(graph, sites) for graph in graphs]
        downloads = fetchable(*stated)
        events, failed = self._realise(downloads)
        mismatches = read_mismatches("\n".join(event.text for event in events))
        placed = self._place(mismatches, graphs, sites, fixes)
        placed += self._at_evaluation(results, sites, fixes)
        wrong = {mismatch.derivation for mismatch in mismatches}
        left = [download for download in downloads if download.path not in wrong]
        valid = valid_paths(self.nix, [output_of(drv) for drv in left])
        missing = [drv for drv in left if output_of(drv) not in valid or drv.path in failed]
        fixes.unfetched += [
            f"{_named(drv, graphs)} could not be fetched: {_why(events, drv)}" for drv in missing
        ]
        fixes.unseen = [
            f"{_named(drv, graphs)}: its hash is a placeholder, and no file states it"
            for drv in graphs[0].derivations.values()
            if drv.fixed and drv not in stated[0] and is_placeholder(_hash(drv))
        ]
        # A pin that a tree replaces is not fetched: Nix does not see its hash.
        damaged = (site for result in results if result.ok for site in sites[result.name] if site.damaged)
        fixes.unseen += dict.fromkeys(f"{site.where}: {site.value} is not a hash" for site in damaged)
        fixes.proved |= {source_of(drv): _hash(drv) for drv in left if drv not in missing}
        # Nix reports mismatches in any order.
        return sorted(merged(placed), key=lambda correction: correction.where)

    def _evaluate(self, recipes: Sequence[RecipeFile], *, twin: bool = False) -> list[EvalResult]:
        addresses = self.workspace.addresses
        return evaluate(
            recipes,
            self.nix,
            EvaluationOptions(trees=self.trees, addresses=addresses, instantiate=True, twin=twin),
        )

    def _twins(self, recipes: Sequence[RecipeFile], results: Sequence[EvalResult]) -> list[EvalResult]:
        """Recipes of other systems as derivations of this machine's, which can run their downloads."""
        own = self.nix.current_system
        foreign = {result.name for result in results if result.evaluated and result.evaluated.system != own}
        return self._evaluate([recipe for recipe in recipes if recipe.name in foreign], twin=True)

    def _at_evaluation(
        self, results: Sequence[EvalResult], sites: Mapping[str, Sequence[HashSite]], fixes: HashFixes
    ) -> list[Correction]:
        """Tarballs that Nix fetches while it evaluates; and recipes that fail for another reason."""
        placed: list[Correction] = []
        failed: list[tuple[Cause, str]] = []
        for result in results:
            if result.cause is None:
                continue
            mismatches = read_mismatches(result.cause.message)
            if not mismatches:
                failed.append((result.cause, result.name))
            for mismatch in mismatches:
                matching = best(sites[result.name], mismatch.specified, mismatch.url)
                placed += [
                    self._correction(site, mismatch.got, mismatch.url, (result.name,)) for site in matching
                ]
                if not matching:
                    fixes.unplaced.append(
                        f"{result.name}: {mismatch.url} has {mismatch.got}, and no file states its old hash"
                    )
        for cause, names in grouped(failed).items():
            if needs_tree(cause):
                fixes.unfetched.append(f"{some_of(names)}: {cause.message}; {TREE_HINT}")
            else:
                fixes.unchecked.append(f"{some_of(names)}: {cause.message}")
        return placed

    def _realise(self, downloads: Sequence[Derivation]) -> tuple[list[LogLine | Failure], set[str]]:
        """Fetch everything, however many fail: Nix's log, and the downloads that are in the store but cannot
        be fetched again."""
        events: list[LogLine | Failure] = []
        failed: set[str] = set()
        for batch in without_rivals(downloads):
            present = valid_paths(self.nix, [output_of(download) for download in batch])
            if absent := [download.path for download in batch if output_of(download) not in present]:
                events += self._run(realise_command(self.nix, absent, StoreOptions(), keep_going=True))[1]
            # A store path goes by hash and name alone: another source may have put it there.
            for download in batch:
                if output_of(download) in present and self.proved.get(source_of(download)) != _hash(download):
                    command = [*realise_command(self.nix, [download.path], StoreOptions()), "--check"]
                    ok, check_events = self._run(command)
                    events += check_events
                    failed |= set() if ok else {download.path}
        return events, failed

    def _run(self, command: Sequence[str]) -> tuple[bool, list[LogLine | Failure]]:
        """Whether a command of Nix succeeded, and its log."""
        done = self.nix.run(command)
        reader = LogReader()
        events = [event for line in done.stderr.splitlines() for event in reader.read(line)]
        return done.ok, [event for event in events if isinstance(event, LogLine | Failure)]

    def _place(
        self,
        mismatches: Sequence[Mismatch],
        graphs: Sequence[Graph],
        sites: Mapping[str, Sequence[HashSite]],
        fixes: HashFixes,
    ) -> list[Correction]:
        placed: list[Correction] = []
        for mismatch in mismatches:
            corrections: list[Correction] = []
            for graph in graphs:
                for name in graph.users.get(mismatch.derivation, ()):
                    download = graph.derivations[mismatch.derivation]
                    right = best(sites[name], mismatch.specified, searchable_text(download))
                    source = source_of(download)
                    corrections += [self._correction(site, mismatch.got, source, (name,)) for site in right]
            placed += corrections
            if not corrections:
                found = f"{mismatch.derivation} has {mismatch.got}"
                fixes.unplaced.append(f"{found}, and no file states its old hash")
        return placed

    def _correction(self, site: HashSite, got: str, source: str, recipes: tuple[str, ...]) -> Correction:
        return Correction(site, got, source, recipes, suspicion(site.value, got, source, self.proved))

    def _write(self, changes: Sequence[Change]) -> None:
        """Corrections, and with those of torchsmith.toml or the catalog the recipes that follow from them."""
        texts = {
            change.path: change.after for change in changes if change.path.endswith(".toml") and change.after
        }
        with writing(self.workspace.home, "fix-hashes") as writer:
            if not texts:
                writer.write(changes)
                return
            self.workspace = after = self.workspace.with_texts(texts)
            repos = wanted_repos(after)
            write_changes(writer, repos, [*changes, *reconcile(after, repos)])


def without_rivals(downloads: Sequence[Derivation]) -> list[list[Derivation]]:
    """Batches in which no two have the same path, as placeholders do: Nix would build these one by one."""
    batches: list[dict[str, Derivation]] = []
    for download in downloads:
        free = next((batch for batch in batches if output_of(download) not in batch), None)
        if free is None:
            free = {}
            batches.append(free)
        free[output_of(download)] = download
    return [list(batch.values()) for batch in batches]


def stated_downloads(graph: Graph, sites: Mapping[str, Sequence[HashSite]]) -> list[Derivation]:
    """The fixed-output derivations below recipes whose hash one of those recipes states."""
    downloads: dict[str, Derivation] = {}
    for name, paths in graph.below.items():
        own = sites.get(name, ())
        for path in paths:
            derivation = graph.derivations.get(path)
            if derivation and derivation.fixed and any(site.states(_hash(derivation)) for site in own):
                downloads[path] = derivation
    return list(downloads.values())


def fetchable(downloads: Sequence[Derivation], twins: Sequence[Derivation]) -> list[Derivation]:
    """Downloads, those of other systems in the form that this machine can run: a fixed output is the same."""
    ours = {(output_of(twin), source_of(twin)): twin for twin in twins}
    chosen = (ours.get((output_of(download), source_of(download)), download) for download in downloads)
    return list({download.path: download for download in chosen}.values())


def _hash(derivation: Derivation) -> str:
    """The hash that a download states."""
    return to_sri(next(output.hash for output in derivation.outputs.values() if output.hash))


def _named(download: Derivation, graphs: Sequence[Graph]) -> str:
    """A download by its source and the recipes that need it."""
    recipes = list(dict.fromkeys(name for graph in graphs for name in graph.users.get(download.path, ())))
    return f"{some_of(recipes)}: {source_of(download)}" if recipes else source_of(download)


def output_of(derivation: Derivation) -> str:
    """Where a download goes; it has one output."""
    return next(iter(derivation.outputs.values())).path or ""


def suspicion(old: str, got: str, source: str, proved: Mapping[str, str]) -> str:
    """Why a correction may be tampering; empty for a placeholder alone: what is stated was meant."""
    if source in proved and proved[source] != got:
        return f"this very source had {proved[source]} before"
    if is_placeholder(old):
        return ""
    if any(known == to_sri(old) and other != source for other, known in proved.items()):
        return f"the hash {old} was stated for it and is another source's: was the revision changed?"
    return f"the hash {old} was stated for it, and is not a placeholder"


def merged(corrections: Sequence[Correction]) -> list[Correction]:
    """One correction a place, with all recipes that it serves."""
    by_site: dict[tuple[object, ...], Correction] = {}
    for correction in corrections:
        key = (correction.site.file, correction.site.span, correction.site.path)
        if key in by_site:
            before = by_site[key]
            doubt = before.suspicion or correction.suspicion
            if not doubt and before.got != correction.got:
                doubt = f"two sources share it: {before.got} and {correction.got}"
            recipes = tuple(dict.fromkeys((*before.recipes, *correction.recipes)))
            correction = Correction(correction.site, correction.got, correction.source, recipes, doubt)
        by_site[key] = correction
    return list(by_site.values())


def changed_files(corrections: Sequence[Correction], root: Path) -> list[Change]:
    """The files that corrections touch; the last place first, so that earlier positions stay true."""
    changes = []
    for file, own in grouped((correction.site.file, correction) for correction in corrections).items():
        before = read_text(file) if file.exists() else None
        after = before or ""
        for fix in sorted(own, key=lambda fix: fix.site.span.start if fix.site.span else 0, reverse=True):
            after = fix.site.changed(after, fix.got)
        place = file.absolute()
        path = str(place.relative_to(root) if place.is_relative_to(root) else place)
        changes.append(Change("create" if before is None else "rewrite", path, "", before, after))
    return changes


def _why(events: Sequence[LogLine | Failure], download: Derivation) -> str:
    """Why a download failed: the end of its log, else the last message that names it, else the last one."""
    logs = grouped((event.derivation if isinstance(event, LogLine) else "", event.text) for event in events)
    if own := [line.strip() for line in logs.get(download.path, ()) if line.strip()]:
        return "; ".join(own[-2:])
    named = [text for text in logs.get("", ()) if download.path in text]
    rest = [text for text in logs.get("", ()) if ".drv" not in text]
    return shorten("".join((named or rest)[-1:])).message
