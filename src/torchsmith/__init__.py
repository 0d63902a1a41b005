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
    from torchsmith.api.choosing import PickReport as PickReport
    from torchsmith.api.choosing import PickRequest as PickRequest
    from torchsmith.api.choosing import pick as pick
    from torchsmith.api.covering import CoverReport as CoverReport
    from torchsmith.api.covering import CoverRequest as CoverRequest
    from torchsmith.api.covering import cover as cover
    from torchsmith.api.writing import ApplyRequest as ApplyRequest
    from torchsmith.api.writing import ChangeReport as ChangeReport
    from torchsmith.api.writing import GenerateRequest as GenerateRequest
    from torchsmith.api.writing import PlanRequest as PlanRequest
    from torchsmith.api.writing import apply as apply
    from torchsmith.api.writing import generate as generate
    from torchsmith.api.writing import plan as plan
    from torchsmith.artifact.smoke_test import SmokeTest as TestReport
    from torchsmith.auditing.run import AuditReport as AuditReport
    from torchsmith.building.plan import BuildPlan as BuildPlan
    from torchsmith.building.report import BuildReport as BuildReport
    from torchsmith.cli.machine_options import MachineOptions as MachineOptions
    from torchsmith.cli.nix_options import NixOptions as NixOptions
    from torchsmith.cli.reporter import Reporter as Reporter
    from torchsmith.core.problem import Problem as Problem
    from torchsmith.verbs.build import BuildRequest as BuildRequest
    from torchsmith.verbs.build import build as build
    from torchsmith.verbs.build import plan_build as plan_build
    from torchsmith.verbs.diagnose import DiagnoseRequest as DiagnoseRequest
    from torchsmith.verbs.diagnose import diagnose as diagnose
    from torchsmith.verbs.doctor import DoctorReport as DoctorReport
    from torchsmith.verbs.doctor import DoctorRequest as DoctorRequest
    from torchsmith.verbs.doctor import doctor as doctor
    from torchsmith.verbs.eval import EvaluateReport as EvaluateReport
    from torchsmith.verbs.eval import EvaluateRequest as EvaluateRequest
    from torchsmith.verbs.eval import evaluate as evaluate
    from torchsmith.verbs.fix_hashes import FixHashesRequest as FixHashesRequest
    from torchsmith.verbs.fix_hashes import fix_hashes as fix_hashes
    from torchsmith.verbs.publish import PublishReport as PublishReport
    from torchsmith.verbs.publish import PublishRequest as PublishRequest
    from torchsmith.verbs.publish import publish as publish
    from torchsmith.verbs.rehearse import RehearseReport as RehearseReport
    from torchsmith.verbs.rehearse import RehearseRequest as RehearseRequest
    from torchsmith.verbs.rehearse import rehearse as rehearse
    from torchsmith.verbs.runs import RunsReport as RunsReport
    from torchsmith.verbs.runs import RunsRequest as RunsRequest
    from torchsmith.verbs.runs import runs as runs
    from torchsmith.workspace.load import Workspace as Workspace
    from torchsmith.workspace.load import open_workspace as open_workspace

__version__ = "0.2.0"

# Each public name, and where it is: a module, or a module and the name that it has there.
_PLACES = {
    "ApplyRequest": "api.writing",
    "AuditReport": "auditing.run",
    "AuditRequest": "api.auditing",
    "ChangeReport": "api.writing",
    "BuildPlan": "building.plan",
    "BuildReport": "building.report",
    "BuildRequest": "verbs.build",
    "CoverReport": "api.covering",
    "CoverRequest": "api.covering",
    "DiagnoseRequest": "verbs.diagnose",
    "DoctorReport": "verbs.doctor",
    "DoctorRequest": "verbs.doctor",
    "EvaluateReport": "verbs.eval",
    "EvaluateRequest": "verbs.eval",
    "FixHashesRequest": "verbs.fix_hashes",
    "GenerateRequest": "api.writing",
    "MachineOptions": "cli.machine_options",
    "NixOptions": "cli.nix_options",
    "PickReport": "api.choosing",
    "PickRequest": "api.choosing",
    "PlanRequest": "api.writing",
    "Problem": "core.problem",
    "PublishReport": "verbs.publish",
    "PublishRequest": "verbs.publish",
    "RehearseReport": "verbs.rehearse",
    "RehearseRequest": "verbs.rehearse",
    "RunsReport": "verbs.runs",
    "RunsRequest": "verbs.runs",
    "TestReport": "artifact.smoke_test:SmokeTest",
    "TestRequest": "api.artifact",
    "VerifyReport": "api.artifact",
    "VerifyRequest": "api.artifact",
    "Reporter": "cli.reporter",
    "Workspace": "workspace.load",
    "apply": "api.writing",
    "audit": "api.auditing",
    "build": "verbs.build",
    "cover": "api.covering",
    "diagnose": "verbs.diagnose",
    "doctor": "verbs.doctor",
    "evaluate": "verbs.eval",
    "fix_hashes": "verbs.fix_hashes",
    "generate": "api.writing",
    "open_workspace": "workspace.load",
    "pick": "api.choosing",
    "plan": "api.writing",
    "plan_build": "verbs.build",
    "publish": "verbs.publish",
    "rehearse": "verbs.rehearse",
    "runs": "verbs.runs",
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
