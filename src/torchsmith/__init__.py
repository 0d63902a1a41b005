"""torchsmith: from one file that says which PyTorch builds you ship to builds that are proved.

What is in `__all__` is public; the rest may change. Importing torchsmith starts nothing and reads nothing:
a name is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; typing is slow to load
if TYPE_CHECKING:
    from torchsmith.api.build_plan import BuildPlanReport as BuildPlanReport
    from torchsmith.api.building import BuildRequest as BuildRequest
    from torchsmith.api.building import PublishReport as PublishReport
    from torchsmith.api.building import PublishRequest as PublishRequest
    from torchsmith.api.building import build as build
    from torchsmith.api.building import plan_build as plan_build
    from torchsmith.api.building import publish as publish
    from torchsmith.api.evaluating import EvaluateReport as EvaluateReport
    from torchsmith.api.evaluating import EvaluateRequest as EvaluateRequest
    from torchsmith.api.evaluating import evaluate as evaluate
    from torchsmith.api.writing import ApplyRequest as ApplyRequest
    from torchsmith.api.writing import ChangeReport as ChangeReport
    from torchsmith.api.writing import GenerateRequest as GenerateRequest
    from torchsmith.api.writing import PlanRequest as PlanRequest
    from torchsmith.api.writing import apply as apply
    from torchsmith.api.writing import generate as generate
    from torchsmith.api.writing import plan as plan
    from torchsmith.artifact.smoke_test import SmokeTest as TestReport
    from torchsmith.auditing.run import AuditReport as AuditReport
    from torchsmith.building.report import BuildReport as BuildReport
    from torchsmith.cli.machine_options import MachineOptions as MachineOptions
    from torchsmith.cli.nix_options import NixOptions as NixOptions
    from torchsmith.cli.reporter import Reporter as Reporter
    from torchsmith.core.problem import Problem as Problem
    from torchsmith.verbs.audit import AuditRequest as AuditRequest
    from torchsmith.verbs.audit import audit as audit
    from torchsmith.verbs.cover import CoverReport as CoverReport
    from torchsmith.verbs.cover import CoverRequest as CoverRequest
    from torchsmith.verbs.cover import cover as cover
    from torchsmith.verbs.pick import PickReport as PickReport
    from torchsmith.verbs.pick import PickRequest as PickRequest
    from torchsmith.verbs.pick import pick as pick
    from torchsmith.verbs.test import TestRequest as TestRequest
    from torchsmith.verbs.test import test as test
    from torchsmith.verbs.verify import VerifyReport as VerifyReport
    from torchsmith.verbs.verify import VerifyRequest as VerifyRequest
    from torchsmith.verbs.verify import verify as verify
    from torchsmith.workspace.load import Workspace as Workspace
    from torchsmith.workspace.load import open_workspace as open_workspace

__version__ = "0.2.0"

# Each public name, and where it is: a module, or a module and the name that it has there.
_PLACES = {
    "ApplyRequest": "api.writing",
    "AuditReport": "auditing.run",
    "AuditRequest": "verbs.audit",
    "ChangeReport": "api.writing",
    "BuildPlanReport": "api.build_plan",
    "BuildReport": "building.report",
    "BuildRequest": "api.building",
    "CoverReport": "verbs.cover",
    "CoverRequest": "verbs.cover",
    "EvaluateReport": "api.evaluating",
    "EvaluateRequest": "api.evaluating",
    "GenerateRequest": "api.writing",
    "MachineOptions": "cli.machine_options",
    "NixOptions": "cli.nix_options",
    "PickReport": "verbs.pick",
    "PickRequest": "verbs.pick",
    "PlanRequest": "api.writing",
    "Problem": "core.problem",
    "PublishReport": "api.building",
    "PublishRequest": "api.building",
    "TestReport": "artifact.smoke_test:SmokeTest",
    "TestRequest": "verbs.test",
    "VerifyReport": "verbs.verify",
    "VerifyRequest": "verbs.verify",
    "Reporter": "cli.reporter",
    "Workspace": "workspace.load",
    "apply": "api.writing",
    "audit": "verbs.audit",
    "build": "api.building",
    "cover": "verbs.cover",
    "evaluate": "api.evaluating",
    "generate": "api.writing",
    "open_workspace": "workspace.load",
    "pick": "verbs.pick",
    "plan": "api.writing",
    "plan_build": "api.building",
    "publish": "api.building",
    "test": "verbs.test",
    "verify": "verbs.verify",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> object:
    """A public name, loaded now."""
    from importlib import import_module

    try:
        module, _, own = _PLACES[name].partition(":")
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value: object = getattr(import_module(f"torchsmith.{module}"), own or name)
    return value


def __dir__() -> list[str]:
    return __all__
