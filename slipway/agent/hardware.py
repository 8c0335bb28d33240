"""Print everything a plan needs to know about this host as one JSON object; write nothing.

Self-contained on purpose (standard library, Python 3.9 or newer): its source is handed to `python3 -c` on a
host, so that one remote execution answers every question. Each reading runs on its own and fails on its own:
what could not be read is recorded as {"error": ...}. A hanging driver or a dead network mount costs its own
reading, never the probe: tools and file systems are asked by child processes that are given up after a limit.

    python3 hardware.py '{"paths": ["/opt/slipway"], "timeout_s": 10}'
"""

from __future__ import annotations

import ctypes.util
import fcntl
import glob
import ipaddress
import json
import os
import platform
import pwd
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Reading = Any
FORMAT = 1
COMMAND_TIMEOUT = 10.0
GRACE = 2.0  # a child that ignores SIGKILL (stuck in the driver) is left behind after this
GPU_FIELDS = (
    "index,uuid,name,memory.total,compute_cap,mig.mode.current,ecc.mode.current,driver_version,pci.bus_id,power.limit"
)
OLD_GPU_FIELDS = "index,uuid,name,memory.total,driver_version,pci.bus_id"  # drivers before 510 lack compute_cap
APP_FIELDS = "pid,gpu_uuid,used_memory,process_name"
LIBRARIES = (
    "libibverbs.so.1",
    "librdmacm.so.1",
    "libmlx5.so.1",
    "libnuma.so.1",
    "libcurl.so.4",
    "libgomp.so.1",
    "libcuda.so.1",
    "libnvidia-ml.so.1",
)
TOOLS = (
    "git",
    "gcc",
    "g++",
    "ninja",
    "make",
    "curl",
    "xz",
    "zstd",
    "uv",
    "systemctl",
    "supervisord",
    "numactl",
    "unshare",
    "flock",
    "sudo",
)
SMI_PLACES = ("/usr/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/usr/local/bin", "/opt/bin")
PYTHON_GLOBS = (
    "/usr/bin/python3*",
    "/usr/local/bin/python3*",
    "/opt/*/bin/python3*",
    "/opt/*/.venv/bin/python3*",
    "~/.pyenv/versions/*/bin/python3*",
    "~/.local/bin/python3*",
    "~/.local/share/uv/python/*/bin/python3*",
)
SECRETS = re.compile(r"(?i)(\S*(?:key|token|secret|passw)[\w-]*)([= ])(\S+)")  # never leaves the host
PYTHON_ASKS = """
import importlib.util as u, json, os, sys, sysconfig as s
h = os.path.join(s.get_paths()['include'], 'Python.h')
m = lambda n: u.find_spec(n) is not None
print(json.dumps({'version': '.'.join(map(str, sys.version_info[:3])), 'headers': os.path.exists(h),
    'venv': m('venv') and m('ensurepip'), 'pip': m('pip'), 'prefix': sys.prefix, 'base': sys.base_prefix}))
"""
DISK_ASKS = """
import json, os, sys
p = os.path.abspath(os.path.expanduser(sys.argv[1])); q = p
while not os.path.exists(q): q = os.path.dirname(q)
v = os.statvfs(q); b = v.f_frsize
print(json.dumps({'path': p, 'at': q, 'total': v.f_blocks * b, 'free': v.f_bavail * b,
    'free_inodes': v.f_favail, 'writable': os.access(q, os.W_OK), 'device': os.stat(q).st_dev}))
"""


def text(path: str) -> str:
    """A small file's text, stripped."""
    return Path(path).read_text(encoding="utf-8", errors="replace").strip()


def number(path: str) -> int:
    """The number that a small file holds."""
    return int(text(path))


def matching(pattern: str) -> list[str]:
    """Paths that match, in order."""
    return sorted(glob.glob(os.path.expanduser(pattern)))


def leaf(path: str) -> str:
    """The last part of a path."""
    return path.rsplit("/", 1)[-1]


def failed(error: BaseException) -> Reading:
    """An exception as the record that stands in for a reading."""
    return {"error": f"{type(error).__name__}: {error}"}


