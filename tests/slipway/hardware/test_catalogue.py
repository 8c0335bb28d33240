"""Machines by name or mapping, and what a wrong declaration is told."""

import pytest

from slipway.hardware import catalogue, compare, declare, parse
from tests.slipway.hardware.captures import capture

ALL8 = [8]
SINGLES = [1] * 8

NAMED = [
    # name, GPUs, sm, MiB, sizes of NVLink islands, of NUMA islands
    ("8xRTX-PRO-6000", 8, 120, 97887, SINGLES, [4, 4]),
    ("8 x RTX PRO 6000", 8, 120, 97887, SINGLES, [4, 4]),
    ("8xH100", 8, 90, 81559, ALL8, [4, 4]),
    ("8XH200", 8, 90, 143771, ALL8, [4, 4]),
    ("8xB200", 8, 100, 183359, ALL8, [4, 4]),
    ("GB300-NVL4", 4, 103, 284208, [4], [2, 2]),
    ("gb300 tray", 4, 103, 284208, [4], [2, 2]),
    ("DGX-Spark", 1, 121, 124610, [1], [1]),
    ("1x4090", 1, 89, 24564, [1], [1]),
    ("4090", 1, 89, 24564, [1], [1]),
    (4090, 1, 89, 24564, [1], [1]),
    ("4xL40S", 4, 89, 46068, [1] * 4, [4]),
    ("2xH100", 2, 90, 81559, [2], [2]),
    ("2xH200", 2, 90, 143771, [2], [2]),
    ("8xH100-NVL", 8, 90, 95830, [2] * 4, [4, 4]),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 1, 120, 97887, [1], [1]),
    ("DGX-A100", 8, 80, 81920, ALL8, [2] * 4),
    ("16xH200", 16, 90, 143771, [16], [8, 8]),
    ("cpu", 0, 0, None, [], []),
]


@pytest.mark.parametrize("row", NAMED, ids=[str(row[0]) for row in NAMED])
def test_named(row):
    name, count, sm, memory, nvlink, numa = row
    host, findings = declare(name, "h1")
    assert findings == []
    assert len(host.gpus) == count
    assert host.sm == sm
    assert {gpu.memory_mib for gpu in host.gpus} == ({memory} if memory else set())
    assert [len(island) for island in host.nvlink_islands] == nvlink
    assert [len(island) for island in host.numa_islands] == numa


def test_every_name_that_is_offered_is_understood():
    for name in catalogue.names():
        host, findings = declare(name, "h1")
        assert host is not None, name
        assert findings == []


def test_every_row_says_where_it_is_from():
    rows = {**catalogue.tables()["cards"], **catalogue.tables()["machines"]}
    assert {row["confidence"] for row in rows.values()} <= {"captured", "typical"}


def test_nothing_declared():
    assert declare(None) == (None, [])


WRONG = [
    ("8xH10", "got '8xH10'; must be NxCARD", "nearest: 8xH100"),
    ("DGX Sparks", "got 'DGX Sparks'", "nearest: DGX-Spark"),
    ("8xRTX-PRO-600", "got '8xRTX-PRO-600'", "nearest: 8xRTX-PRO-6000"),
    ("0xH100", "got '0xH100'", ""),
    ("100xH100", "got '100xH100'", ""),
    ("", "got ''", ""),
    (["8xH100"], "got a list; must be a name or a mapping", ""),
    ({"gpu": "H101", "count": 8}, "hardware.gpu: got 'H101'; must be one of A10", "nearest: H100"),
    ({"gpu": "X9", "count": 2, "memory_gib": 48}, "hardware.gpu: got 'X9'", "compute_capability"),
    ({"gpu": "H100", "cont": 8}, "hardware.cont: unknown key; must be one of gpu, count", "did you mean count?"),
    ({"gpu": "H100", "count": "8"}, "hardware.count: got '8'; must be a whole number from 0 to 64", ""),
    ({"gpu": "H100", "count": True}, "hardware.count: got True; must be a whole number", ""),
    ({"gpu": "H100", "rdma": "mlx5_0"}, "hardware.rdma: got 'mlx5_0'; must be a list", ""),
    ({"gpu": "X9", "memory_gib": 48, "compute_capability": "sm_120"}, "hardware.compute_capability", ""),
]


