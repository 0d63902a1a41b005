"""Options by which a person describes a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.cli.options import complete_cpus, complete_gpus
from torchsmith.cli.params import Option

FromOption = Annotated[
    list[Path] | None,
    Option(
        "--from",
        metavar="FILE",
        help="A report about another machine: lscpu, /proc/cpuinfo, nvidia-smi (-q, -x, -L, --format=csv),"
        " system_profiler, one node of scontrol, kubectl or Ansible, or torchsmith host --json."
        " May be given several times.",
    ),
]
SystemOption = Annotated[str, Option("--system", help="Another system: x86_64, aarch64.")]
CpuOption = Annotated[
    str,
    Option(
        "--cpu",
        help="Another CPU by microarchitecture: zen4, 'Sapphire Rapids', graviton3.",
        autocompletion=complete_cpus,
    ),
]
IsaOption = Annotated[str, Option("--isa", help="The widest instruction set that the CPU runs.")]
FeaturesOption = Annotated[
    str, Option("--features", help="The CPU's features, as /proc/cpuinfo spells them.")
]
GpuOption = Annotated[
    list[str] | None,
    Option(
        "--gpu",
        help="GPUs by name or architecture: 'RTX 4090', '8x H100 + L4', sm90, none.",
        autocompletion=complete_gpus,
    ),
]
DriverOption = Annotated[str, Option("--driver", help="The NVIDIA driver's version: 580.65.06.")]
LimitOption = Annotated[
    float, Option("--time-limit", help="Seconds to wait for NVML and nvidia-smi.", min=0.1, max=600)
]
PackagesOption = Annotated[
    list[str] | None,
    Option("--package", help="The package that is wanted, or several in one cell; else torch."),
]
WorkloadOption = Annotated[
    str, Option("--workload", help="What the machine is for: general, training or inference.")
]