def attempt(ask: Callable[..., Reading], *given: Any) -> Reading:
    """What `ask` answers, or why it could not: nothing one reading meets may end the probe."""
    try:
        return ask(*given)
    except Exception as error:  # noqa: BLE001 - hosts break in ways that no list foresees
        return failed(error)


def kill(child: subprocess.Popen[str]) -> None:
    """End a child and what it started; one stuck in the kernel is left behind."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        child.kill()
    try:
        child.communicate(timeout=GRACE)
    except (subprocess.TimeoutExpired, ValueError, OSError):
        return


def command(argv: list[str], timeout: float = COMMAND_TIMEOUT) -> dict[str, Any]:
    """One tool's raw output, or {"error": ...} when it is absent or does not answer in time."""
    environment = dict(os.environ, LC_ALL="C", LANG="C")
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            universal_newlines=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return {"error": f"{argv[0]}: {error.strerror or error}"}
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill(child)
        return {"error": f"{argv[0]}: no answer within {timeout:g} s"}
    return {"rc": child.returncode, "out": out, "err": err[-2000:]}


def together(asks: dict[str, Callable[[], Reading]], limit: float, late: str = "no answer in time") -> dict[str, Any]:
    """Every answer by name, asked at the same time; one that is late is recorded as an error."""
    answers: dict[str, Any] = {}

    def work(name: str, ask: Callable[[], Reading]) -> None:
        answers[name] = attempt(ask)

    threads = [threading.Thread(target=work, args=item, daemon=True) for item in asks.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    seen = dict(answers)
    return {name: seen.get(name, {"error": late}) for name in asks}


def find(tool: str, places: tuple[str, ...] = ()) -> str | None:
    """A tool's path: on PATH, or where installers put it when a login shell would have set PATH."""
    return shutil.which(tool) or shutil.which(tool, path=os.pathsep.join(places))


# --- GPUs ---------------------------------------------------------------------------------------------------


def gpu_query(smi: str, timeout: float) -> dict[str, Any]:
    """The GPU table as CSV; an old driver that lacks a field is asked again for fewer."""
    answer = command([smi, f"--query-gpu={GPU_FIELDS}", "--format=csv,nounits"], timeout)
    if "not a valid field" in str(answer.get("out", "")) + str(answer.get("err", "")):
        return command([smi, f"--query-gpu={OLD_GPU_FIELDS}", "--format=csv,nounits"], timeout)
    return answer


def nvidia_smi(timeout: float) -> Reading:
    """Every question to nvidia-smi, asked at once: one that hangs costs its limit once, not seven times."""
    smi = find("nvidia-smi", SMI_PLACES)
    if smi is None:
        return {"error": "nvidia-smi: not found"}
    plain = {
        "apps": [smi, f"--query-compute-apps={APP_FIELDS}", "--format=csv,nounits"],
        "topo": [smi, "topo", "-m"],
        "p2p": [smi, "topo", "-p2p", "r"],
        "nvlink": [smi, "nvlink", "--status"],
        "fabric": [smi, "--query-gpu=index,fabric.state,fabric.status", "--format=csv,nounits"],
        "summary": [smi],
    }
    asks: dict[str, Callable[[], Reading]] = {n: partial(command, a, timeout) for n, a in plain.items()}
    asks["gpus"] = partial(gpu_query, smi, timeout)
    answers = together(asks, timeout + GRACE + 1)
    return {"path": smi, **answers, "owners": owners(str(answers["apps"].get("out", "")))}


def owners(apps: str) -> dict[str, str]:
    """The deployment of each process that holds GPU memory, where it is one of Slipway's and may be read."""
    found = {pid: deployment(pid) for pid in re.findall(r"^\s*(\d+)\s*,", apps, re.MULTILINE)}
    return {pid: name for pid, name in found.items() if name}


def deployment(pid: str) -> str:
    """What the plan has put into the environment of a worker, and its children have from it; empty for others."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    mark = b"SLIPWAY_DEPLOYMENT="
    return next((entry[len(mark) :].decode("utf-8", "replace") for entry in entries if entry.startswith(mark)), "")


def pci_gpus() -> Reading:
    """NVIDIA display devices on the PCI bus with their NUMA node: seen even when the driver is broken."""
    found = []
    for device in matching("/sys/bus/pci/devices/*"):
        if text(f"{device}/vendor") == "0x10de" and text(f"{device}/class").startswith("0x03"):
            found.append(
                {
                    "bus_id": leaf(device),
                    "device": text(f"{device}/device"),
                    "numa_node": attempt(number, f"{device}/numa_node"),
                    "cpus": attempt(text, f"{device}/local_cpulist"),
                }
            )
    return found


def driver_modules() -> list[str]:
    """Loaded kernel modules of GPUs and RDMA."""
    names = {line.split()[0] for line in text("/proc/modules").splitlines() if line}
    return sorted(name for name in names if re.match(r"nvidia|gdrdrv|nv_peer|ib_|mlx|rdma", name))


def driver() -> Reading:
    """What the kernel says about the NVIDIA driver, and the modules that GPU-direct transfers need."""
    return {
        "version": attempt(lambda: text("/proc/driver/nvidia/version").splitlines()[0]),
        "modules": attempt(driver_modules),
        "device_files": matching("/dev/nvidia*") + matching("/dev/infiniband/*"),
    }


def cuda(timeout: float) -> Reading:
    """The CUDA toolkits on the host, and the compiler that just-in-time builds would find."""
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    nvcc = find("nvcc", tuple(f"{home}/bin" for home in homes if home))
    return {
        "nvcc": command([nvcc, "--version"], timeout) if nvcc else {"error": "nvcc: not found"},
        "nvcc_path": nvcc,
        "toolkits": matching("/usr/local/cuda-*"),
        "home": homes[0] or homes[1] or None,
    }


# --- the machine --------------------------------------------------------------------------------------------


def node_memory_kib(node: str) -> int:
    """One NUMA node's memory."""
    match = re.search(r"MemTotal:\s*(\d+)", text(f"{node}/meminfo"))
    return int(match.group(1)) if match else 0


def numa() -> Reading:
    """NUMA nodes that hold CPUs or memory."""
    return [
        {
            "node": int(re.sub(r"\D", "", leaf(node))),
            "cpus": text(f"{node}/cpulist"),
            "memory_kib": attempt(node_memory_kib, node),
            "distances": attempt(text, f"{node}/distance"),
        }
        for node in matching("/sys/devices/system/node/node[0-9]*")
    ]


def gids(port: str) -> list[dict[str, Any]]:
    """A port's addresses that are set, with their kind and network device; at most 16."""
    found = []
    for path in sorted(matching(f"{port}/gids/*"), key=lambda p: int(leaf(p))):
        index = int(leaf(path))
        value = attempt(text, path)
        if isinstance(value, str) and value.replace(":", "").strip("0"):
            found.append(
                {
                    "index": index,
                    "gid": value,
                    "type": attempt(text, f"{port}/gid_attrs/types/{index}"),
                    "netdev": attempt(text, f"{port}/gid_attrs/ndevs/{index}"),
                }
            )
    return found[:16]


def rdma_port(port: str) -> dict[str, Any]:
    """One port of an RDMA device."""
    return {
        "port": int(leaf(port)),
        "state": attempt(text, f"{port}/state"),
        "phys_state": attempt(text, f"{port}/phys_state"),
        "link_layer": attempt(text, f"{port}/link_layer"),
        "rate": attempt(text, f"{port}/rate"),
        "gids": attempt(gids, port),
    }


def rdma(root: str = "/sys/class/infiniband") -> Reading:
    """RDMA devices, their ports and state."""
    return [
        {
            "name": leaf(device),
            "numa_node": attempt(number, f"{device}/device/numa_node"),
            "netdevs": [leaf(n) for n in matching(f"{device}/device/net/*")],
            "ports": [rdma_port(p) for p in matching(f"{device}/ports/*")],
        }
        for device in matching(f"{root}/*")
    ]


def memory() -> Reading:
    """Memory and hugepages, in KiB as the kernel counts them."""
    pairs = dict(line.split(":", 1) for line in text("/proc/meminfo").splitlines() if ":" in line)
    number = {name: int(value.split()[0]) for name, value in pairs.items()}
    return {
        "total_kib": number["MemTotal"],
        "available_kib": number.get("MemAvailable"),
        "swap_kib": number.get("SwapTotal"),
        "hugepages_total": number.get("HugePages_Total"),
        "hugepages_free": number.get("HugePages_Free"),
        "hugepage_kib": number.get("Hugepagesize"),
        "transparent_hugepages": attempt(text, "/sys/kernel/mm/transparent_hugepage/enabled"),
    }


def cpu() -> Reading:
    """CPUs: how many this process may use, and what they are called."""
    names = re.findall(r"^model name\s*:\s*(.+)$", text("/proc/cpuinfo"), re.MULTILINE)
    return {
        "count": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)),
        "model": names[0] if names else platform.processor() or None,
        "flags": sorted(
            set(re.findall(r"\b(avx2|avx512f|amx_tile|amx_bf16|avx512_bf16|sve|bf16)\b", text("/proc/cpuinfo")))
        ),
    }


