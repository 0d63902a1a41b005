"""Options that describe a machine, and what it is used for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from torchsmith.cli.options import complete_from, complete_gpus
from torchsmith.cli.request import Option, Request

if TYPE_CHECKING:
    from torchsmith.catalog import Catalog
    from torchsmith.host.facts import HostFacts


@dataclass(frozen=True, kw_only=True)
class MachineOptions(Request):
    """A machine described by reports or options; without any, this machine."""

    from_: Annotated[
        Sequence[Path],
        Option(
            "A report about another machine, as pasted: collect_env, nvidia-smi in any form, lscpu,"
            " /proc/cpuinfo, lspci, deviceQuery, jetson_release, or torchsmith pick --facts --json.",
            metavar="FILE",
        ),
    ] = ()
    system: Annotated[str, Option("The system: x86_64, aarch64, 'Ubuntu 22.04', 'macOS 14' or windows.")] = ""
    cpu: Annotated[
        str,
        Option(
            "The CPU's microarchitecture: zen4, 'Sapphire Rapids', graviton3.", complete=complete_from("cpus")
        ),
    ] = ""
    isa: Annotated[str, Option("The widest instruction set that the CPU runs.")] = ""
    features: Annotated[str, Option("The CPU's features, as /proc/cpuinfo spells them.")] = ""
    gpu: Annotated[
        Sequence[str],
        Option(
            "GPUs by name or architecture, or a cloud's machine type: 'RTX 4090', '8x H100 + L4', sm90,"
            " p4d.24xlarge, none.",
            complete=complete_gpus,
        ),
    ] = ()
    driver: Annotated[str, Option("The NVIDIA driver's version, 580.65.06, or its branch, 580.")] = ""

    def mixes(self, facts: HostFacts) -> bool:
        """Whether the GPU is given and the CPU is this machine's."""
        return bool(self.gpu and facts.cpu_id and not self.from_ and not self.features)

    def facts(self, catalog: Catalog) -> HostFacts:
        """The known facts about the machine."""
        from torchsmith.host.stated import gather, stated_facts

        stated = stated_facts(
            catalog,
            "the command line",
            system=self.system,
            cpu=self.cpu,
            isa=self.isa,
            features=self.features,
            gpu="; ".join(self.gpu),
            driver=self.driver,
        )
        return gather(self.from_, stated, catalog)


PackagesOption = Annotated[
    Sequence[str],
    Option("The package, or several in one build; by default torch.", complete=complete_from("packages")),
]
WorkloadOption = Annotated[
    str,
    Option("What the machine is for: general, training or inference.", complete=complete_from("workloads")),
]
