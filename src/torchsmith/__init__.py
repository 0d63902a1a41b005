"""torchsmith: from one file that says which PyTorch builds you ship to builds that are proved.

What is in `__all__` is public; the rest may change. Importing torchsmith starts nothing and reads nothing:
a name is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; typing is slow to load
if TYPE_CHECKING:
    from torchsmith.api.artifact import TestRequest as TestRequest
    from torchsmith.api.artifact import VerifyReport as VerifyReport
    from torchsmith.api.artifact import VerifyRequest as VerifyRequest
    from torchsmith.api.artifact import test as test
    from torchsmith.api.artifact import verify as verify
    from torchsmith.api.auditing import AuditRequest as AuditRequest
    from torchsmith.api.auditing import audit as audit
    from torchsmith.api.build_plan import BuildPlanReport as BuildPlanReport
    from torchsmith.api.building import BuildRequest as BuildRequest
    from torchsmith.api.building import PublishReport as PublishReport
    from torchsmith.api.building import PublishRequest as PublishRequest
    from torchsmith.api.building import build as build
    from torchsmith.api.building import plan_build as plan_build
    from torchsmith.api.building import publish as publish
    from torchsmith.api.choosing import PickReport as PickReport
    from torchsmith.api.choosing import PickRequest as PickRequest
    from torchsmith.api.choosing import pick as pick
    from torchsmith.api.covering import CoverReport as CoverReport
    from torchsmith.api.covering import CoverRequest as CoverRequest
    from torchsmith.api.covering import cover as cover
    from torchsmith.api.evaluating import EvaluateReport as EvaluateReport
    from torchsmith.api.evaluating import EvaluateRequest as EvaluateRequest
    from torchsmith.api.evaluating import evaluate as evaluate
    from torchsmith.artifact.smoke_test import SmokeTest as TestReport
    from torchsmith.auditing.run import AuditReport as AuditReport
    from torchsmith.building.report import BuildReport as BuildReport
    from torchsmith.cli.machine_options import MachineOptions as MachineOptions
    from torchsmith.cli.nix_options import NixOptions as NixOptions
    from torchsmith.cli.reporter import Reporter as Reporter
    from torchsmith.core.problem import Problem as Problem
    from torchsmith.verbs.apply import ApplyRequest as ApplyRequest
    from torchsmith.verbs.apply import apply as apply
    from torchsmith.verbs.plan import ChangeReport as ChangeReport
    from torchsmith.verbs.plan import PlanRequest as PlanRequest
    from torchsmith.verbs.plan import plan as plan
    from torchsmith.workspace.load import Workspace as Workspace
    from torchsmith.workspace.load import open_workspace as open_workspace

__version__ = "0.2.0"

# Each public name, and where it is: a module, or a module and the name that it has there.
_PLACES = {
    "ApplyRequest": "verbs.apply",
    "AuditReport": "auditing.run",
    "AuditRequest": "api.auditing",
    "ChangeReport": "verbs.plan",
    "BuildPlanReport": "api.build_plan",
    "BuildReport": "building.report",
    "BuildRequest": "api.building",
    "CoverReport": "api.covering",
    "CoverRequest": "api.covering",
    "EvaluateReport": "api.evaluating",
    "EvaluateRequest": "api.evaluating",
    "MachineOptions": "cli.machine_options",
    "NixOptions": "cli.nix_options",
    "PickReport": "api.choosing",
    "PickRequest": "api.choosing",
    "PlanRequest": "verbs.plan",
    "Problem": "core.problem",
    "PublishReport": "api.building",
    "PublishRequest": "api.building",
    "TestReport": "artifact.smoke_test:SmokeTest",
    "TestRequest": "api.artifact",
    "VerifyReport": "api.artifact",
    "VerifyRequest": "api.artifact",
    "Reporter": "cli.reporter",
    "Workspace": "workspace.load",
    "apply": "verbs.apply",
    "audit": "api.auditing",
    "build": "api.building",
    "cover": "api.covering",
    "evaluate": "api.evaluating",
    "open_workspace": "workspace.load",
    "pick": "api.choosing",
    "plan": "verbs.plan",
    "plan_build": "api.building",
    "publish": "api.building",
    "test": "api.artifact",
    "verify": "api.artifact",
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