def child_json(argv: list[str], timeout: float) -> Reading:
    """The JSON that a child prints."""
    answer = command(argv, timeout)
    if "error" in answer:
        return answer
    if answer["rc"] != 0:
        return {"error": (answer["err"] or "no output").strip().splitlines()[-1]}
    return json.loads(answer["out"])


def disks(paths: list[str], timeout: float) -> Reading:
    """Space at each path, or at its nearest parent that exists; a dead mount hangs its own child only."""
    asks: dict[str, Callable[[], Reading]] = {
        path: partial(child_json, [sys.executable, "-I", "-S", "-c", DISK_ASKS, path], timeout) for path in paths
    }
    return together(asks, timeout + GRACE + 1)


# --- software -----------------------------------------------------------------------------------------------


def python_paths() -> list[str]:
    """Interpreters worth asking, each real file once."""
    patterns = [f"{place}/python3*" for place in os.environ.get("PATH", "").split(os.pathsep) if place]
    found: dict[str, str] = {}
    for pattern in (*PYTHON_GLOBS, *patterns):  # the system's own before an environment made of it
        for path in matching(pattern):
            named = re.fullmatch(r"python3(\.\d+)?", leaf(path))
            if named and "/shims/" not in path and os.access(path, os.X_OK):
                found.setdefault(os.path.realpath(path), path)
    return sorted(found.values())[:16]


