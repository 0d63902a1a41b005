"""What torchsmith can be asked: typed requests, typed reports, and the functions between them.

Everything in `__all__` is public; the rest of torchsmith may change. Importing this starts nothing and reads
nothing: a name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchsmith.api.artifact import TestRequest as TestRequest
    from torchsmith.api.artifact import VerifyRequest as VerifyRequest
    from torchsmith.api.artifact import test as test
    from torchsmith.api.artifact import verify as verify
    from torchsmith.api.building import PublishRequest as PublishRequest
    from torchsmith.api.building import build as build
    from torchsmith.api.building import plan_build as plan_build
    from torchsmith.api.building import publish as publish
    from torchsmith.api.choosing import CoverRequest as CoverRequest
    from torchsmith.api.choosing import PickRequest as PickRequest
    from torchsmith.api.choosing import cover as cover
    from torchsmith.api.choosing import pick as pick
    from torchsmith.api.evaluating import EvaluateRequest as EvaluateRequest
    from torchsmith.api.evaluating import evaluate as evaluate
    from torchsmith.api.host_options import MachineOptions as MachineOptions
    from torchsmith.api.nix_options import NixOptions as NixOptions
    from torchsmith.api.nix_options import read_trees as read_trees
    from torchsmith.artifact.report import Report as VerifyReport
    from torchsmith.artifact.trial import Trial as TestReport
    from torchsmith.audit.run import AuditReport as AuditReport
    from torchsmith.audit.run import AuditRequest as AuditRequest
    from torchsmith.audit.run import audit as audit
    from torchsmith.build.plan import BuildPlan as BuildPlan
    from torchsmith.build.run import RunSummary as BuildReport
    from torchsmith.build.start import BuildRequest as BuildRequest
    from torchsmith.edge.problem import Problem as Problem
    from torchsmith.host.cover import FleetPlan as CoverReport
    from torchsmith.host.pick import Pick as PickReport
    from torchsmith.nix.evaluate import EvalResult as EvaluateReport
    from torchsmith.plan.plan import WorkspacePlan as PlanReport
    from torchsmith.plan.plan import plan_workspace as plan
    from torchsmith.publish.publish import PublishedRow as PublishReport
    from torchsmith.workspace.load import Workspace as Workspace
    from torchsmith.workspace.load import open_workspace as open_workspace
    from torchsmith.workspace.run import GenerateReport as GenerateReport
    from torchsmith.workspace.run import GenerateRequest as GenerateRequest
    from torchsmith.workspace.run import generate as generate

# Each public name, and where it is: a module, or a module and the name that it has there.
_PLACES = {
    "AuditReport": "audit.run",
    "AuditRequest": "audit.run",
    "BuildPlan": "build.plan",
    "BuildReport": "build.run:RunSummary",
    "BuildRequest": "build.start",
    "CoverReport": "host.cover:FleetPlan",
    "CoverRequest": "api.choosing",
    "EvaluateReport": "nix.evaluate:EvalResult",
    "EvaluateRequest": "api.evaluating",
    "GenerateReport": "workspace.run",
    "GenerateRequest": "workspace.run",
    "MachineOptions": "api.host_options",
    "NixOptions": "api.nix_options",
    "PickReport": "host.pick:Pick",
    "PickRequest": "api.choosing",
    "PlanReport": "plan.plan:WorkspacePlan",
    "Problem": "edge.problem",
    "PublishReport": "publish.publish:PublishedRow",
    "PublishRequest": "api.building",
    "TestReport": "artifact.trial:Trial",
    "TestRequest": "api.artifact",
    "VerifyReport": "artifact.report:Report",
    "VerifyRequest": "api.artifact",
    "Workspace": "workspace.load",
    "audit": "audit.run",
    "build": "api.building",
    "cover": "api.choosing",
    "evaluate": "api.evaluating",
    "generate": "workspace.run",
    "open_workspace": "workspace.load",
    "pick": "api.choosing",
    "plan": "plan.plan:plan_workspace",
    "plan_build": "api.building",
    "publish": "api.building",
    "read_trees": "api.nix_options",
    "test": "api.artifact",
    "verify": "api.artifact",
}
__all__ = [
    "AuditReport",
    "AuditRequest",
    "BuildPlan",
    "BuildReport",
    "BuildRequest",
    "CoverReport",
    "CoverRequest",
    "EvaluateReport",
    "EvaluateRequest",
    "GenerateReport",
    "GenerateRequest",
    "MachineOptions",
    "NixOptions",
    "PickReport",
    "PickRequest",
    "PlanReport",
    "Problem",
    "PublishReport",
    "PublishRequest",
    "TestReport",
    "TestRequest",
    "VerifyReport",
    "VerifyRequest",
    "Workspace",
    "audit",
    "build",
    "cover",
    "evaluate",
    "generate",
    "open_workspace",
    "pick",
    "plan",
    "plan_build",
    "publish",
    "read_trees",
    "test",
    "verify",
]


def __getattr__(name: str) -> Any:
    """A public name, loaded now."""
    try:
        module, _, own = _PLACES[name].partition(":")
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(f"torchsmith.{module}"), own or name)


def __dir__() -> list[str]:
    return __all__
