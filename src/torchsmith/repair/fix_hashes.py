"""Learning the hashes that sources really have: downloads alone are realised, nothing is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.core.files import read_text
from torchsmith.core.problem import Exit, Refused
from torchsmith.core.words import grouped, some_of
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.evaluate import EvalResult, EvaluationOptions, evaluate, exit_of, reachable
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.nix.hashes import Mismatch, is_placeholder, read_mismatches, to_sri
from torchsmith.nix.log import Failure, LogLine, LogReader
from torchsmith.nix.store import StoreOptions, realise_command, valid_paths
from torchsmith.nix.tool import Nix
from torchsmith.repair.hash_sites import HashSite, best, holders_of, searchable_text, source_of
from torchsmith.repair.unseen import hash_of, unseen_downloads
from torchsmith.workspace.change import Change
from torchsmith.workspace.checkout import RecipeFile, choose
from torchsmith.workspace.journal import writing
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import reconcile
from torchsmith.workspace.run import carry_out
from torchsmith.workspace.wanted import wanted_repos

UNFETCHED = "could not be fetched"
ROUNDS = 5  # a wrong pin hides the sources behind it


@dataclass(frozen=True, slots=True)
class Correction:
    """A hash to write: where, what was there, what the source has, and whether that is suspicious."""

    holder: HashSite
    got: str
    source: str
    recipes: tuple[str, ...]
    suspicion: str = ""

    @property
    def file(self) -> Path:
        return self.holder.file

    @property
    def where(self) -> str:
        return str(self.holder.where)

    @property
    def before(self) -> str:
        return self.holder.value


@dataclass
class Mended:
    """What a run of fix-hashes found and did."""

    written: list[Correction] = field(default_factory=list)
    suspicious: list[Correction] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)  # mismatches that no file of the workspace states
    unchecked: list[str] = field(default_factory=list)  # recipes or downloads that failed otherwise
    unseen: list[str] = field(default_factory=list)  # sources whose hash no known place states
    proved: dict[str, str] = field(default_factory=dict)  # hashes that were seen to be right, by source
    recovered: str = ""  # what a stopped run had left

    @property
    def exit(self) -> Exit:
        """LACKING where downloads alone failed."""
        if not (self.suspicious or self.unplaced or self.unchecked or self.unseen):
            return Exit.FINE
        others = [one for one in self.unchecked if UNFETCHED not in one]
        wrong = self.suspicious or self.unplaced or self.unseen or exit_of(others) is Exit.NOT_RIGHT
        return Exit.NOT_RIGHT if wrong else Exit.LACKING


@dataclass(frozen=True)
class HashSurvey:
    """One look at the recipes: mismatches, and downloads that are as stated."""

    corrections: tuple[Correction, ...]
    unplaced: tuple[str, ...]
    unchecked: tuple[str, ...]
    unseen: tuple[str, ...]
    right: Mapping[str, str]


@dataclass
class HashFixer:
    """Looks, corrects and looks again until every stated hash is proved."""

    nix: Nix
    workspace: Workspace
    words: Sequence[str]  # that choose recipes
    trees: Mapping[str, Path]
    proved: Mapping[str, str]  # by source, from earlier runs

    def run(self, *, accept: bool, write: bool) -> Mended:
        """Correct what may be corrected; with `accept` also what looks like tampering."""
        mended = Mended()
        if write:
            with writing(self.root, "fix-hashes") as writer:
                mended.recovered = writer.recovered
        for _ in range(ROUNDS):
            found = self.look()
            mended.unplaced, mended.unchecked = list(found.unplaced), list(found.unchecked)
            mended.unseen = list(found.unseen)
            mended.proved |= found.right
            free = [correction for correction in found.corrections if accept or not correction.suspicion]
            mended.suspicious = [correction for correction in found.corrections if correction not in free]
            if not free:
                break
            mended.written += free
            changes = changed_files(free, self.root)
            mended.changes += changes
            if not write:
                break
            self._write(changes)
        else:
            raise Refused(f"hashes still do not match after {ROUNDS} rounds")
        return mended

    def look(self) -> HashSurvey:
        """Evaluate, realise the downloads whose hashes recipes state, and place every mismatch."""
        recipes = choose(self.words, self.workspace, self.root).recipes
        results = reachable(self._evaluate(recipes))
        cells = {cell.name: cell for cell in self.workspace.matrix.cells}
        holders = {
            recipe.name: holders_of(recipe, self.workspace, cells.get(recipe.name)) for recipe in recipes
        }
        graphs = [graph_of(self.nix, results), graph_of(self.nix, self._twins(recipes, results))]
        stated = [stated_downloads(graph, holders) for graph in graphs]
        placed_paths = {one.path for one in stated[0]}
        own = self.trees, self.workspace.addresses
        unseen = unseen_downloads(graphs[0], placed_paths, recipes, self.nix, *own)
        downloads = fetchable(*stated)
        said, failed = self._realise(downloads)
        mismatches = read_mismatches("\n".join(event.text for event in said))
        placed, unplaced = self._place(mismatches, graphs, holders)
        early, nowhere, unchecked = self._at_evaluation(results, holders)
        left = [
            download
            for download in downloads
            if download.path not in {wrong.derivation for wrong in mismatches}
        ]
        valid = valid_paths(self.nix, [output_of(one) for one in left])
        missing = [one for one in left if output_of(one) not in valid or one.path in failed]
        unchecked += [f"{_named(one, graphs)} {UNFETCHED}: {_why(said, one)}" for one in missing]
        right = {source_of(one): _hash(one) for one in left if one not in missing}
        corrections = sorted(merged([*placed, *early]), key=lambda one: one.where)  # Nix tells as they come
        not_seen = tuple(f"{_named(one, graphs)}: no place that is known states its hash" for one in unseen)
        nothing = (*unplaced, *nowhere)
        return HashSurvey(tuple(corrections), nothing, tuple(unchecked), not_seen, right)

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
        self, results: Sequence[EvalResult], holders: Mapping[str, Sequence[HashSite]]
    ) -> tuple[list[Correction], list[str], list[str]]:
        """Tarballs that Nix fetches while it evaluates; and recipes that fail for another reason."""
        placed: list[Correction] = []
        unplaced: list[str] = []
        failed: list[str] = []
        for result in results:
            if result.cause is None:
                continue
            mismatches = read_mismatches(result.cause.message)
            if not mismatches:
                failed.append(f"{result.name}: {result.cause.message}")
            for mismatch in mismatches:
                found = best(holders[result.name], mismatch.specified, mismatch.url)
                placed += [
                    self._correction(holder, mismatch.got, mismatch.url, (result.name,)) for holder in found
                ]
                if not found:
                    unplaced.append(
                        f"{result.name}: {mismatch.url} has {mismatch.got}, and no file states its old hash"
                    )
        return placed, unplaced, failed

    def _realise(self, downloads: Sequence[Derivation]) -> tuple[list[LogLine | Failure], set[str]]:
        """Fetch everything, however many fail; what Nix said, and what did not come though it is there."""
        told: list[LogLine | Failure] = []
        failed: set[str] = set()
        for batch in without_rivals(downloads):
            there = valid_paths(self.nix, [output_of(one) for one in batch])
            if absent := [one.path for one in batch if output_of(one) not in there]:
                told += self._say(realise_command(self.nix, absent, StoreOptions(), keep_going=True))[1]
            # A store path goes by hash and name alone: another source may have put it there.
            for one in batch:
                if output_of(one) in there and self.proved.get(source_of(one)) != _hash(one):
                    ok, words = self._say([*realise_command(self.nix, [one.path], StoreOptions()), "--check"])
                    told += words
                    failed |= set() if ok else {one.path}
        return told, failed

    def _say(self, command: Sequence[str]) -> tuple[bool, list[LogLine | Failure]]:
        """Whether a command of Nix ended well, and what it said."""
        done = self.nix.run(command)
        reader = LogReader()
        events = [event for line in done.stderr.splitlines() for event in reader.read(line)]
        return done.ok, [event for event in events if isinstance(event, LogLine | Failure)]

    def _place(
        self,
        mismatches: Sequence[Mismatch],
        graphs: Sequence[Graph],
        holders: Mapping[str, Sequence[HashSite]],
    ) -> tuple[list[Correction], list[str]]:
        placed: list[Correction] = []
        unplaced: list[str] = []
        for mismatch in mismatches:
            found: list[Correction] = []
            for graph in graphs:
                for name in graph.users.get(mismatch.derivation, ()):
                    download = graph.derivations[mismatch.derivation]
                    right = best(holders[name], mismatch.specified, searchable_text(download))
                    source = source_of(download)
                    found += [self._correction(holder, mismatch.got, source, (name,)) for holder in right]
            placed += found
            if not found:
                unplaced.append(f"{mismatch.derivation} has {mismatch.got}, and no file states its old hash")
        return placed, unplaced

    def _correction(self, holder: HashSite, got: str, source: str, recipes: tuple[str, ...]) -> Correction:
        return Correction(holder, got, source, recipes, suspicion(holder.value, got, source, self.proved))

    @property
    def root(self) -> Path:
        return self.workspace.home

    def _write(self, changes: Sequence[Change]) -> None:
        """Corrections, and with those of torchsmith.toml or the catalog the recipes that follow from them."""
        texts = {
            change.path: change.after for change in changes if change.path.endswith(".toml") and change.after
        }
        with writing(self.root, "fix-hashes") as writer:
            if not texts:
                writer.write(changes)
                return
            self.workspace = after = self.workspace.with_texts(texts)
            repos = wanted_repos(after)
            carry_out(writer, repos, reconcile(after, repos), edits=changes)


def without_rivals(downloads: Sequence[Derivation]) -> list[list[Derivation]]:
    """Batches in which no two want the same path: placeholders do, and Nix makes them wait for each other."""
    batches: list[dict[str, Derivation]] = []
    for download in downloads:
        free = next((batch for batch in batches if output_of(download) not in batch), None)
        if free is None:
            free = {}
            batches.append(free)
        free[output_of(download)] = download
    return [list(batch.values()) for batch in batches]


def stated_downloads(graph: Graph, holders: Mapping[str, Sequence[HashSite]]) -> list[Derivation]:
    """The fixed-output derivations below recipes whose hash one of those recipes states."""
    found: dict[str, Derivation] = {}
    for name, paths in graph.below.items():
        own = holders.get(name, ())
        for path in paths:
            derivation = graph.derivations.get(path)
            if derivation and derivation.fixed and any(one.states(_hash(derivation)) for one in own):
                found[path] = derivation
    return list(found.values())


def fetchable(downloads: Sequence[Derivation], twins: Sequence[Derivation]) -> list[Derivation]:
    """Downloads, those of other systems in the form that this machine can run: a fixed output is the same."""
    ours = {(output_of(twin), source_of(twin)): twin for twin in twins}
    chosen = (ours.get((output_of(download), source_of(download)), download) for download in downloads)
    return list({one.path: one for one in chosen}.values())


def _hash(derivation: Derivation) -> str:
    return to_sri(hash_of(derivation))


def _named(download: Derivation, graphs: Sequence[Graph]) -> str:
    """A download by what people know it by: its source, and the recipes that want it."""
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
    found: dict[tuple[object, ...], Correction] = {}
    for one in corrections:
        key = (one.holder.file, one.holder.span, one.holder.path)
        if key in found:
            before = found[key]
            doubt = before.suspicion or one.suspicion
            if not doubt and before.got != one.got:
                doubt = f"two sources share it: {before.got} and {one.got}"
            recipes = tuple(dict.fromkeys((*before.recipes, *one.recipes)))
            one = Correction(one.holder, one.got, one.source, recipes, doubt)
        found[key] = one
    return list(found.values())


def changed_files(corrections: Sequence[Correction], root: Path) -> list[Change]:
    """The files that corrections touch; the last place first, so that earlier positions stay true."""
    changes = []
    for file, own in grouped((correction.holder.file, correction) for correction in corrections).items():
        before = read_text(file) if file.exists() else None
        after = before or ""
        for one in sorted(own, key=lambda one: one.holder.span.start if one.holder.span else 0, reverse=True):
            after = one.holder.changed(after, one.got)
        path = str(file.relative_to(root) if file.is_relative_to(root) else file.absolute())
        changes.append(Change("create" if before is None else "rewrite", path, "", before, after))
    return changes


def _why(said: Sequence[LogLine | Failure], download: Derivation) -> str:
    """Why a download failed, in a line: of its own log, of what names it, or of what names no download."""
    logs = grouped((one.derivation if isinstance(one, LogLine) else "", one.text) for one in said)
    named = [text for text in logs.get("", ()) if download.path in text]
    rest = [text for text in logs.get("", ()) if ".drv" not in text]
    texts = (*logs.get(download.path, ()), *named, *rest)
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return next((line for line in lines if "error" in line.lower() or "curl" in line), "Nix gave no reason")
