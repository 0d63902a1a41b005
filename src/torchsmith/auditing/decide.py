"""Nix and a nixpkgs confirm or drop findings in expressions that a rule is not sure of. A file that cannot be
evaluated by itself keeps its findings."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torchsmith.auditing.finding import Finding, Sure
from torchsmith.auditing.rule import find_rule
from torchsmith.core.git import git
from torchsmith.core.process import run
from torchsmith.nix.cache import ResultCache
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.readable import readable_root
from torchsmith.nix.tool import find_nix
from torchsmith.recipe.read import read_recipe
from torchsmith.recipe.read.expressions import is_overlay
from torchsmith.workspace.lock import locked_nixpkgs
from torchsmith.workspace.search import nix_files

# Rules that say that torch does not evaluate, and the kind of error that confirms them.
EVALUATED = {"TS310": "broken", "TS311": "broken", "TS851": "env-overlap"}
SETTINGS = "TS811"  # says that nixpkgs does not read a setting
WORKS = "works"  # the outcome of what evaluates
READ = (".patch", ".diff", ".json", ".lock")
SYSTEM = "x86_64-linux"
SETS_NIXPKGS = re.compile(r"\bnixpkgs\.(?:config|overlays)\b|\bnixpkgs = \{")  # as NixOS modules do
CALLS = {
    "overlay": """(import nixpkgs {{
  system = "{system}";
  config = {{ allowUnfree = true; cudaSupport = true; }};
  overlays = [ (import {path}) ];
}}).{attr}""",
    # What a NixOS module sets of nixpkgs, and nothing else of it.
    "module": """let
  plain = import nixpkgs {{ system = "{system}"; }};
  module = import {path};
  known = {{ config = {{ }}; pkgs = plain; inherit (plain) lib; }};
  set = if builtins.isFunction module
    then module (builtins.intersectAttrs (builtins.functionArgs module) known) else module;
in (import nixpkgs {{
  system = "{system}";
  config = {{ allowUnfree = true; cudaSupport = true; }} // (set.nixpkgs.config or {{ }});
  overlays = set.nixpkgs.overlays or [ ];
}}).{attr}""",
    "package": """(import nixpkgs {{
  system = "{system}";
  config = {{ allowUnfree = true; cudaSupport = true; }};
}}).python3Packages.callPackage {path} {{ }}""",
    # All packages and shells of a flake that has nixpkgs alone as its input.
    "flake": """let
  pkgs = import nixpkgs {{ system = "{system}"; }};
  as_input = {{ outPath = nixpkgs; inherit (pkgs) lib; legacyPackages."{system}" = pkgs; }};
  self = (import {path}).outputs {{ inherit self; nixpkgs = as_input; }};
  built = builtins.concatMap (kind: builtins.attrValues (self.${{kind}}."{system}" or {{ }}))
    [ "packages" "devShells" ];
in builtins.foldl' (_: package: builtins.seq package.drvPath package) null built""",
}
PROBE = """{{ }}:
let nixpkgs = builtins.fetchTarball "https://github.com/NixOS/nixpkgs/archive/{rev}.tar.gz";
in {call}
"""


FileAttr = tuple[str, str]  # a file, and the attribute of its package set that a finding is about


def decided(findings: Sequence[Finding], trees: Mapping[str, Path]) -> list[Finding]:
    """Return the findings that Nix confirms, or cannot decide."""
    unsure = [finding for finding in findings if finding.sure is not Sure.CERTAIN]
    questions = {finding: _question(finding) for finding in unsure if finding.rule in EVALUATED}
    answers = _answers(sorted(set(questions.values())), trees)
    remaining = []
    for finding in findings:
        right = None
        if finding in questions:
            outcome = answers.get(questions[finding])
            right = {WORKS: False, EVALUATED[finding.rule]: True}.get(outcome or "")
        elif finding.rule == SETTINGS and finding in unsure:
            right = _is_unread(finding, trees)
        if right:
            remaining.append(replace(finding, sure=Sure.CERTAIN, severity=find_rule(finding.rule).severity))
        elif right is None:
            undecided = "--eval could not decide: Nix cannot evaluate this file by itself"
            hint = f"{finding.hint}; {undecided}" if finding.hint else undecided
            remaining.append(replace(finding, hint=hint) if finding in questions else finding)
    return remaining


