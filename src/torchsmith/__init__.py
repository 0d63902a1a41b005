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
    from torchsmith.cli.options import WriteOptions as WriteOptions
    from torchsmith.cli.reporter import Reporter as Reporter
    from torchsmith.core.problem import Problem as Problem
    from torchsmith.core.problem import Refused as Refused
    from torchsmith.edit.align import Alignment as Alignment
    from torchsmith.edit.proposal import EditReport as EditReport
    from torchsmith.matrix.describe import Explanation as Explanation
    from torchsmith.verbs.align import AlignRequest as AlignRequest
    from torchsmith.verbs.align import align as align
    from torchsmith.verbs.apply import ApplyRequest as ApplyRequest
    from torchsmith.verbs.apply import apply as apply
    from torchsmith.verbs.ci import CiReport as CiReport
    from torchsmith.verbs.ci import CiRequest as CiRequest
    from torchsmith.verbs.ci import HydraRequest as HydraRequest
    from torchsmith.verbs.ci import ci_github as ci_github
    from torchsmith.verbs.ci import ci_hydra as ci_hydra
    from torchsmith.verbs.impact import ImpactReport as ImpactReport
    from torchsmith.verbs.impact import ImpactRequest as ImpactRequest
    from torchsmith.verbs.impact import impact as impact
    from torchsmith.verbs.init import InitReport as InitReport
    from torchsmith.verbs.init import InitRequest as InitRequest
    from torchsmith.verbs.init import init as init
    from torchsmith.verbs.line import KnownRequest as KnownRequest
    from torchsmith.verbs.line import LineAddRequest as LineAddRequest
    from torchsmith.verbs.line import LineRemoveRequest as LineRemoveRequest
    from torchsmith.verbs.line import LinesReport as LinesReport
    from torchsmith.verbs.line import LineUpdateRequest as LineUpdateRequest
    from torchsmith.verbs.line import add_line as add_line
    from torchsmith.verbs.line import list_lines as list_lines
    from torchsmith.verbs.line import remove_line as remove_line
    from torchsmith.verbs.line import update_line as update_line
    from torchsmith.verbs.list import LeftOutReport as LeftOutReport
    from torchsmith.verbs.list import ListReport as ListReport
    from torchsmith.verbs.list import ListRequest as ListRequest
    from torchsmith.verbs.list import list_cells as list_cells
    from torchsmith.verbs.list import list_left_out as list_left_out
    from torchsmith.verbs.package import PackageAddRequest as PackageAddRequest
    from torchsmith.verbs.package import PackageRemoveRequest as PackageRemoveRequest
    from torchsmith.verbs.package import PackagesReport as PackagesReport
    from torchsmith.verbs.package import add_package as add_package
    from torchsmith.verbs.package import list_packages as list_packages
    from torchsmith.verbs.package import remove_package as remove_package
    from torchsmith.verbs.plan import ChangeReport as ChangeReport
    from torchsmith.verbs.plan import PlanRequest as PlanRequest
    from torchsmith.verbs.plan import plan as plan
    from torchsmith.verbs.show import GpuReport as GpuReport
    from torchsmith.verbs.show import ShowRequest as ShowRequest
    from torchsmith.verbs.show import show as show
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
    "Refused": "core.problem",
    "PublishReport": "api.building",
    "PublishRequest": "api.building",
    "TestReport": "artifact.smoke_test:SmokeTest",
    "TestRequest": "api.artifact",
    "VerifyReport": "api.artifact",
    "VerifyRequest": "api.artifact",
    "Reporter": "cli.reporter",
    "Workspace": "workspace.load",
    "WriteOptions": "cli.options",
    "AlignRequest": "verbs.align",
    "align": "verbs.align",
    "Alignment": "edit.align",
    "CiReport": "verbs.ci",
    "CiRequest": "verbs.ci",
    "HydraRequest": "verbs.ci",
    "ci_github": "verbs.ci",
    "ci_hydra": "verbs.ci",
    "EditReport": "edit.proposal",
    "Explanation": "matrix.describe",
    "GpuReport": "verbs.show",
    "ShowRequest": "verbs.show",
    "show": "verbs.show",
    "ImpactReport": "verbs.impact",
    "ImpactRequest": "verbs.impact",
    "impact": "verbs.impact",
    "InitReport": "verbs.init",
    "InitRequest": "verbs.init",
    "init": "verbs.init",
    "KnownRequest": "verbs.line",
    "LineAddRequest": "verbs.line",
    "LineRemoveRequest": "verbs.line",
    "LineUpdateRequest": "verbs.line",
    "LinesReport": "verbs.line",
    "add_line": "verbs.line",
    "list_lines": "verbs.line",
    "remove_line": "verbs.line",
    "update_line": "verbs.line",
    "LeftOutReport": "verbs.list",
    "ListReport": "verbs.list",
    "ListRequest": "verbs.list",
    "list_cells": "verbs.list",
    "list_left_out": "verbs.list",
    "PackageAddRequest": "verbs.package",
    "PackageRemoveRequest": "verbs.package",
    "PackagesReport": "verbs.package",
    "add_package": "verbs.package",
    "list_packages": "verbs.package",
    "remove_package": "verbs.package",
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
