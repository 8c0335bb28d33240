"""The matrix of `nvidia-smi topo -m`, as the tool writes it and as terminals and forums leave it."""

import pytest

from slipway.hardware import topology
from tests.slipway.hardware.captures import capture

# As people paste it: tabs became blanks. (From a report about five 4090s on two NUMA nodes.)
BLANKS = """
        GPU0    GPU1    GPU2    GPU3    GPU4    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      SYS     SYS     SYS     SYS     8-15,24-31      1               N/A
GPU1    SYS      X      PHB     NODE    NODE    0-7,16-23       0               N/A
GPU2    SYS     PHB      X      NODE    NODE    0-7,16-23       0               N/A
GPU3    SYS     NODE    NODE     X      PHB     0-7,16-23       0               N/A
GPU4    SYS     NODE    NODE    PHB      X      0-7,16-23       0               N/A
"""
# Older drivers name the network devices and have no GPU NUMA ID.
NAMED = (
    "\tGPU0\tGPU1\tmlx5_0\tmlx5_bond_1\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV12\tPIX\tSYS\t0-47\t0\nGPU1\tNV12\t X \tSYS\tPIX\t48-95\t1\n"
    "mlx5_0\tPIX\tSYS\t X \tSYS\t\t\nmlx5_bond_1\tSYS\tPIX\tSYS\t X \t\t\n"
)


def test_underlined_header_and_network_columns():
    read = topology.read_matrix(capture("h100-x8")["nvidia_smi"]["topo"]["out"])
    assert read.indices == tuple(range(8))
    assert read.links[0] == ("X", *["NV18"] * 7)
    assert read.numa == (0, 0, 0, 0, 1, 1, 1, 1)
    assert read.cpus[0] == "0-55,112-167"


def test_blanks_instead_of_tabs():
    read = topology.read_matrix(BLANKS)
    assert read.numa == (1, 0, 0, 0, 0)
    assert read.links[1] == ("SYS", "X", "PHB", "NODE", "NODE")


def test_named_network_devices():
    read = topology.read_matrix(NAMED)
    assert (read.links, read.numa) == ((("X", "NV12"), ("NV12", "X")), (0, 1))


def test_empty_cpu_affinity_keeps_the_numa_node():
    header = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    rows = "GPU0\t X \tNV18\t\t0\t\tN/A\nGPU1\tNV18\t X \t1\t1\t\tN/A\n"
    assert topology.read_matrix(header + rows).numa == (0, 1)


@pytest.mark.parametrize("raw", ["", "No devices were found", "GPU0\t X ", "\tGPU0\nGPU9\t X", "\tGPU0\tGPU1\nGPU0"])
def test_nonsense_is_empty_or_partial(raw):
    read = topology.read_matrix(raw)
    assert all(cell == "" or cell == "X" for row in read.links for cell in row)


@pytest.mark.parametrize(
    ("relation", "distance"),
    [("X", 0), ("NV18", 1), ("PIX", 2), ("PXB", 3), ("PHB", 4), ("NODE", 5), ("SYS", 6), ("", 7), ("NV", 7), ("?", 7)],
)
def test_distance(relation, distance):
    assert topology.distance(relation) == distance


def test_bridged_pairs_are_islands():
    links = (("X", "NV4", "SYS"), ("NV4", "X", "SYS"), ("SYS", "SYS", "X"))
    assert topology.islands((0, 1, 5), links, topology.is_nvlink) == ((0, 1), (5,))


def test_chained_links_are_one_island():
    links = (("X", "NV2", "SYS"), ("NV2", "X", "NV1"), ("SYS", "NV1", "X"))
    assert topology.islands((0, 1, 2), links, topology.is_nvlink) == ((0, 1, 2),)


def test_a_matrix_smaller_than_the_list():
    assert topology.islands((0, 1), (("X",),), topology.is_nvlink) == ((0,), (1,))
