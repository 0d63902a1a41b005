"""Packages import only what the table in docs/design.md lets them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "torchsmith"
# A package and what it may import besides itself; what those may import, it may too.
LAYERS: dict[str, set[str]] = {
    "core": set(),
    "catalog": {"core"},
    "matrix": {"catalog"},
    "recipe": {"matrix"},
    "nix": {"recipe"},
    "workspace": {"recipe"},
    "auditing": {"workspace", "nix"},
    "edit": {"auditing"},
    "record": {"catalog", "matrix"},
    "repair": {"nix", "workspace"},
    "building": {"nix", "workspace", "record", "repair", "host"},
    "publishing": {"nix", "workspace", "record", "artifact"},
    "artifact": {"catalog", "matrix"},
    "host": {"catalog", "matrix"},
    "webpage": {"auditing", "benchmark", "building", "host", "publishing"},
    "benchmark": {"artifact"},
    "cli": {"edit", "webpage"},
    "verbs": {"cli"},
}


def allowed(package: str) -> set[str]:
    """Everything that a package may import, itself included."""
    reached = {package}
    for other in LAYERS[package]:
        reached |= allowed(other)
    return reached


def modules(nodes: Iterable[ast.AST]) -> set[str]:
    """The modules of ours that import statements name; for `from a import b` both a and a.b."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "torchsmith"}


def imports(file: Path) -> set[str]:
    """The packages that a module imports from, wherever in it the import stands."""
    names = modules(ast.walk(ast.parse(file.read_text())))
    return {name.split(".")[1] for name in names if "." in name} - {"__version__"}


def graph(package: Path) -> dict[str, set[str]]:
    """The modules of its package that each module imports, late imports and those for types among them."""
    files = {
        ".".join(("torchsmith", *file.relative_to(SOURCE).with_suffix("").parts)): file
        for file in package.rglob("*.py")
    }
    files = {name.removesuffix(".__init__"): file for name, file in files.items()}
    trees = {name: ast.parse(file.read_text()) for name, file in files.items()}
    return {name: (modules(ast.walk(tree)) & files.keys()) - {name} for name, tree in trees.items()}


@pytest.mark.parametrize("package", [path.name for path in sorted(SOURCE.iterdir()) if path.name in LAYERS])
def test_a_package_imports_only_what_the_table_lets_it(package: str) -> None:
    for file in sorted((SOURCE / package).rglob("*.py")):
        strangers = imports(file) - allowed(package)
        assert not strangers, f"{file.relative_to(SOURCE)} imports {', '.join(sorted(strangers))}"


def test_every_package_is_in_the_table() -> None:
    packages = {file.relative_to(SOURCE).parts[0] for file in SOURCE.rglob("*/*.py")}
    assert packages == set(LAYERS)


def test_an_import_of_a_package_by_name_counts(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "from torchsmith import building\nfrom torchsmith import __version__\nimport torchsmith.host.pick\n"
    )
    assert imports(file) == {"building", "host"}


@pytest.mark.parametrize(
    "package", sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
)
def test_no_circle_inside_a_package(package: str) -> None:
    try:
        TopologicalSorter(graph(SOURCE / package)).prepare()
    except CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


def type_names(tree: ast.Module) -> Iterator[str]:
    """Classes wherever they stand, and the module's own aliases of types."""
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    targets = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    names = (target.id for target in targets if isinstance(target, ast.Name))
    yield from (name for name in names if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name))


def test_a_word_is_one_type() -> None:
    places = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for name in type_names(ast.parse(file.read_text())):
            places[name].append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