@pytest.mark.parametrize(("value", "message", "fix"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_wrong(value, message, fix):
    host, (finding, *_) = declare(value, "h1")
    assert host is None
    assert (finding.severity, finding.subject) == ("error", "h1")
    assert message in finding.message
    assert fix in finding.fix


def test_mapping():
    value = {"gpu": "RTX PRO 6000", "count": 8, "numa_nodes": 4, "host_memory_gib": 1024, "rdma": ["mlx5_0"]}
    host, findings = declare({**value, "driver": "580.95.05"}, "h1")
    assert findings == []
    assert host.numa_islands == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert (host.memory_mib, host.driver, host.rdma[0].name) == (1048576, "580.95.05", "mlx5_0")


def test_mapping_of_a_card_nobody_knows():
    value = {"gpu": "Future 9000", "count": 2, "memory_gib": 512, "compute_capability": "13.0", "nvlink": 36}
    host, findings = declare(value, "h1")
    assert findings == []
    assert (host.sm, host.gpus[1].memory_mib, host.relation(0, 1)) == (130, 524288, "NV36")


def test_nvlink_can_be_denied():
    host, _ = declare({"gpu": "H100", "count": 4, "nvlink": False})
    assert [len(island) for island in host.nvlink_islands] == [1, 1, 1, 1]


AGREE = [
    ("2xH200", "h200-pair"),
    ("8xRTX-PRO-6000", "rtx-pro-6000-x8"),
    ("8xH100", "h100-x8"),
    ("8xB200", "b200-x8"),
    ("GB300-NVL4", "gb300-tray"),
    ("DGX-Spark", "dgx-spark"),
    ("1x4090", "rtx-4090"),
    ("cpu", "no-gpu"),
]


@pytest.mark.parametrize(("name", "probed"), AGREE)
def test_catalogue_agrees_with_what_such_a_machine_answers(name, probed):
    assert compare(declare(name)[0], parse(capture(probed)), "h1") == []


DIFFER = [
    ("8xH200", "h200-pair", "error", "GPUs: declared 8 x NVIDIA H200 (140.4 GiB, sm_90), found 2 x"),
    ("2xH100", "no-gpu", "error", "found no GPU"),
    ("cpu", "h200-pair", "error", "declared no GPU"),
    ("8xB200", "h100-x8", "error", "architecture: declared sm_100, found sm_90"),
    ("2xH100", "h200-pair", "warning", "GPU model: declared NVIDIA H100 80GB HBM3, found NVIDIA H200"),
    ("8xH200", "h100-x8", "error", "memory: declared 143771 MiB, found 81559 MiB"),
    ({"gpu": "RTX PRO 6000", "count": 8, "nvlink": 4}, "rtx-pro-6000-x8", "error", "NVLink islands: declared"),
    ({"gpu": "H100", "count": 8, "numa_nodes": 1}, "h100-x8", "warning", "NUMA: declared 0,1,2,3,4,5,6,7"),
    ({"gpu": "H100", "count": 8, "rdma": ["mlx5_5"]}, "h100-x8", "error", "mlx5_5: declared active, found down"),
    ({"gpu": "H100", "count": 8, "rdma": ["ib9"]}, "h100-x8", "error", "ib9: declared active, found absent"),
    ({"gpu": "H100", "count": 8, "host_memory_gib": 4000}, "h100-x8", "warning", "memory: declared 4096000 MiB"),
    ({"gpu": "H100", "count": 8, "machine": "aarch64"}, "h100-x8", "error", "processor: declared aarch64"),
]


@pytest.mark.parametrize(("value", "probed", "severity", "message"), DIFFER, ids=[str(row[:2]) for row in DIFFER])
def test_differences(value, probed, severity, message):
    declared, findings = declare(value)
    assert findings == []
    found = compare(declared, parse(capture(probed)), "h1")
    assert [finding for finding in found if finding.severity == severity and message in finding.message], found
