"""Jobs out of derivations: every build in exactly one of them, none in a circle, shared ones apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.simulation import without_bundles
from torchsmith.building.job import Job
from torchsmith.building.jobs import _ordered, jobs_of, jobs_of_recipes, recipes_above
from torchsmith.catalog import builtin_catalog
from torchsmith.nix.derivation import Derivation, Output
from torchsmith.nix.graph import Graph
from torchsmith.workspace.checkout import RecipeFile

CATALOG = builtin_catalog()
X86, ARM = "x86_64-linux", "aarch64-linux"


def path(name: str) -> str:
    return f"/nix/store/{name.encode().hex():0<32.32}-{name}.drv"


def derivation(name: str, *needs: str, system: str = X86) -> Derivation:
    out = {"out": Output(f"/nix/store/{name}")}
    inputs = {path(need): ("out",) for need in needs}
    return Derivation(path(name), name, system, "bash", (), {"pname": name}, inputs, (), out)


def graph(*derivations: Derivation, **recipes: str) -> Graph:
    named = {name.replace("_", "-"): path(target) for name, target in recipes.items()}
    return Graph({one.path: one for one in derivations}, named)


def test_jobs_of_one_name_have_one_order() -> None:
    twins = [Job(key, "blas", (), "other", False, X86) for key in ("b", "a")]
    assert [job.key for job in _ordered(twins)] == ["a", "b"]


def test_a_failed_job_is_named_with_the_recipes_that_need_it() -> None:
    magma = Job("m", "magma", (), "other", False, X86)
    middle = Job("x", "x", (), "other", False, X86, needs=frozenset({"m"}))
    torch = Job("t", "torch", (), "pytorch", False, X86, recipes=("mine",), needs=frozenset({"x"}))
    alone = Job("a", "alone", (), "pytorch", False, X86, recipes=("alone",))
    jobs = [magma, middle, torch, alone]
    assert recipes_above(jobs, "magma") == ["mine"]
    assert recipes_above(jobs, "torch") == []


def test_flox_builds_recipes_that_are_outside_of_the_workspace_too(tmp_path: Path) -> None:
    inside, outside = tmp_path / "workspace/inside", tmp_path / "outside"
    recipes = [
        RecipeFile(repo.name, repo / f".flox/pkgs/{repo.name}.nix", repo, CATALOG)
        for repo in (inside, outside)
    ]
    jobs = jobs_of_recipes(recipes, tmp_path / "workspace", {}, CATALOG)
    assert [job.repo for job in jobs] == ["inside", "../outside"]


def test_what_only_one_job_needs_belongs_to_it_and_what_several_need_comes_first() -> None:
    shown = graph(
        derivation("cmake"),
        derivation("sympy"),
        derivation("patch"),
        derivation("magma", "cmake", "patch"),
        derivation("t1", "magma", "cmake", "sympy"),
        derivation("t2", "magma", "cmake", "sympy"),
        a="t1",
        b="t2",
    )
    jobs = {job.name: job for job in jobs_of(shown, shown.derivations, CATALOG)}
    keys = {job.key: job.name for job in jobs.values()}
    needs = {name: {keys[key] for key in job.needs} for name, job in jobs.items()}
    assert needs == {"cmake": set(), "sympy": set(), "magma": {"cmake"}, "a": {"cmake", "sympy", "magma"}} | {
        "b": {"cmake", "sympy", "magma"}
    }
    assert jobs["magma"].size == 2, "its patch is its own business"
    assert jobs["magma"].package == "magma"


def test_a_build_that_names_no_gpu_counts_as_one_for_its_estimate() -> None:
    [job] = jobs_of(graph(derivation("t1"), a="t1"), [path("t1")], CATALOG)
    assert job.gpus == 1


def test_a_torch_without_a_recipe_is_estimated_by_what_it_is_compiled_for() -> None:
    env = {"pname": "torch", "TORCH_CUDA_ARCH_LIST": "8.0"}
    torch, cpu = derivation("gpu-torch"), derivation("torch")
    shown = graph(replace(torch, env=env), cpu, derivation("t1", "gpu-torch", "torch"), a="t1")
    jobs = {job.name: job for job in jobs_of(shown, shown.derivations, CATALOG)}
    assert {name: (jobs[name].package, jobs[name].gpu) for name in ("gpu-torch", "torch")} == {
        "gpu-torch": ("pytorch", True),
        "torch": ("pytorch", False),
    }


def test_two_jobs_of_one_name_are_told_apart_by_their_system() -> None:
    shown = graph(
        derivation("magma"),
        Derivation(
            path("other"),
            "magma",
            ARM,
            "bash",
            (),
            {"pname": "magma"},
            {},
            (),
            {"out": Output("/nix/store/y")},
        ),
        derivation("t1", "magma"),
        derivation("t2", "other", system=ARM),
        a="t1",
        b="t2",
    )
    names = {job.name for job in jobs_of(shown, shown.derivations, CATALOG)}
    assert names == {f"magma ({X86})", f"magma ({ARM})", "a", "b"}


def test_what_is_in_the_store_is_in_no_job() -> None:
    shown = graph(derivation("magma"), derivation("t1", "magma"), a="t1")
    assert [job.name for job in jobs_of(shown, {path("t1")}, CATALOG)] == ["a"]


@given(st.data())
def test_every_build_is_in_one_job_and_jobs_never_wait_for_each_other_in_a_circle(
    data: st.DataObject,
) -> None:
    names: list[str] = []
    found = []
    for number in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(("magma", "nccl", "x", "y"))) + f"-{number}"
        needs = data.draw(st.sets(st.sampled_from(names), max_size=3)) if names else set()
        found.append(derivation(name, *sorted(needs)))
        names.append(name)
    tops = data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=3))
    shown = graph(*found, **{f"r{index}": name for index, name in enumerate(sorted(tops))})
    wanted = set().union(*shown.below.values())
    jobs = jobs_of(shown, wanted, CATALOG)
    assert sum(job.size for job in jobs) == len(wanted)
    before: set[str] = set()
    for job in jobs:
        assert job.needs <= before
        before.add(job.key)
    long_ones = without_bundles(jobs_of(shown, wanted, CATALOG))
    assert {job.key for job in long_ones} <= {job.key for job in jobs}
    assert all(job.needs <= {one.key for one in long_ones} for job in long_ones)
