"""Recorded answers of the probe become hosts, with what is wrong told."""

import json
from dataclasses import asdict

import pytest

from slipway.hardware import HostHardware, check_cuda, parse
from tests.slipway.hardware.captures import NAMES, capture

PRO = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
ALL8 = ((0, 1, 2, 3, 4, 5, 6, 7),)
HALVES = ((0, 1, 2, 3), (4, 5, 6, 7))
SINGLES = tuple((index,) for index in range(8))
PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))

HOSTS = [
    # capture, GPUs, name, MiB, sm, NVLink islands, NUMA islands, driver, served CUDA
    ("h200-pair", 2, "NVIDIA H200", 143771, 90, ((0, 1),), ((0, 1),), "580.159.04", "13.0"),
    ("rtx-pro-6000-x8", 8, PRO, 97887, 120, SINGLES, HALVES, "580.126.09", "13.0"),
    ("h100-x8", 8, "NVIDIA H100 80GB HBM3", 81559, 90, ALL8, HALVES, "570.133.20", "12.8"),
    ("b200-x8", 8, "NVIDIA B200", 183359, 100, ALL8, HALVES, "580.126.20", "13.0"),
    ("gb300-tray", 4, "NVIDIA GB300", 284208, 103, ((0, 1, 2, 3),), ((0, 1), (2, 3)), "580.105.08", "13.0"),
    ("dgx-spark", 1, "NVIDIA GB10", 124610, 121, ((0,),), ((0,),), "580.126.09", "13.0"),
    ("rtx-4090", 1, "NVIDIA GeForce RTX 4090", 24564, 89, ((0,),), ((0,),), "550.163.01", "12.4"),
    ("a100-old-driver", 8, "NVIDIA A100-SXM4-80GB", 81920, 80, ALL8, PAIRS, "470.256.02", "11.4"),
    ("no-gpu", 0, "", None, 0, (), (), "", ""),
]  # fmt: skip


@pytest.mark.parametrize("row", HOSTS, ids=[row[0] for row in HOSTS])
def test_host(row):
    name, count, model, memory, sm, nvlink, numa, driver, cuda = row
    host = parse(capture(name), "h1")
    assert len(host.gpus) == count
    assert host.gpu_name == model
    assert {gpu.memory_mib for gpu in host.gpus} == ({memory} if memory else set())
    assert host.sm == sm
    assert (host.nvlink_islands, host.numa_islands) == (nvlink, numa)
    assert (host.driver, host.cuda) == (driver, cuda)


def rules(host: HostHardware) -> list[tuple[str, str]]:
    return sorted((finding.severity, finding.rule) for finding in host.findings)


FINDINGS = {
    "h200-pair": [],
    "no-gpu": [],
    "b200-x8": [],
    "gb300-tray": [],
    "rtx-pro-6000-x8": [],
    "h200-pair-in-use": [("warning", "hardware.gpu-in-use")],
    "h100-x8": [("warning", "hardware.rdma-down")],
    "mig-on": [("error", "hardware.mig-on"), ("warning", "hardware.rdma-down")],
    "driver-broken": [("error", "hardware.driver-broken")],
    "driver-mismatch": [("error", "hardware.driver-broken")],
    "nvidia-smi-absent": [("error", "hardware.driver-absent")],
    "nvidia-smi-hangs": [("error", "hardware.driver-hangs")],
    "gpu-lost": [("error", "hardware.gpu-lost"), ("warning", "hardware.rdma-down")],
    "a100-old-driver": [("warning", "hardware.rdma-down"), ("warning", "hardware.toolkit-newer")],
    "dgx-spark": [
        ("warning", "hardware.gpu-in-use"),
        ("warning", "hardware.rdma-down"),
        ("warning", "hardware.rdma-link-local"),
    ],
    "rtx-4090": [
        ("note", "hardware.ecc-off"),
        ("warning", "hardware.gpu-in-use"),
        ("warning", "hardware.toolkit-newer"),
    ],
}


