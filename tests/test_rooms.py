"""The rooms of the house import only what the plan lets them (docs/design.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "torchsmith"
# A room and what it may touch besides itself; what those may touch, it may too.
PLAN: dict[str, set[str]] = {
    "edge": set(),
    "catalog": {"edge"},
    "matrix": {"catalog"},
    "recipe": {"matrix"},
    "nix": {"recipe"},
    "workspace": {"recipe"},
    "audit": {"workspace", "nix"},
    "plan": {"audit"},
    "record": {"catalog", "matrix"},
    "repair": {"nix", "workspace"},
    "build": {"nix", "workspace", "record", "repair"},
    "publish": {"workspace", "record"},
    "artifact": {"catalog", "matrix"},
    "host": {"catalog", "matrix"},
}


def allowed(room: str) -> set[str]:
    """Everything that a room may import, itself included."""
    reached = {room}
    for other in PLAN[room]:
        reached |= allowed(other)
    return reached


def imports(file: Path) -> set[str]:
    """The rooms that a module imports from, wherever in it the import stands."""
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        rooms |= {name.split(".")[1] for name in names if name.startswith("torchsmith.")}
    return rooms


@pytest.mark.parametrize("room", [path.name for path in sorted(SOURCE.iterdir()) if path.name in PLAN])
def test_a_room_imports_only_what_the_plan_lets_it(room: str) -> None:
    for file in sorted((SOURCE / room).rglob("*.py")):
        strangers = imports(file) - allowed(room)
        assert not strangers, f"{file.relative_to(SOURCE)} imports {', '.join(sorted(strangers))}"


def test_every_room_is_in_the_plan() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms - set(PLAN) <= {"cli", "site"}