def pythons(timeout: float) -> Reading:
    """Each Python's version, whether it can compile extensions (headers) and make environments (venv)."""
    asks: dict[str, Callable[[], Reading]] = {
        path: partial(child_json, [path, "-I", "-c", PYTHON_ASKS], timeout) for path in python_paths()
    }
    answers = together(asks, timeout + GRACE + 1)
    return [{"path": path, **answer} for path, answer in answers.items()]


def os_release() -> dict[str, str]:
    """The distribution, as it names itself."""
    lines = [line.split("=", 1) for line in text("/etc/os-release").splitlines() if "=" in line]
    return {key: value.strip('"') for key, value in lines}


def system() -> Reading:
    """Kernel, C library, distribution, and what runs as process 1."""
    return {
        "hostname": socket.gethostname(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "glibc": attempt(os.confstr, "CS_GNU_LIBC_VERSION"),
        "os_release": attempt(os_release),
        "pid1": attempt(text, "/proc/1/comm"),
        "systemd": Path("/run/systemd/system").is_dir(),  # sd_booted(3)
        "container": Path("/.dockerenv").exists() or "container" in os.environ,
        "probe_python": platform.python_version(),
        "tools": {tool: shutil.which(tool) for tool in TOOLS},
    }


def identity() -> Reading:
    """Who the probe runs as: what it may write and own."""
    entry = attempt(lambda: pwd.getpwuid(os.getuid()).pw_name)
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "user": entry,
        "home": os.path.expanduser("~"),
        "groups": sorted(os.getgroups()),
    }


