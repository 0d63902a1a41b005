"""Options by which a person describes a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FromOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="A report about another machine: lscpu, /proc/cpuinfo, nvidia-smi (-q, -x, -L, --format=csv),"
        " system_profiler, one node of scontrol, kubectl or Ansible, or torchsmith host --json."
        " May be given several times.",
    ),
]
SystemOption = Annotated[str, typer.Option("--system", help="Another system: x86_64, aarch64.")]
CpuOption = Annotated[
    str,
    typer.Option("--cpu", help="Another CPU by microarchitecture: zen4, 'Sapphire Rapids', graviton3."),
]
IsaOption = Annotated[str, typer.Option("--isa", help="The widest instruction set that the CPU runs.")]
FeaturesOption = Annotated[
    str, typer.Option("--features", help="The CPU's features, as /proc/cpuinfo spells them.")
]
GpuOption = Annotated[
    list[str] | None,
    typer.Option("--gpu", help="GPUs by name or architecture: 'RTX 4090', '8x H100 + L4', sm90, none."),
]
DriverOption = Annotated[str, typer.Option("--driver", help="The NVIDIA driver's version: 580.65.06.")]
LimitOption = Annotated[
    float, typer.Option("--time-limit", help="Seconds to wait for NVML and nvidia-smi.", min=0.1, max=600)
]
WorkloadOption = Annotated[
    str, typer.Option("--workload", help="What the machine is for: general, training or inference.")
]
