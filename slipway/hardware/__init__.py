"""What hosts are made of: parsed from the probe, taken from the catalogue, compared with one another."""

from slipway.hardware.catalogue import declare, names
from slipway.hardware.checks import check_cuda
from slipway.hardware.compare import compare
from slipway.hardware.model import (
    Disk,
    Gpu,
    GpuProcess,
    HostHardware,
    Interface,
    Limit,
    Listener,
    NumaNode,
    PythonInstall,
    RdmaDevice,
)
from slipway.hardware.parse import parse

__all__ = [
    "Disk",
    "Gpu",
    "GpuProcess",
    "HostHardware",
    "Interface",
    "Limit",
    "Listener",
    "NumaNode",
    "PythonInstall",
    "RdmaDevice",
    "check_cuda",
    "compare",
    "declare",
    "names",
    "parse",
]