def libraries() -> Reading:
    """Where the dynamic linker finds the shared libraries that engines and transfer backends load."""
    linker = find("ldconfig", ("/sbin", "/usr/sbin")) or "ldconfig"
    cache = str(command([linker, "-p"]).get("out", ""))
    found = dict.fromkeys(LIBRARIES)
    for name, path in re.findall(r"^\s*(\S+) \(.*=> (\S+)$", cache, re.MULTILINE):
        if name in found and not found[name]:
            found[name] = path
    for name in [name for name, path in found.items() if not path]:
        stem = name[len("lib") :].split(".so", 1)[0]
        loaded = attempt(ctypes.util.find_library, stem)
        found[name] = loaded if loaded == name else None
    return found


def limits() -> Reading:
    """Soft and hard limits of this session; null is unlimited. A service sets its own."""
    names = {
        "memlock": resource.RLIMIT_MEMLOCK,
        "nofile": resource.RLIMIT_NOFILE,
        "nproc": resource.RLIMIT_NPROC,
        "core": resource.RLIMIT_CORE,
    }
    endless = resource.RLIM_INFINITY
    return {
        name: [None if value == endless else value for value in resource.getrlimit(number)]
        for name, number in names.items()
    }


# --- network ------------------------------------------------------------------------------------------------


def ioctl_address(name: str, request: int) -> str:
    """One IPv4 value of an interface, asked of the kernel."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        packed = fcntl.ioctl(asking.fileno(), request, struct.pack("256s", name.encode()[:15]))
    return socket.inet_ntoa(packed[20:24])


def kernel_addresses() -> dict[str, list[dict[str, Any]]]:
    """Addresses without any tool: ioctl for IPv4, /proc for IPv6."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for _, name in socket.if_nameindex()}
    for name, addresses in found.items():
        try:
            address, mask = ioctl_address(name, 0x8915), ioctl_address(name, 0x891B)  # SIOCGIFADDR, ..NETMASK
        except OSError:
            continue
        addresses.append({"address": address, "prefix": bin(int(ipaddress.ip_address(mask))).count("1")})
    for line in attempt(lambda: text("/proc/net/if_inet6").splitlines()) or []:
        parts = line.split()
        if len(parts) == 6 and parts[5] in found:
            packed = ipaddress.ip_address(bytes.fromhex(parts[0]))
            found[parts[5]].append({"address": str(packed), "prefix": int(parts[2], 16)})
    return found


def tool_addresses() -> dict[str, list[dict[str, Any]]]:
    """Addresses as `ip` reports them, secondary ones included; empty where there is no such tool."""
    answer = command(["ip", "-j", "addr"])
    if answer.get("rc") != 0:
        return {}
    return {
        link["ifname"]: [
            {"address": entry["local"], "prefix": entry.get("prefixlen")}
            for entry in link.get("addr_info", [])
            if "local" in entry
        ]
        for link in json.loads(answer["out"])
        if "ifname" in link
    }


def default_route() -> Reading:
    """The interface and gateway of the IPv4 default route, and the address that traffic leaves from."""
    rows = [line.split() for line in text("/proc/net/route").splitlines()[1:]]
    route = next((row for row in rows if len(row) > 7 and row[1] == row[7] == "00000000"), None)
    if route is None:
        return None
    gateway = socket.inet_ntoa(struct.pack("<I", int(route[2], 16)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("192.0.2.1", 9))  # a documentation address; connecting a datagram socket sends nothing
        return {"interface": route[0], "gateway": gateway, "source": asking.getsockname()[0]}


def own_addresses() -> list[str]:
    """What this host's own name resolves to, here."""
    return sorted({str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)})


