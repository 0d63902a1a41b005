"""`torchsmith package`: the packages of a workspace, and more of your own."""

from __future__ import annotations

from typing import Annotated

from torchsmith.api.fields import Argument, Option
from torchsmith.api.nix_options import MemoryOption, NixOptions, NixpkgsOption, TimeoutOption
from torchsmith.api.options import JsonOption, WorkspaceOption, WriteOptions
from torchsmith.cli.console import exit_if
from torchsmith.cli.evaluation import evaluation
from torchsmith.cli.group import Group

EXAMPLE = "torchsmith init builds && torchsmith package list -w builds"
ADD = "torchsmith package add torchmetrics --attr torchmetrics"
app = Group(EXAMPLE)
NameArgument = Annotated[str, Argument("The package; its recipes begin so.", metavar="NAME")]


@app.describe
def run() -> None:
    """The packages of a workspace, and more of your own.

    [bold]package list[/bold] shows what is known and what this workspace builds. [bold]package add[/bold]
    asks Nix what a package of nixpkgs needs, writes its entry and its recipes; [bold]package remove[/bold]
    takes them out.
    """


@app.command("list", "torchsmith package list")
def show(workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Every package that is known: its releases, its needs, and how many cells this workspace has of it."""
    from torchsmith.cli.package_view import print_packages
    from torchsmith.workspace.load import open_workspace

    print_packages(open_workspace(workspace), as_json=json)


@app.command("add", ADD)
def add(
    name: NameArgument,
    workspace: WorkspaceOption = None,
    attr: Annotated[str, Option("Its attribute in nixpkgs' Python packages; else its name.")] = "",
    title: Annotated[str, Option("Its name for people.")] = "",
    source: Annotated[
        str, Option("Where releases that nixpkgs lacks come from.", metavar="github:NAME/REPO")
    ] = "",
    tag: Annotated[str, Option("How they are tagged; else v{version}.")] = "",
    version: Annotated[str, Option("The release to build; else nixpkgs' own.")] = "",
    gpu_list: Annotated[
        list[str] | None,
        Option(
            "How its build is told its GPU, such as variable:FLASH_ATTN_CUDA_ARCHS:90.",
            metavar="BY:NAME[:FORM]",
        ),
    ] = None,
    nixpkgs: NixpkgsOption = None,
    memory: MemoryOption = 4.0,
    timeout: TimeoutOption = 300.0,
    *,
    writing: WriteOptions,
    json: JsonOption = False,
) -> None:
    """Add a package of nixpkgs to the workspace: its entry in catalog/packages.toml, and its recipes.

    Nix is asked, for every line, CUDA release and system of the workspace, whether it evaluates, whether
    torch or other packages of the matrix lie below it, and how its build is told its GPU. What Nix refuses is
    left out, with Nix's own error as the reason.
    """
    from torchsmith.cli.package_view import print_change
    from torchsmith.edit import package as plan
    from torchsmith.edit.package_entry import NewPackage
    from torchsmith.workspace.load import open_workspace

    new = NewPackage(
        name, attr, title, plan.read_source(source, tag), version, plan.read_gpu_list(gpu_list or [])
    )
    opened = open_workspace(workspace)
    plan.check_name(opened, new)  # before Nix is looked for
    asked = NixOptions(nixpkgs, memory=memory, timeout=timeout, cache=False)
    nix, evaluate = evaluation(asked, workspace=opened, instantiate=True)
    change = plan.propose(workspace, new, evaluate, nix, adopt=writing.adopt)
    if not writing.dry_run:
        change = plan.write(workspace, change, wait_seconds=writing.wait)
    print_change(change, name, workspace, added=True, written=not writing.dry_run, as_json=json)
    exit_if(change.blocked)


@app.command("remove", "torchsmith package remove torchmetrics")
def remove(
    name: NameArgument,
    workspace: WorkspaceOption = None,
    *,
    writing: WriteOptions,
    json: JsonOption = False,
) -> None:
    """Take a package out of the workspace: its entry, where it is the workspace's own, and its recipes."""
    from torchsmith.cli.package_view import print_change
    from torchsmith.edit import package as plan

    change = plan.propose_removal(workspace, name, adopt=writing.adopt)
    if not writing.dry_run:
        change = plan.write(workspace, change, wait_seconds=writing.wait)
    print_change(change, name, workspace, added=False, written=not writing.dry_run, as_json=json)
    exit_if(change.blocked)
