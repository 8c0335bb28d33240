"""The hardware probe: one JSON object, in bounded time, whatever the host is like."""

import ast
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipway.agent import hardware
from slipway.hardware import parse
from tests.slipway.hardware.captures import capture

SOURCE = Path(hardware.__file__).read_text()

# Answers like nvidia-smi, out of files named after the question.
FAKE = """#!/bin/sh
case "$*" in
  --query-gpu=index,uuid*) q=gpus;; --query-compute-apps=*) q=apps;; --query-gpu=index,fabric*) q=fabric;;
  "topo -m") q=topo;; "topo -p2p r") q=p2p;; "nvlink --status") q=nvlink;; *) q=summary;;
esac
cat "$0.d/$q"; exit $(cat "$0.d/$q.rc")
"""


def install(folder: Path, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "nvidia-smi").write_text(script)
    (folder / "nvidia-smi").chmod(0o755)


def install_capture(folder: Path, name: str) -> None:
    install(folder, FAKE)
    answers = folder / "nvidia-smi.d"
    answers.mkdir()
    for question, answer in capture(name)["nvidia_smi"].items():
        if isinstance(answer, dict):
            (answers / question).write_text(answer["out"])
            (answers / f"{question}.rc").write_text(str(answer["rc"]))


def run_probe(bin_folder: Path, request: object = None, cwd: Path | None = None) -> dict:
    """The probe as a host runs it: its source handed to `python3 -c`, no package, no environment."""
    argv = [sys.executable, "-I", "-c", SOURCE, *([json.dumps(request)] if request is not None else [])]
    path = f"{bin_folder}{os.pathsep}/usr/bin{os.pathsep}/bin"
    bare = {"PATH": path, "HOME": "/nonexistent"}
    done = subprocess.run(argv, check=False, env=bare, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    return json.loads(line)


@pytest.fixture(scope="module")
def answer(tmp_path_factory) -> dict:
    """One probe of this machine with an H100 host's nvidia-smi, shared by the tests that only look."""
    folder = tmp_path_factory.mktemp("bin")
    install_capture(folder, "h100-x8")
    return run_probe(folder, {"paths": ["/", "/nowhere/at/all"]})


def test_needs_nothing_but_the_standard_library():
    tree = ast.parse(SOURCE, feature_version=(3, 9))
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {name.name.split(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            roots.add((node.module or "").split(".")[0])
    assert roots <= set(sys.stdlib_module_names)
    assert len(SOURCE.encode()) < 128 * 1024  # the kernel's limit for one argument


def test_every_reading_is_there(answer):
    assert answer["format"] == 1
    assert set(answer) == {"format", "took_s", *hardware.readings([], 1.0)}


def test_a_tools_answers_make_the_host_they_came_from(answer):
    host = parse(answer, "h1")
    assert len(host.gpus) == 8
    assert host.gpu_name == "NVIDIA H100 80GB HBM3"
    assert host.nvlink_islands == ((0, 1, 2, 3, 4, 5, 6, 7),)
    assert host.driver == "570.133.20"


def test_this_machine(answer):
    host = parse(answer)
    assert host.memory_mib > 0
    assert host.cpus >= 1
    assert host.kernel
    assert host.uid == os.getuid()
    assert any("127.0.0.1" in dict(interface.addresses) for interface in host.interfaces)
    assert host.pythons
    assert [limit.name for limit in host.limits] == ["core", "memlock", "nofile", "nproc"]
    assert abs(host.epoch - time.time()) < 600


def test_space_is_told_of_the_nearest_parent(answer):
    disks = answer["disks"]
    assert disks["/nowhere/at/all"]["at"] == "/"
    assert disks["/nowhere/at/all"]["total"] == disks["/"]["total"] > 0


def test_nothing_is_written(tmp_path):
    install(tmp_path / "bin", "#!/bin/sh\nexit 9\n")
    work = tmp_path / "work"
    work.mkdir()
    run_probe(tmp_path / "bin", {"paths": [str(work / "new")]}, cwd=work)
    assert list(work.iterdir()) == []


def test_hanging_tool_costs_its_limit_only(tmp_path):
    install(tmp_path, "#!/bin/sh\nsleep 60 &\nsleep 60\n")  # the child's child keeps the pipes open
    start = time.monotonic()
    found = run_probe(tmp_path, {"timeout_s": 0.5, "paths": ["/"]})
    assert time.monotonic() - start < 15
    assert found["nvidia_smi"]["gpus"] == {"error": f"{tmp_path}/nvidia-smi: no answer within 0.5 s"}
    assert found["memory"]["total_kib"] > 0
    assert "hardware.driver-hangs" in {finding.rule for finding in parse(found).findings}


def test_failing_tool_is_recorded_as_it_spoke(tmp_path):
    install_capture(tmp_path, "driver-broken")
    found = run_probe(tmp_path, {"paths": ["/"]})
    assert found["nvidia_smi"]["gpus"]["rc"] == 9
    assert "hardware.driver-broken" in {finding.rule for finding in parse(found).findings}


def test_old_driver_is_asked_for_fewer_fields(tmp_path):
    refuses = 'echo "Field \\"compute_cap\\" is not a valid field to query."; exit 2'
    answers = 'echo "index, uuid, name, memory.total [MiB], driver_version, pci.bus_id"; exit 0'
    install(tmp_path, f'#!/bin/sh\ncase "$*" in *compute_cap*) {refuses};; *) {answers};; esac\n')
    found = hardware.gpu_query(str(tmp_path / "nvidia-smi"), 5.0)
    assert found["rc"] == 0
    assert found["out"].startswith("index, uuid")


REQUESTS = [
    (["x"], (["/", "~", "/dev/shm", "/tmp"], 10.0)),
    (["x", "{}"], (["/", "~", "/dev/shm", "/tmp"], 10.0)),
    (["x", '{"paths": ["/a", 3], "timeout_s": 2}'], (["/a"], 2.0)),
    (["x", '{"timeout_s": 99}'], (["/", "~", "/dev/shm", "/tmp"], 10.0)),
    (["x", '{"timeout_s": "1"}'], (["/", "~", "/dev/shm", "/tmp"], 10.0)),
    (["x", "not json"], (["/", "~", "/dev/shm", "/tmp"], 10.0)),
    (["x", "[1]"], (["/", "~", "/dev/shm", "/tmp"], 10.0)),
]


@pytest.mark.parametrize(("argv", "understood"), REQUESTS)
def test_request(argv, understood):
    assert hardware.parse_request(argv) == understood


def test_main_prints_one_line(capsys):
    assert hardware.main(["x", '{"paths": ["/"]}']) == 0
    assert json.loads(capsys.readouterr().out)["format"] == 1


def test_owner_of_a_process_on_a_gpu_is_read_from_its_environment():
    with subprocess.Popen(["sleep", "60"], env={"SLIPWAY_DEPLOYMENT": "demo"}) as worker:
        found = hardware.owners(f"pid, gpu_uuid, used\n{worker.pid}, GPU-1, 5\n{os.getpid()}, GPU-1, 5\nN/A, x\n")
        worker.kill()

    assert found == {str(worker.pid): "demo"}


def test_absent_tool():
    assert hardware.command(["no-such-tool-anywhere"]) == {"error": "no-such-tool-anywhere: No such file or directory"}


def test_one_failure_does_not_touch_the_others():
    def broken() -> None:
        raise OSError(5, "Input/output error")

    def late() -> None:
        time.sleep(5)

    found = hardware.together({"good": lambda: 1, "broken": broken, "late": late}, 0.2)
    assert found["good"] == 1
    assert "Input/output error" in found["broken"]["error"]
    assert found["late"] == {"error": "no answer in time"}


ADDRESSES = [
    ("0100007F", "127.0.0.1"),
    ("0B00140A", "10.20.0.11"),
    ("00000000000000000000000001000000", "::1"),
    ("00000000000000000000000000000000", "::"),
]


@pytest.mark.parametrize(("hexed", "address"), ADDRESSES)
def test_kernel_spelling_of_addresses(hexed, address):
    assert hardware.socket_address(hexed) == address


def test_own_listener_is_seen():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        (own,) = [entry for entry in hardware.listeners() if entry["port"] == port]
    assert (own["address"], own["pid"]) == ("127.0.0.1", os.getpid())
    assert own["command"]


SECRETS = [
    ("python -m sglang --api-key sk-123 --port 1", "python -m sglang --api-key *** --port 1"),
    ("router --control-plane-api-keys=a:b", "router --control-plane-api-keys=***"),
    ("env HF_TOKEN=hf_1 x", "env HF_TOKEN=*** x"),
    ("x --password hunter2", "x --password ***"),
    ("server --port 30000", "server --port 30000"),
]


@pytest.mark.parametrize(("line", "shown"), SECRETS)
def test_secrets_of_other_processes_are_not_repeated(line, shown):
    assert hardware.SECRETS.sub(r"\1\2***", line) == shown


def test_rdma_devices(tmp_path):
    port = tmp_path / "mlx5_0" / "ports" / "1"
    (port / "gids").mkdir(parents=True)
    (port / "gid_attrs" / "types").mkdir(parents=True)
    (port / "gid_attrs" / "ndevs").mkdir()
    (tmp_path / "mlx5_0" / "device" / "net" / "ens1").mkdir(parents=True)
    (tmp_path / "mlx5_0" / "device" / "numa_node").write_text("1\n")
    texts = {"state": "4: ACTIVE\n", "phys_state": "5: LinkUp\n", "link_layer": "Ethernet\n", "rate": "400 Gb/sec\n"}
    for name, content in texts.items():
        (port / name).write_text(content)
    gids = ["fe80:0000:0000:0000:0000:0000:0000:0001", "0000:0000:0000:0000:0000:ffff:0a00:0001", "0000:" * 7 + "0000"]
    for index, gid in enumerate(gids):
        (port / "gids" / str(index)).write_text(gid)
        (port / "gid_attrs" / "types" / str(index)).write_text("RoCE v2")
        (port / "gid_attrs" / "ndevs" / str(index)).write_text("ens1")
    (device,) = hardware.rdma(str(tmp_path))
    assert (device["name"], device["numa_node"], device["netdevs"]) == ("mlx5_0", 1, ["ens1"])
    assert [gid["gid"] for gid in device["ports"][0]["gids"]] == gids[:2]
    host = parse({**capture("no-gpu"), "rdma": [device]})
    assert host.rdma[0].routable


def test_addresses_without_any_tool():
    found = hardware.kernel_addresses()
    assert {"address": "127.0.0.1", "prefix": 8} in found["lo"]
