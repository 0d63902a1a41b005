"""The folder that everything is compiled in, and the plan of what is compiled there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

PLACE = "@WORK@"  # stands for the folder in a plan, which can travel to another one
ATTENTION = ("flash-attention", "mem_eff_attention")


@dataclass(frozen=True)
class Unit:
    """One object, named from the build folder, and the shell command that makes it there."""

    object: str
    command: str

    @property
    def attention(self) -> bool:
        return any(part in self.object for part in ATTENTION)


@dataclass(frozen=True)
class Plan:
    """What a recipe's compile consists of."""

    variant: str
    environment: dict[str, str]
    units: tuple[Unit, ...]
    links: dict[str, str]  # library -> command, in the order in which they are linked


@dataclass(frozen=True)
class Work:
    """The folder."""

    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def build(self) -> Path:
        return self.folder / "build"

    @property
    def cuda(self) -> Path:
        return self.folder / "cuda"

    @property
    def plan_file(self) -> Path:
        return self.folder / "plan.json"

    @property
    def seconds(self) -> Path:
        return self.folder / "seconds.tsv"

    def write(self, plan: Plan) -> None:
        self.plan_file.write_text(json.dumps(asdict(plan), indent=1).replace(str(self.folder), PLACE))

    def plan(self) -> Plan:
        stored = json.loads(self.plan_file.read_text().replace(PLACE, str(self.folder)))
        return Plan(**stored | {"units": tuple(Unit(**unit) for unit in stored["units"])})

    def compiled(self, plan: Plan) -> list[Unit]:
        """The units whose object is there."""
        return [unit for unit in plan.units if (self.build / unit.object).exists()]