def network() -> Reading:
    """Interfaces with addresses, the default route, and what the host's own name resolves to."""
    addresses = attempt(tool_addresses)
    if not addresses or "error" in addresses:
        addresses = kernel_addresses()
    interfaces = [
        {
            "name": name,
            "state": attempt(text, f"/sys/class/net/{name}/operstate"),
            "mtu": attempt(number, f"/sys/class/net/{name}/mtu"),
            "speed": attempt(number, f"/sys/class/net/{name}/speed"),
            "addresses": entries,
        }
        for name, entries in addresses.items()
    ]
    return {
        "interfaces": interfaces,
        "default_route": attempt(default_route),
        **together({"own_name": own_addresses}, 3.0, "the resolver did not answer within 3 s"),
        "ephemeral_ports": attempt(lambda: text("/proc/sys/net/ipv4/ip_local_port_range").split()),
    }


def socket_address(hexed: str) -> str:
    """An address as /proc/net/tcp spells it, readable."""
    raw = bytes.fromhex(hexed)
    swapped = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    return str(ipaddress.ip_address(swapped))


def socket_owners() -> dict[str, int]:
    """Which process holds which socket, as far as this user may see."""
    owners: dict[str, int] = {}
    for link in matching("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("socket:["):
            owners.setdefault(target[8:-1], int(link.split("/")[2]))
    return owners


def command_line(pid: int) -> str:
    """What a process was started as, shortened."""
    raw = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return SECRETS.sub(r"\1\2***", raw).strip()[:200]


def listeners() -> Reading:
    """Listening TCP sockets with the process that holds them, where this user may read it."""
    tables = [attempt(text, path) for path in ("/proc/net/tcp", "/proc/net/tcp6")]
    lines = [line for table in tables if isinstance(table, str) for line in table.splitlines()]
    owners = attempt(socket_owners)
    found = []
    for row in map(str.split, lines):
        if len(row) > 9 and row[3] == "0A":
            address, port = row[1].split(":")
            pid = owners.get(row[9])
            started = attempt(command_line, pid) if pid else None
            found.append({"port": int(port, 16), "address": socket_address(address), "pid": pid, "command": started})
    return sorted(found, key=lambda item: (item["port"], item["address"]))


def clock() -> Reading:
    """The host's idea of the time: hosts that disagree make logs and certificates useless."""
    return {
        "epoch": time.time(),
        "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "zone": time.tzname[0],
    }


# --- the whole ----------------------------------------------------------------------------------------------


def readings(paths: list[str], timeout: float) -> dict[str, Callable[[], Reading]]:
    """Every reading by the name it has in the output."""
    return {
        "nvidia_smi": partial(nvidia_smi, timeout),
        "pci_gpus": pci_gpus,
        "driver": driver,
        "cuda": partial(cuda, timeout),
        "numa": numa,
        "rdma": rdma,
        "cpu": cpu,
        "memory": memory,
        "disks": partial(disks, paths, timeout),
        "pythons": partial(pythons, timeout),
        "system": system,
        "identity": identity,
        "libraries": libraries,
        "limits": limits,
        "network": network,
        "listeners": listeners,
        "clock": clock,
    }


def parse_request(argv: list[str]) -> tuple[list[str], float]:
    """Paths and limit from the optional JSON argument; anything unusable falls back to the defaults."""
    request = attempt(json.loads, argv[1]) if len(argv) > 1 else {}
    if not isinstance(request, dict):
        request = {}
    paths = request.get("paths")
    wanted = [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
    limit = request.get("timeout_s")
    if not isinstance(limit, (int, float)) or not 0 < limit <= COMMAND_TIMEOUT:
        limit = COMMAND_TIMEOUT
    return wanted or ["/", "~", "/dev/shm", "/tmp"], float(limit)  # noqa: S108 - asked about, never written


def probe(paths: list[str], timeout: float = COMMAND_TIMEOUT) -> dict[str, Any]:
    """Everything about this host; takes at most about timeout + 6 s, whatever hangs."""
    start = time.monotonic()
    answers = together(readings(paths, timeout), timeout + 2 * GRACE + 2)
    return {"format": FORMAT, **answers, "took_s": round(time.monotonic() - start, 3)}


def main(argv: list[str]) -> int:
    """Print the probe as one line of JSON."""
    paths, timeout = parse_request(argv)
    sys.stdout.write(json.dumps(probe(paths, timeout), sort_keys=True, default=str) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