def _question(finding: Finding) -> FileAttr:
    recipe = read_recipe(Path(finding.where.file))
    at = finding.where.line - 1, max(finding.where.column - 1, 0)
    node = recipe.syntax.tree.root_node.descendant_for_point_range(at, at)
    first = recipe.owner_of(node).partition(".")[0] if node is not None else ""
    of_python = first.startswith("python") or first in ("", "nixpkgs")
    return finding.where.file, "python3Packages.torch" if of_python else first


def _is_unread(finding: Finding, trees: Mapping[str, Path]) -> bool | None:
    """Whether nothing in a nixpkgs reads a setting; None if that cannot be searched."""
    tree = trees.get(locked_nixpkgs(Path(finding.where.file)).get("nixpkgs", "")) or trees.get("default")
    if tree is None or not finding.about:
        return None
    searched = run(["grep", "-rqw", f"config\\.{finding.about}", "--include=*.nix", tree / "pkgs"])
    return {0: False, 1: True}.get(searched.code)  # any other code: grep failed


def _answers(questions: Sequence[FileAttr], trees: Mapping[str, Path]) -> dict[FileAttr, str]:
    """Return for each question WORKS or the kind of its error; no entry for a file that nothing is known to
    call by. Files are evaluated in a copy, so that nothing is written beside them."""
    with tempfile.TemporaryDirectory() as folder:
        copies: dict[Path, Path] = {}
        requests: dict[str, FileAttr] = {}
        for file, attr in questions:
            path = Path(file).resolve()
            root = readable_root(path)
            if root not in copies:
                copies[root] = Path(folder, f"repository{len(copies)}")
                _copy(root, copies[root])
            text = _probe(path, f"./{path.relative_to(root)}", attr, trees)
            if text is not None:
                probe = copies[root] / f"question{len(requests)}.nix"
                probe.write_text(text)
                requests[str(probe)] = file, attr
        for copy in copies.values():  # an evaluation reads what git tracks
            git(copy, "init", "-q")
            git(copy, "add", "-A")
        probes = [EvaluationRequest(probe, Path(probe), SYSTEM) for probe in requests]
        options = EvaluationOptions(trees=trees, cache=ResultCache())
        results = evaluate(probes, find_nix(), options) if probes else []
    return {requests[result.name]: result.cause.kind if result.cause else WORKS for result in results}


def _copy(root: Path, target: Path) -> None:
    """Copy what expressions of a repository read: its Nix files, and small files that those may name."""
    for path in (*nix_files(root), *(path for end in READ for path in root.rglob(f"*{end}"))):
        inner = path.relative_to(root)
        if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in inner.parts):
            (target / inner).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / inner)


def _probe(path: Path, copy: str, attr: str, trees: Mapping[str, Path]) -> str | None:
    """Return an expression that evaluates to the torch of a file; None if nothing is known to call it by."""
    recipe = read_recipe(path)
    if recipe.pins:
        return f"{{ }}: import {copy}" + (" { }" if recipe.arguments else "")
    rev = locked_nixpkgs(path).get("nixpkgs", "0" * 40)
    if not (rev in trees or "default" in trees):
        return None
    if path.name == "flake.nix":
        kind = "flake"
    elif is_overlay(recipe.syntax.root):
        kind = "overlay"
    else:
        kind = "module" if SETS_NIXPKGS.search(recipe.text) else "package"
    return PROBE.format(rev=rev, call=CALLS[kind].format(path=copy, attr=attr, system=SYSTEM))
