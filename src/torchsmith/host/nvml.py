"""What NVML says, printed as our JSON: run as a process of its own, because a wedged driver never returns."""

from __future__ import annotations

from typing import Any

import msgspec

from torchsmith.catalog.axes import DriverVersion, Sm
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note

SOURCE = "NVML"


def read_nvml(nvml: Any) -> HostFacts:
    """All GPUs through a module with pynvml's interface; its errors become notes."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return HostFacts(notes=(Note(SOURCE, f"could not start: {error}"),))
    notes: list[Note] = []
    try:
        driver = DriverVersion.parse(_text(nvml.nvmlSystemGetDriverVersion()))
        count = nvml.nvmlDeviceGetCount()
        gpus = tuple(_gpu(nvml, index, notes) for index in range(count))
    except (nvml.NVMLError, ValueError) as error:
        return HostFacts(notes=(*notes, Note(SOURCE, f"gave up: {error}")))
    return HostFacts(driver=Fact(driver, SOURCE), gpus=Fact(gpus, SOURCE), notes=tuple(notes))


def _gpu(nvml: Any, index: int, notes: list[Note]) -> GpuFacts:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(what: str, question: Any) -> Any:
        try:
            return question(handle)
        except nvml.NVMLError as error:
            notes.append(Note(SOURCE, f"gives no {what} for GPU {index}: {error}"))
            return None

    name = ask("name", nvml.nvmlDeviceGetName)
    capability = ask("compute capability", nvml.nvmlDeviceGetCudaComputeCapability)
    memory = ask("memory size", nvml.nvmlDeviceGetMemoryInfo)
    pci = ask("PCI address", nvml.nvmlDeviceGetPciInfo)
    return GpuFacts(
        name=Fact(_text(name), SOURCE) if name else None,
        sm=Fact(Sm(capability[0] * 10 + capability[1]), SOURCE) if capability else None,
        memory_mib=Fact(int(memory.total) // 2**20, SOURCE) if memory else None,
        mig=_mig(nvml, handle),
        address=_text(pci.busId).lower()[-7:] if pci else "",
    )


def _mig(nvml: Any, handle: Any) -> Fact[bool] | None:
    """Most GPUs cannot be split and say so by an error, which is no news."""
    try:
        return Fact(nvml.nvmlDeviceGetMigMode(handle)[0] == 1, SOURCE)
    except nvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def main() -> None:
    try:
        import pynvml
    except ImportError:
        facts = HostFacts(notes=(Note(SOURCE, "nvidia-ml-py is not installed"),))
    else:
        facts = read_nvml(pynvml)
    print(msgspec.json.encode(facts, enc_hook=str).decode())


if __name__ == "__main__":
    main()
