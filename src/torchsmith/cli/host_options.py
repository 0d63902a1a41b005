"""Moved to api.host_options."""

from torchsmith.api.host_options import MachineOptions as MachineOptions
from torchsmith.api.host_options import PackagesOption as PackagesOption
from torchsmith.api.host_options import WorkloadOption as WorkloadOption