def test_every_capture_is_judged():
    assert sorted(FINDINGS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_findings(name):
    assert rules(parse(capture(name), "h1")) == FINDINGS[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_names_the_host_and_what_was_found(name):
    for finding in parse(capture(name), "h1").findings:
        assert finding.subject.startswith("h1")
        assert len(finding.message) > 10
        assert finding.severity != "error" or finding.fix


@pytest.mark.parametrize("name", NAMES)
def test_a_host_is_plain_data(name):
    assert json.loads(json.dumps(asdict(parse(capture(name)))))["origin"] == "probe"


def test_broken_driver_repeats_what_nvidia_smi_said():
    (finding,) = parse(capture("driver-broken"), "h1").findings
    assert "couldn't communicate with the NVIDIA driver" in finding.message
    assert "modprobe nvidia" in finding.fix


def test_mismatch_asks_for_a_reboot():
    (finding,) = parse(capture("driver-mismatch"), "h1").findings
    assert "reboot" in finding.fix


def test_real_pair_in_full():
    host = parse(capture("h200-pair"))
    assert host.relation(0, 1) == "NV18"
    assert host.gpu(1).pci_bus_id == "00000000:00:07.0"
    assert host.gpu(0).ecc is True
    assert host.gpu(0).numa_node == 0  # the kernel says -1 there, the driver 0
    assert host.gpu(0).power_limit_w == 700.0
    assert (host.nvcc, host.nvcc_path) == ("13.0", "/usr/local/cuda/bin/nvcc")
    assert (host.cpus, host.memory_mib, host.glibc, host.os_id) == (32, 257811, "2.39", "ubuntu")
    assert host.systemd is False
    assert host.pid1 == "init"
    assert host.rdma == ()
    assert "libibverbs.so.1" in host.libraries
    assert host.default_address == "192.0.2.2"
    assert host.pythons[0].minor == (3, 12)
    assert {limit.name: limit.soft for limit in host.limits}["memlock"] is None
    assert [disk.path for disk in host.disks] == ["/dev/shm", "/opt/slipway"]


def test_process_on_a_gpu_is_named_with_its_gpu():
    host = parse(capture("h200-pair-in-use"), "h1")
    assert [len(gpu.processes) for gpu in host.gpus] == [1, 0]
    assert host.findings[0].subject == "h1: GPU 0"
    assert "668 (python3) holds 1634 MiB" in host.findings[0].message


def test_processes_of_the_planned_deployment_are_expected():
    probe = capture("h200-pair-in-use")
    probe["nvidia_smi"]["owners"] = {"668": "llama"}

    assert "hardware.gpu-in-use" not in {finding.rule for finding in parse(probe, "h1", "llama").findings}
    (other,) = [one for one in parse(probe, "h1", "demo").findings if one.rule == "hardware.gpu-in-use"]
    assert "668 (python3) of deployment llama holds" in other.message
    assert "destroy that deployment" in other.fix


def test_unified_memory_counts_as_the_systems():
    host = parse(capture("dgx-spark"))
    assert host.gpus[0].unified_memory
    assert host.gpus[0].memory_mib == host.memory_mib
    assert host.gpus[0].ecc is None
    assert host.machine == "aarch64"


def test_unknown_memory_of_a_discrete_card_is_not_guessed():
    probe = capture("rtx-4090")
    probe["nvidia_smi"]["gpus"]["out"] = probe["nvidia_smi"]["gpus"]["out"].replace("24564", "[N/A]")
    host = parse(probe)
    assert host.gpus[0].memory_mib == 0
    assert "hardware.memory-unknown" in {finding.rule for finding in host.findings}


def test_mig_gpu_is_not_usable():
    assert [gpu.index for gpu in parse(capture("mig-on")).gpus if not gpu.usable] == [1]


def test_pcie_pairs_are_seen():
    host = parse(capture("rtx-pro-6000-x8"))
    assert [host.relation(0, other) for other in (1, 2, 4)] == ["PIX", "NODE", "SYS"]


def test_numa_of_coherent_memory_is_the_cpus():
    host = parse(capture("gb300-tray"))
    assert [gpu.numa_node for gpu in host.gpus] == [0, 0, 1, 1]
    assert len(host.numa) == 6


def test_topology_unknown_falls_back_to_numa():
    probe = capture("rtx-pro-6000-x8")
    probe["nvidia_smi"]["topo"] = {"error": "no answer within 10 s"}
    host = parse(probe, "h1")
    assert host.numa_islands == HALVES
    assert [host.relation(0, other) for other in (0, 1, 4)] == ["X", "NODE", "SYS"]
    assert rules(host) == [("warning", "hardware.topology-unknown")]


def test_fabric_that_is_not_up():
    probe = capture("h100-x8")
    fabric = probe["nvidia_smi"]["fabric"]
    fabric["out"] = fabric["out"].replace("3, Completed, Success", "3, In Progress, [N/A]")
    (finding,) = [f for f in parse(probe, "h1").findings if f.rule == "hardware.fabric-down"]
    assert "GPU 3" in finding.message
    assert "fabricmanager" in finding.fix


def test_fewer_gpus_than_the_bus_has():
    probe = capture("rtx-pro-6000-x8")
    answer = probe["nvidia_smi"]["gpus"]
    answer["out"] = "\n".join(answer["out"].splitlines()[:8]) + "\n"
    (finding,) = parse(probe, "h1").findings
    assert finding.rule == "hardware.gpus-missing"
    assert "shows 7" in finding.message


def test_two_kinds_of_gpu():
    probe = capture("rtx-pro-6000-x8")
    answer = probe["nvidia_smi"]["gpus"]
    lines = answer["out"].splitlines()
    lines[8] = lines[8].replace("RTX PRO 6000 Blackwell Server Edition, 97887", "GeForce RTX 5090, 32607")
    answer["out"] = "\n".join(lines)
    (finding,) = parse(probe, "h1").findings
    assert finding.rule == "hardware.gpus-differ"
    assert "GPU 0: NVIDIA RTX PRO 6000" in finding.message
    assert "GPU 7: NVIDIA GeForce RTX 5090" in finding.message


def test_reading_that_failed_is_told():
    probe = capture("h200-pair")
    probe["memory"] = {"error": "PermissionError: denied"}
    host = parse(probe, "h1")
    assert host.memory_mib == 0
    assert [finding.message for finding in host.findings] == ["memory could not be read: PermissionError: denied"]


@pytest.mark.parametrize("probe", [None, [], "text", 7, {}, {"format": 2}])
def test_not_a_probe(probe):
    host = parse(probe, "h1")
    assert host.gpus == ()
    assert rules(host) == [("error", "hardware.probe-format")]


CUDA = [
    ("h200-pair", "13.0", []),
    ("h100-x8", "13.0", ["driver 570.133.20 is older than CUDA 13.0 needs (580.65.06 or newer)"]),
    ("h100-x8", "12.9", []),
    ("a100-old-driver", "12.4", ["driver 470.256.02 is older than CUDA 12.4 needs (525.60.13 or newer)"]),
    ("no-gpu", "13.0", []),
    ("h100-x8", "99.0", []),
]


@pytest.mark.parametrize(("name", "needs", "messages"), CUDA)
def test_driver_for_cuda(name, needs, messages):
    found = check_cuda(parse(capture(name)), needs, "h1")
    assert [finding.message for finding in found] == messages


def test_rdma_port_in_full():
    first = parse(capture("rtx-pro-6000-x8")).rdma[0]
    assert (first.name, first.active, first.routable) == ("mlx5_0", True, True)
    assert (first.link_layer, first.netdevs) == ("Ethernet", ("ens1f0np0",))
    assert len(parse(capture("h100-x8")).active_rdma) == 7


def test_infiniband_routes_with_a_link_local_gid():
    assert parse(capture("b200-x8")).rdma[0].routable
