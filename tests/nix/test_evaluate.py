"""Whole workspaces in few processes: the derivations of one by one, and one bad recipe costs no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.nix.conftest import MINI, PIN, Ask, Write, apart, torch_recipe
from tests.recipe.conftest import Make, make  # noqa: F401
from tests.recipe.test_evaluated import NIGHTLY
from torchsmith.core.problem import Exit, Failed, Problem
from torchsmith.nix.cache import Fingerprints, ResultCache
from torchsmith.nix.evaluate import (
    EvalResult,
    EvaluationOptions,
    EvaluationRequest,
    evaluate,
    exit_of,
    plan_batches,
    reachable,
)
from torchsmith.nix.prepare import EvalJob, Preparation
from torchsmith.nix.tool import Nix
from torchsmith.nix.worker import WorkerLimits, run_batch
from torchsmith.workspace.checkout import recipes_in
from torchsmith.workspace.load import open_workspace

pytestmark = pytest.mark.needs("nix")

CELLS = """
format = 1
cudatoolkit = ["13.0"]
[[matrix]]
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm90", "sm120"]
isa = ["avx2", "avx512"]
[[matrix]]
python = ["3.13"]
cuda = ["12.8"]
sm = ["sm90"]
isa = ["avx2"]
[[matrix]]
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm110"]
isa = ["armv8_2"]
[[matrix]]
python = ["3.13", "3.12"]
cuda = ["cpu"]
isa = ["avx2"]
"""


def drvs(results: dict[str, EvalResult] | list[EvalResult]) -> dict[str, str | None]:
    listed = results.values() if isinstance(results, dict) else results
    return {one.name: one.evaluated.drv_path if one.evaluated else str(one.cause) for one in listed}


def requests_in(folder: Path) -> list[EvaluationRequest]:
    return [EvaluationRequest(one.name, one.path, one.system) for one in recipes_in(folder)]


def test_shared_evaluation_gives_the_derivations_of_separate_evaluation(
    make: Make,  # noqa: F811
    nix: Nix,
) -> None:
    requests = requests_in(make(CELLS))
    trees = {"default": MINI}
    shared = drvs(evaluate(requests, nix, EvaluationOptions(trees=trees)))
    separate = drvs(apart(requests, nix))
    assert len(shared) == 28
    assert shared == separate
    assert all(drv and drv.endswith(".drv") for drv in shared.values())


def test_a_new_store_is_laid_out_before_processes_use_it_side_by_side(
    write: Write, nix: Nix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = replace(nix, store=f"local?root={tmp_path / 'new'}")
    before: list[bool] = []

    def watched(*words: Any) -> list[EvalJob]:
        before.append((tmp_path / "new/nix/var/nix/gcroots/profiles").is_symlink())
        return run_batch(*words)

    monkeypatch.setattr("torchsmith.nix.evaluate.run_batch", watched)
    requests = write(one=torch_recipe(), two=torch_recipe(more="config = { };"))
    options = EvaluationOptions(trees={"default": MINI}, limits=WorkerLimits(workers=2))
    results = evaluate(requests, new, options)
    assert all(result.ok for result in results)
    assert before == [True, True]


def kind_in(name: str) -> str:
    return next(kind for kind in ("cpu", "cuda12_8", "13_0") if kind in name)


def test_recipes_of_a_line_are_evaluated_in_one_process(make: Make) -> None:  # noqa: F811
    preparation = Preparation()
    for request in requests_in(make(CELLS)):
        preparation.add(request.name, request.path, system=request.system)
    batches = plan_batches(preparation.jobs, workers=1)
    told = sorted((len(batch), *{kind_in(job.name) for job in batch}) for batch in batches)
    # A GPU is named in the import, so that cells for one GPU share theirs.
    gpus = [(6, "13_0"), (6, "13_0")]
    assert told == [(3, "13_0"), (3, "cpu"), (3, "cpu"), (3, "cuda12_8"), (4, "13_0"), *gpus]


TINY = {
    "default.nix": 'args: { d = derivation { name = "d"; system = "x"; builder = args.builder or "b"; }; }',
    "lib/default.nix": "{ }",
}


IMPORTS = [
    'let v = "1"; in (import <nixpkgs> { builder = v; }).d',
    'let v = "1"; w = "${v}2"; in let u = w; in (import <nixpkgs> { builder = u; }).d',
    'let f = x: x + "y"; in (import <nixpkgs> { builder = f "a"; }).d',
    'let map = _: "mine"; in (import <nixpkgs> { builder = map 1; }).d',
    '{ v ? "default" }: (import <nixpkgs> { builder = v; }).d',
    'let inherit ({ v = "i"; }) v; in (import <nixpkgs> { builder = v; }).d',
    'let v = "1"; in let inherit v; in (import <nixpkgs> { builder = v; }).d',
    "let a = ''\n  two\n    lines\n''; in (import <nixpkgs> { builder = a; }).d",
    'let a.b = "x"; a.c = "y"; in (import <nixpkgs> { builder = a.b + a.c; }).d',
    '(import <nixpkgs> (rec { v = "r"; builder = v; })).d',
    '(import <nixpkgs> { builder = with { v = "w"; }; v; }).d',
    '(import <nixpkgs> { builder = "\\${x} ${"y"}"; }).d',
    "(import <nixpkgs> { builder = toString ./here; }).d",
    "let p = ./.; in (import <nixpkgs> { builder = builtins.baseNameOf p; }).d",
    'import ./inner.nix { v = "passed"; }',
    'let w = "let"; in import ./inner.nix { v = w; }',
    "{ lib ? null }: import ./inner.nix { inherit lib; }",
    "({ lib }: import ./inner.nix { inherit lib; }) { lib = 1; }",
    '{ ... }@given: import ./inner.nix (given // { v = "1"; lib = 2; } // { lib = 3; })',
    '({ ... }@given: import ./inner.nix (given // { v = "1"; })) { lib = 5; }',
]


def test_taking_an_import_out_changes_no_value(tmp_path: Path, write: Write, ask: Ask, nix: Nix) -> None:
    for name, content in TINY.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(content)
    recipes = write(**{f"one{number}": text for number, text in enumerate(IMPORTS)})
    twins = write(**{f"two{number}": f"/* a twin */ {text}" for number, text in enumerate(IMPORTS)})
    inner = '{ lib ? 0, v ? "none" }: (import <nixpkgs> { builder = "${v}${toString lib}"; }).d'
    (recipes[0].path.parent / "inner.nix").write_text(inner)
    trees = {"default": tmp_path / "tree"}
    together, alone = ask([*recipes, *twins], trees=trees), apart(recipes, nix, tmp_path / "tree")
    for one, two, text in zip(recipes, twins, IMPORTS, strict=True):
        assert together[one.name].ok, (text, together[one.name].cause)
        assert drvs(together)[one.name] == drvs(together)[two.name] == drvs(alone)[one.name], text


BAD = {
    "syntax": ("{ a = ; }", "syntax error"),
    "missing": (torch_recipe("pkgs.nonsense"), "attribute 'nonsense' missing"),
    "recursion": (torch_recipe("let x = x; in x"), "endless recursion"),
    "deep": (torch_recipe("let f = x: 1 + f (x + 1); in f 0"), "endless recursion"),
    "throws": (
        torch_recipe("pkgs.python3Packages.pytorch"),
        "'pytorch' has been renamed to/replaced by 'torch'",
    ),
    "asserts": (torch_recipe('assert pkgs.lib.hasPrefix "y" pkgs.system; 1'), "failed"),
    "unfree": (torch_recipe("pkgs.cudaPackages.cudnn"), "has an unfree license"),
    "broken": (
        torch_recipe(
            "pkgs.python3Packages.torch",
            "config = { cudaSupport = true; allowUnfree = true; };"
            " overlays = [ (final: prev: { cudaPackages = final.cudaPackages_13; }) ];",
        ),
        "is marked as broken",
    ),
    "ifd": (torch_recipe('import (pkgs.writeText "x.nix" "1")'), "import from derivation"),
    "outside": (
        torch_recipe("builtins.readFile /etc/hostname"),
        "which is outside the workspace and nixpkgs",
    ),
    "download": (
        torch_recipe('builtins.fetchurl "https://example.invalid/x"'),
        'fetch = ["https://example.invalid/x"] in torchsmith.toml',
    ),
    "number": ("1 + 1", "is not a package: it evaluates to a value of type int"),
    "type": (torch_recipe('1 + "a"'), "cannot"),
}


def test_every_bad_recipe_has_one_clear_cause_and_good_ones_are_unaffected(write: Write, ask: Ask) -> None:
    recipes = write(
        **{name: text for name, (text, _) in BAD.items()}, good=torch_recipe(), fine=torch_recipe()
    )
    results = ask(recipes, limits=WorkerLimits(workers=2))
    assert results["good"].ok
    assert results["fine"].ok
    for name, (_, words) in BAD.items():
        cause = results[name].cause
        assert cause is not None, name
        assert words in cause.message, f"{name}: {cause.message}"
        assert "\n" not in cause.message


def test_arguments_of_a_recipe_by_hand_need_a_nixpkgs_and_get_it(write: Write, ask: Ask) -> None:
    recipes = write(
        default="{ pkgs ? import <nixpkgs> { } }: pkgs.python3Packages.torch",
        formal="{ python3Packages }: python3Packages.torch",
    )
    for result in ask(recipes, trees={}).values():
        assert result.cause is not None
        assert "--nixpkgs" in result.cause.message
    assert all(result.ok for result in ask(recipes).values())


def test_a_stack_that_overflows_is_named_where_nix_says_so_without_an_event(
    write: Write, nix: Nix, tmp_path: Path
) -> None:
    """On x86_64 Nix catches the signal, writes a plain line and exits with 1; on AArch64 it just dies."""
    wrapper = tmp_path / "nix-instantiate"
    said = "error: stack overflow (possible infinite recursion)"
    wrapper.write_text(f'#!/bin/sh\n{nix.program} "$@" || {{ echo "{said}" >&2; exit 1; }}\n')
    wrapper.chmod(0o755)
    (tmp_path / "nix-store").symlink_to(nix.program.with_name("nix-store"))
    [deep] = write(deep=BAD["deep"][0])
    [result] = evaluate([deep], replace(nix, program=wrapper), EvaluationOptions(trees={"default": MINI}))
    assert result.cause is not None
    assert "recursion" in result.cause.message


def test_an_error_names_the_line_of_the_recipe_and_not_of_a_copy(write: Write, ask: Ask) -> None:
    text = torch_recipe("pkgs.python3Packages.torch.overrideAttrs (old: {\n  x = pkgs.nonsense;\n})")
    [request, other] = write(one=text, other=text.replace("nonsense", "hello"))
    cause = ask([request, other])["one"].cause
    assert cause is not None
    assert cause.where is not None
    assert (cause.where.file, cause.where.line, cause.where.column) == (str(request.path), 3, 7)


def test_an_error_inside_the_shared_import_names_the_line_too(write: Write, ask: Ask) -> None:
    more = "\n  overlays = [\n    (final: prev: { cudaPackages = final.cudaPackages_99; })\n  ];\n"
    more += "  config.cudaSupport = true;"
    [request, _] = requests = write(one=torch_recipe(more=more), two=torch_recipe(more=more))
    cause = ask(requests)["one"].cause
    assert cause is not None
    assert cause.where is not None
    assert (cause.where.file, cause.where.line) == (str(request.path), 3)


def test_a_recipe_sees_no_environment_and_no_time(
    write: Write, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "token")
    body = 'pkgs.python3Packages.torch.overrideAttrs (_: { pname = "x" + builtins.getEnv "SECRET"; })'
    result = ask(write(one=torch_recipe(body)))["one"]
    assert result.evaluated is not None
    assert result.evaluated.facts.pname == "x"


def test_a_recipe_cannot_speak_for_the_evaluator(write: Write, ask: Ask) -> None:
    fake = 'builtins.trace "torchsmith-0 {\\"done\\":0,\\"report\\":{}}" pkgs.python3Packages.torch'
    results = ask(write(one=torch_recipe(fake), two=torch_recipe()))
    assert results["one"].ok
    assert results["two"].ok


SLOW = (
    "let l = builtins.genList (x: x) 30000; in builtins.foldl' (a: i: builtins.foldl' (b: j: b + j) a l) 0 l"
)


def test_a_recipe_that_does_not_end_is_stopped_and_the_rest_goes_on(write: Write, ask: Ask) -> None:
    results = ask(
        write(one=torch_recipe(), loop=torch_recipe(SLOW), two=torch_recipe()), limits=WorkerLimits(seconds=2)
    )
    assert results["loop"].cause is not None
    assert "2 s" in results["loop"].cause.message
    assert results["one"].ok
    assert results["two"].ok


def test_a_recipe_that_needs_too_much_memory_fails_alone(write: Write, ask: Ask) -> None:
    hungry = (
        "builtins.length (builtins.filter (x: x > 0) (map (x: x + 1) (builtins.genList (x: x) 30000000)))"
    )
    results = ask(
        write(one=torch_recipe(), big=torch_recipe(hungry)), limits=WorkerLimits(1, memory=256 << 20)
    )
    assert results["big"].cause is not None
    assert "0.2 GiB" in results["big"].cause.message
    assert results["one"].ok


def test_a_worker_that_passes_its_limit_is_replaced_and_its_recipes_are_retried(
    write: Write, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[Any] = []

    def broken(worker: Any) -> str | None:
        """Every worker seems to outgrow its limit once it has told of two recipes."""
        if worker not in workers:
            workers.append(worker)
        return "memory" if len(worker.finished) >= 2 and worker.remaining() else None

    monkeypatch.setattr("torchsmith.nix.worker._Worker._broken_limit", broken)
    names = [f"r{number}" for number in range(6)]
    results = ask(write(**dict.fromkeys(names, torch_recipe())), limits=WorkerLimits(workers=1))
    assert all(results[name].ok for name in names)
    assert len(workers) == 3


def test_results_are_kept_until_something_they_rest_on_changes(
    write: Write, nix: Nix, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(MINI, tree)
    [request] = write(one="import ./inner.nix { }")
    inner = request.path.parent / "inner.nix"
    inner.write_text("{ }: " + torch_recipe())
    cache = ResultCache(tmp_path / "cache")

    def cached() -> bool:
        [result] = evaluate([request], nix, EvaluationOptions(trees={"default": tree}, cache=cache))
        assert result.ok, result.cause
        return result.cached

    assert [cached(), cached()] == [False, True]
    inner.write_text("{ }: " + torch_recipe("pkgs.python3Packages.torchvision"))
    assert [cached(), cached()] == [False, True]
    (tree / "releases.nix").write_text((tree / "releases.nix").read_text().replace("2.9.1", "2.9.2"))
    assert [cached(), cached()] == [False, True]
    request.path.write_text("import ./inner.nix { } # the same")
    assert [cached(), cached()] == [False, True]
    for file in (tmp_path / "cache").rglob("*.json"):
        file.write_text("damaged")
    assert [cached(), cached()] == [False, True]


def test_a_tarball_that_cannot_be_fetched_is_tried_once_for_all(write: Write, ask: Ask) -> None:
    recipes = {
        f"r{number}": torch_recipe().replace("https://github.com", "https://127.0.0.1:9")
        for number in range(8)
    }
    address = PIN.replace("https://github.com", "https://127.0.0.1:9")
    results = ask(write(**recipes), trees={}, addresses=[address], limits=WorkerLimits(workers=1))
    assert sum(result.seconds > 0 for result in results.values()) == 1
    for result in results.values():
        assert result.cause is not None
        assert result.cause.message.startswith(f"cannot download {address}")
        assert result.cause.code == "fetch"
        assert exit_of([result.cause]) is Exit.ENVIRONMENT


def test_a_failure_is_not_kept(write: Write, nix: Nix, tmp_path: Path) -> None:
    requests = write(one=torch_recipe('throw "not for this Python"'))
    options = EvaluationOptions(trees={"default": MINI}, cache=ResultCache(tmp_path / "cache"))
    first, again = (evaluate(requests, nix, options)[0] for _ in range(2))
    assert first.cause is not None
    assert (again.cached, again.cause) == (False, first.cause)


# What Nix and torchsmith print of a failed download; a recipe may say the same.
UNFETCHED = f"unable to download '{PIN}': Could not connect to server", f"cannot download {PIN}"


@pytest.mark.parametrize("message", UNFETCHED)
@pytest.mark.parametrize("error", ["throw", "abort"])
def test_a_recipe_that_fails_with_the_message_of_a_download_is_wrong_itself(
    error: str, message: str, write: Write, ask: Ask
) -> None:
    result = ask(write(one=torch_recipe(f'{error} "{message}"')))["one"]
    assert result.cause is not None
    assert result.cause.code == "recipe"
    assert exit_of([result.cause]) is Exit.CHECK_FAILED


def test_a_recipe_that_survives_a_failed_download_and_fails_then_is_wrong_itself(
    write: Write, ask: Ask
) -> None:
    address = PIN.replace("https://github.com", "https://127.0.0.1:9")
    fetched = f'builtins.tryEval (builtins.fetchTarball {{ url = "{address}"; sha256 = "{"0" * 52}"; }})'
    recipe = f'let tried = {fetched}; in if tried.success then tried.value else throw "no mirror"'
    result = ask(write(one=recipe), trees={}, addresses=[address])["one"]
    assert result.cause is not None
    assert (result.cause.code, result.cause.message) == ("recipe", "no mirror")


@pytest.fixture
def only_x86(tmp_path: Path) -> Path:
    """A nixpkgs that makes nothing for other systems."""
    shutil.copytree(MINI, tree := tmp_path / "only-x86")
    refused = 'if localSystem != "x86_64-linux" then throw "no packages here" else lib.fix ('
    default = tree / "default.nix"
    default.write_text(default.read_text().replace("lib.fix (", refused))
    return tree


ARM = torch_recipe().replace("x86_64-linux", "aarch64-linux")


@pytest.mark.parametrize("text", [ARM, "{ torch }: torch"], ids=["imported", "as an argument"])
def test_a_nixpkgs_that_makes_nothing_for_a_system_is_not_the_fault_of_its_recipes(
    text: str, only_x86: Path, write: Write, ask: Ask
) -> None:
    arm = [replace(request, system="aarch64-linux") for request in write(arm=text)]
    x86 = [replace(request, system="x86_64-linux") for request in write(wrong=torch_recipe("pkgs.gone"))]
    results = ask([*arm, *x86], trees={"default": only_x86})
    causes = [results[name].cause for name in ("arm", "wrong")]
    assert [cause and cause.code for cause in causes] == ["system", "recipe"]
    assert causes[0] is not None
    assert "for aarch64-linux: no packages here" in causes[0].message
    assert exit_of([causes[0]]) is Exit.ENVIRONMENT
    with pytest.raises(Failed, match="no packages here"):
        reachable([results["arm"]])


def test_a_wrong_recipe_of_a_system_that_its_nixpkgs_has_is_wrong_itself(write: Write, ask: Ask) -> None:
    wrong = ARM.replace("pkgs.python3Packages.torch", "pkgs.gone")
    arm = [replace(request, system="aarch64-linux") for request in write(arm=wrong)]
    cause = ask(arm)["arm"].cause
    assert cause
    assert (cause.code, "gone" in cause.message) == ("recipe", True)


def test_an_import_that_names_no_system_is_evaluated_for_the_recipes_own(write: Write, ask: Ask) -> None:
    silent = torch_recipe().replace('system = "x86_64-linux";', "")
    package = 'pkgs.stdenv.mkDerivation { name = "mac"; meta.platforms = [ "aarch64-darwin" ]; }'
    mac = silent.replace("pkgs.python3Packages.torch", package)
    named = [
        replace(request, system=f"{request.name}-linux") for request in write(x86_64=silent, aarch64=silent)
    ]
    found = ask([*named, *write(mac=mac)])
    systems = {name: result.evaluated and result.evaluated.system for name, result in found.items()}
    assert systems == {"x86_64": "x86_64-linux", "aarch64": "aarch64-linux", "mac": "aarch64-darwin"}


def test_a_failure_by_time_is_not_kept(write: Write, nix: Nix, tmp_path: Path) -> None:
    requests, cache = write(one=torch_recipe()), ResultCache(tmp_path / "cache")
    options = EvaluationOptions(trees={"default": MINI}, cache=cache, limits=WorkerLimits(seconds=0.0))
    assert not evaluate(requests, nix, options)[0].ok
    assert evaluate(requests, nix, replace(options, limits=None))[0].ok


def test_results_that_nobody_uses_are_swept_once_a_day(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path)

    def aged(path: Path, days: float) -> Path:
        then = time.time() - days * 24 * 3600
        os.utime(path, (then, then))
        return path

    for key in ("aa-used", "bb-unused", "cc-recent"):
        cache.keep(key, 1)
    aged(tmp_path / "aa/aa-used.json", 31)
    unused = aged(tmp_path / "bb/bb-unused.json", 31)
    assert cache.load("aa-used", int) == 1
    cache.keep("dd-new", 1)
    assert unused.exists()  # swept today
    aged(tmp_path / "swept", 2)
    cache.keep("dd-new", 1)
    assert not unused.exists()
    assert [cache.load(key, int) for key in ("aa-used", "cc-recent", "dd-new")] == [1, 1, 1]


def test_a_tree_can_stand_for_one_revision_alone(write: Write, ask: Ask, tmp_path: Path) -> None:
    rev = PIN.rpartition("/")[2].removesuffix(".tar.gz")
    old = tmp_path / "old"
    shutil.copytree(MINI, old)
    (old / "default.nix").write_text((MINI / "default.nix").read_text().replace('"6a030d5"', '"fe5e41d"'))
    result = ask(write(one=torch_recipe()), trees={rev: old})["one"]
    assert result.evaluated is not None
    assert result.evaluated.facts.version == "2.8.0"


@pytest.mark.parametrize("part", ["", "lib"])
def test_a_path_that_is_no_nixpkgs_is_refused(part: str, tmp_path: Path, write: Write, ask: Ask) -> None:
    if part:
        (tmp_path / "default.nix").touch()
    with pytest.raises(Problem, match=str(tmp_path)) as caught:
        ask(write(one=torch_recipe()), trees={"default": tmp_path})
    assert ("lib/" in caught.value.message) == bool(part)


def test_arguments_come_from_a_package_set_as_flox_gives_them(write: Write, ask: Ask) -> None:
    text = (
        '{ python312Packages, lib }: python312Packages.torch.overrideAttrs (_: { pname = lib.toLower "X"; })'
    )
    [one] = write(one=text)
    result = ask([EvaluationRequest(one.name, one.path, "aarch64-linux")])["one"]
    assert result.evaluated is not None
    assert result.evaluated.name == "python3.12-x-2.9.1"
    assert result.evaluated.system == "aarch64-linux"


def test_a_file_imported_by_a_computed_path_sees_the_tree_too(write: Write, ask: Ask, nix: Nix) -> None:
    write(inner="{ }: " + torch_recipe())
    recipes = write(
        one='let here = ./.; in import (here + "/inner.nix") { }',
        two='builtins.import (./. + "/inner.nix") { }',
    )
    together = ask(recipes)
    assert drvs(together) == drvs(apart(recipes, nix))
    assert all(result.ok for result in together.values()), drvs(together)


def test_a_self_contained_nightly_evaluates_with_its_wrapper_and_its_cuda(make: Make, nix: Nix) -> None:  # noqa: F811
    root = make(NIGHTLY.format(self_contained="true"))
    results = evaluate(requests_in(root), nix, EvaluationOptions(trees={"default": MINI}))
    assert {one.name: str(one.cause) for one in results if not one.ok} == {}
    wrapper = next(one for one in results if one.name.endswith("-wrapper"))
    assert wrapper.evaluated is not None
    assert wrapper.evaluated.system == "aarch64-linux"
    preparation = Preparation()
    preparation.add(wrapper.name, wrapper.path)
    assert [one.url for one in preparation.jobs[0].tarballs] == [PIN], (
        "the pin of the CUDA recipes, which may be downloaded"
    )


def without_repetition(requests: list[EvaluationRequest]) -> list[EvaluationRequest]:
    """Recipes with every target, and every Python and set with each backend, by their names."""
    seen: set[tuple[str, ...]] = set()
    kept = []
    for request in requests:
        python, *target, isa = request.name.split("-")[1:]
        parts = {("target", *target), ("python", python, target[0]), ("set", isa, target[0])}
        if not parts <= seen:
            seen |= parts
            kept.append(request)
    return kept


@pytest.mark.parametrize("chosen", [without_repetition, pytest.param(list, marks=pytest.mark.long, id="all")])
def test_every_target_python_and_set_of_the_widest_profile_evaluates_at_its_pin(
    chosen: Callable[[list[EvaluationRequest]], list[EvaluationRequest]],
    make: Make,  # noqa: F811
    nix: Nix,
) -> None:
    root = make('format = 1\nprofile = "wide"\npackages = ["pytorch"]\n')
    workspace = open_workspace(root)
    trees = {"default": MINI, workspace.catalog.pins["2017d6d"].rev: MINI / "at-2017d6d"}
    requests = requests_in(root)
    assert len(requests) == len(workspace.matrix.cells)
    results = evaluate(chosen(requests), nix, EvaluationOptions(trees=trees))
    # At 2017d6d nobody knows; the miniature takes it to be as its neighbour in time.
    unproved = "pytorch-python313-cuda13_1-sm87-armv8_2"
    assert {one.name: str(one.cause) for one in results if not one.ok and one.name != unproved} == {}


def test_a_cell_that_its_pin_cannot_build_fails_where_the_limit_is_not_known(
    make: Make,  # noqa: F811
    nix: Nix,
) -> None:
    root = make('format = 1\ninclude = ["pytorch-python313-cuda13_0-sm110-armv8_2"]\n')
    [request] = requests_in(root)
    wrong = request.path.with_name("wrong.nix")
    wrong.write_text(request.path.read_text().replace('"11.0"', '"8.7"'))
    [result] = evaluate([EvaluationRequest("wrong", wrong)], nix, EvaluationOptions(trees={"default": MINI}))
    assert result.cause is not None
    assert "is not available on aarch64-linux" in result.cause.message


def test_a_folder_whose_name_no_path_can_hold_is_evaluated_all_the_same(tmp_path: Path, ask: Ask) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    (folder / "inner.nix").write_text("{ }: " + torch_recipe())
    (folder / "one.nix").write_text("import ./inner.nix { }")
    assert ask([EvaluationRequest("one", folder / "one.nix")])["one"].ok


def job(name: str, *shares: str) -> EvalJob:
    return EvalJob(name, Path(f"/{name}.nix"), "", shares)


def test_batches_keep_groups_together_and_split_only_large_ones() -> None:
    small = [job(f"a{number}", "s1") for number in range(20)]
    large = [job(f"b{number}", "s2") for number in range(100)]
    alone = [job("c"), job("d")]
    batches = plan_batches([*small, *large, *alone], workers=2)
    assert sorted(len(batch) for batch in batches) == [1, 1, 20, 50, 50]
    assert sum(len(batch) for batch in plan_batches([*small, *large, *alone], workers=8)) == 122


def test_a_result_of_another_store_is_not_used_and_a_missing_derivation_is_made_again(
    write: Write, nix: Nix, tmp_path: Path
) -> None:
    requests = write(one=torch_recipe())
    options = EvaluationOptions(
        trees={"default": MINI}, cache=ResultCache(tmp_path / "cache"), instantiate=True
    )

    def store(name: str) -> Nix:
        places = {"NIX_STORE_DIR": tmp_path / name / "store", "NIX_STATE_DIR": tmp_path / name / "var"}
        return replace(nix, store="", env={**nix.env, **{key: str(path) for key, path in places.items()}})

    def made(name: str) -> tuple[bool, str]:
        [result] = evaluate(requests, store(name), options)
        assert result.evaluated is not None, result.cause
        return result.cached, result.evaluated.drv_path

    cached, path = made("one")
    assert (cached, made("one")) == (False, (True, path))
    assert made("two")[1].startswith(str(tmp_path / "two/store"))
    assert made("one") == (True, path)
    delete = store("one").command("nix-store", "--delete", path)
    subprocess.run(delete, env=store("one").environment(), check=True)
    assert made("one") == (False, path)


def test_a_tree_is_known_by_its_own_files_and_not_by_those_that_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "tree/lib").mkdir(parents=True)
    (tmp_path / "tree/lib/up").symlink_to("..")
    (tmp_path / "tree/other").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    before = Fingerprints().tree(tmp_path / "tree")
    (tmp_path / "other/a.nix").write_text("1")
    assert Fingerprints().tree(tmp_path / "tree") == before
    (tmp_path / "tree/a.nix").write_text("1")
    assert Fingerprints().tree(tmp_path / "tree") != before
