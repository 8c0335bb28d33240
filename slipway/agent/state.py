"""Reads the state of a host that a plan cares about, in one execution, and changes nothing.

One file, standard library only, Python 3.9+: its source is handed to the host's python3, so nothing need be
installed there first. usage: state.py REQUEST, both request and answer being JSON; see `read_state`.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import http.client
import json
import os
import pwd
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

NOTES = os.path.join(".cache", "slipway")  # below a checkpoint; no engine reads it
SMALL = 64 * 1024 * 1024  # bytes up to which a folder is hashed on each look; beyond it sizes and stamps must do
MARKS = ("SLIPWAY_DEPLOYMENT", "SLIPWAY_INSTANCE", "SLIPWAY_CONFIG", "SLIPWAY_UNIT", "SLIPWAY_SECRETS", "SLIPWAY_ROLE",
         "SLIPWAY_URL")  # fmt: skip
KEY_NAME = "SERVER_API_KEY"  # by this variable an engine or a router is given its API key
API_KEY = re.compile(rf'^{KEY_NAME}="(.*)"$', re.MULTILINE)
LIMITS = {"Max locked memory": "memlock", "Max open files": "nofile"}


def read_state(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request.

    files: paths -> kind, sha256, mode, user, group, changed (when), target, and text where it is short; sealed:
    the same without the text. folders: {path: {name: [size, sha256]}} -> list of
    what differs. checkpoints: paths of fetched ones -> absent, partial or complete, and what differs.
    builds: paths of builds -> absent, incomplete, complete or damaged. services: {manager, names, control} -> state,
    pid, config. ports: numbers -> who listens. users: names -> whether they exist.
    disks: paths -> free bytes. listings: folders -> their entries' names. live: instances of `deployment` that run,
    in whichever plan, with their marks. now: the host's clock. routers: URLs -> the workers each sends to, by URL;
    None when it is silent.
    """
    return {
        "files": {
            **{path: file_state(path) for path in request.get("files", [])},
            **{path: sealed_state(path) for path in request.get("sealed", [])},
        },
        "folders": {path: folder_problems(path, want) for path, want in request.get("folders", {}).items()},
        "checkpoints": {path: look(path) for path in request.get("checkpoints", [])},
        "builds": {path: build_state(path) for path in request.get("builds", [])},
        "services": service_states(request.get("services", {})),
        "ports": port_owners(request.get("ports", [])),
        "users": {name: user_exists(name) for name in request.get("users", [])},
        "disks": {path: free_bytes(path) for path in request.get("disks", [])},
        "listings": {path: listing(path) for path in request.get("listings", [])},
        "now": time.time(),
        "live": live_instances(request.get("deployment", "")),
        "routers": routers_of(request),
    }


def file_state(path: str) -> dict[str, Any]:
    """What lies at `path`; links are not followed."""
    try:
        info = os.lstat(path)
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        return {"kind": "absent"} if missing else {"kind": "unreadable", "error": str(error)}
    state: dict[str, Any] = {
        "changed": info.st_ctime,
        "mode": format(stat.S_IMODE(info.st_mode), "o"),
        "user": name_of(pwd.getpwuid, info.st_uid),
        "group": name_of(grp.getgrgid, info.st_gid),
    }
    if stat.S_ISLNK(info.st_mode):
        return {**state, "kind": "link", "target": os.readlink(path)}
    if stat.S_ISDIR(info.st_mode):
        return {**state, "kind": "folder"}
    if not stat.S_ISREG(info.st_mode):
        return {**state, "kind": "other"}
    return {**state, "kind": "file", "size": info.st_size, **content(path, info.st_size)}


def sealed_state(path: str) -> dict[str, Any]:
    """As file_state, of a file whose text must not leave the host."""
    return {key: value for key, value in file_state(path).items() if key != "text"}


def content(path: str, size: int) -> dict[str, Any]:
    """The hash, and for small text the text itself: a dry run shows what would change in it."""
    try:
        with open(path, "rb") as file:
            data = file.read() if size < 256 * 1024 else b""
        text = {"text": data.decode("utf-8")} if data and size < 64 * 1024 else {}
        return {"sha256": hashlib.sha256(data).hexdigest() if data else sha256(path), **text}
    except UnicodeDecodeError:
        return {"sha256": sha256(path)}
    except OSError as error:
        return {"sha256": "", "error": str(error)}


def name_of(lookup: Any, number: int) -> str:
    """User or group name; the number itself when the system has no name for it."""
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def sha256(path: str) -> str:
    """SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def folder_problems(path: str, want: dict[str, list[Any]]) -> dict[str, Any]:
    """How a folder differs from {name: [size, sha256]}."""
    if not os.path.isdir(path):
        return {"kind": "absent", "problems": []}
    hashed = sum(size for size, _ in want.values()) <= SMALL
    problems = [
        text
        for name, (size, digest) in sorted(want.items())
        for text in file_problems(path, name, size, digest if hashed else None)
    ]
    return {"kind": "folder", "problems": problems}


def file_problems(folder: str, name: str, size: int, digest: str | None) -> Iterator[str]:
    """At most one sentence on a file that is not as wanted."""
    path = os.path.join(folder, name)
    try:
        found = os.path.getsize(path)
        if found != size:
            yield f"{name}: {found} bytes; must be {size}"
        elif digest and sha256(path) != digest:
            yield f"{name}: its content differs from the manifest"
    except OSError:
        yield f"{name}: missing"


def notes_path(folder: str, name: str) -> str:
    """Where one of our own notes on a checkpoint lies."""
    return os.path.join(folder, NOTES, name)


def read_note(folder: str, name: str) -> dict[str, Any]:
    """One of our notes; {} when there is none that can be used."""
    return read_json(notes_path(folder, name))


def read_json(path: str) -> dict[str, Any]:
    """A JSON object from a file; {} when there is none that can be used."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def stamp(path: str) -> list[int]:
    """Size, time of change and inode: what a look can tell without reading."""
    info = os.stat(path)
    return [info.st_size, info.st_mtime_ns, info.st_ino]


def unchanged(folder: str, name: str, row: list[Any]) -> str:
    """'' when the file is as recorded, else how it differs."""
    try:
        size, changed, inode = stamp(os.path.join(folder, name))
    except OSError:
        return f"{name}: missing"
    if size != row[0]:
        return f"{name}: {size} bytes; must be {row[0]}"
    if (changed, inode) != (row[1], row[2]):
        return f"{name}: was written to or replaced since it was verified"
    return ""


def look(folder: str) -> dict[str, Any]:
    """A fetched checkpoint against the record made when it was proven: absent, partial or complete, and problems."""
    if not os.path.isdir(folder):
        return {"kind": "absent", "problems": []}
    rows = read_note(folder, "record.json").get("files", {})
    if not read_note(folder, "complete") or not rows:
        return {"kind": "partial", "problems": [], "files": len(rows)}
    bad = [text for text in (unchanged(folder, name, row) for name, row in sorted(rows.items())) if text]
    return {"kind": "complete", "problems": bad, "files": len(rows)}


def listed_as(data: bytes, listed: str) -> bool:
    """Whether bytes are those of a hash as the Hub lists it, 'sha256:HEX' or 'git:HEX'."""
    kind, _, wanted = listed.partition(":")
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data)  # noqa: S324 - git's own
    return wanted == (hashlib.sha256(data) if kind == "sha256" else blob).hexdigest()


def build_state(path: str) -> dict[str, Any]:
    """Whether a build is complete, and untouched since it was completed."""
    if not os.path.isdir(path):
        return {"kind": "absent"}
    try:
        with open(os.path.join(path, "complete"), encoding="utf-8") as file:
            recorded = json.load(file)
    except (OSError, ValueError):
        return {"kind": "incomplete"}
    moved = next((name for name, row in recorded.get("base", {}).items() if changed_since(name, row)), "")
    if moved:
        return {"kind": "damaged", "base": moved}
    now, count = fingerprint(path)
    if now == recorded.get("fingerprint"):
        return {"kind": "complete"}
    return {"kind": "damaged", "files": count, "recorded_files": recorded.get("files")}


def changed_since(path: str, row: list[int]) -> bool:
    """Whether a file of the base Python is not as it was when the build was completed."""
    try:
        return stamp(path)[:2] != row
    except OSError:
        return True


def fingerprint(path: str) -> tuple[str, int]:
    """Hash over names, sizes, modes and change times below `path`; bytecode and our own records left out."""
    digest, count = hashlib.sha256(), 0
    for folder, names, files in os.walk(path):
        names[:] = sorted(name for name in names if name != "__pycache__")
        for name in sorted(files):
            full = os.path.join(folder, name)
            relative = os.path.relpath(full, path)
            if relative == "complete" or name.endswith(".pyc"):
                continue
            info = os.lstat(full)
            target = os.readlink(full) if stat.S_ISLNK(info.st_mode) else ""
            digest.update(f"{relative}\0{info.st_size}\0{info.st_mtime_ns}\0{info.st_mode}\0{target}\n".encode())
            count += 1
    return digest.hexdigest(), count


def service_states(wanted: dict[str, Any]) -> dict[str, Any]:
    """State of each named service under its manager, with the marks of its live process."""
    names = wanted.get("names", [])
    if not names:
        return {}
    read = systemd_states if wanted.get("manager") == "systemd" else supervisor_states
    states = read(names, wanted.get("control", ""))
    return {name: {**state, **process_facts(state.get("pid", 0))} for name, state in states.items()}


def process_facts(pid: int) -> dict[str, Any]:
    """What a service's live process says of itself: marks, user, since when it runs, what the kernel granted it."""
    if not pid or not os.path.isdir(f"/proc/{pid}"):
        return {}
    return {**process_marks(pid), "user": process_user(pid), "since": process_start(pid), "limits": limits_of(pid)}


def process_user(pid: int) -> str:
    """Name of the user that a process runs as; the number when the user is gone."""
    try:
        return name_of(pwd.getpwuid, os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return ""


def process_start(pid: int) -> float:
    """When a process started, in seconds since 1970; 0 when that cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            uptime = float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def limits_of(pid: int) -> dict[str, str]:
    """The limits that services ask for, as the process has them: soft values, 'unlimited' where there is none."""
    found = {}
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii", errors="replace") as file:
            for line in file:
                for title, name in LIMITS.items():
                    if line.startswith(title):
                        found[name] = line[len(title) :].split()[0]
    except OSError:
        return {}
    return found


def systemd_states(names: list[str], _control: str) -> dict[str, Any]:
    """As `systemctl show` tells; one call for all."""
    properties = "Id,LoadState,ActiveState,SubState,MainPID,UnitFileState,NeedDaemonReload,Result,NRestarts,DropInPaths"
    call = ["systemctl", "show", "--no-pager", "-p", properties, *names]
    output = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in output.split("\n\n")]
    return {name: systemd_state(block) for name, block in zip(names, blocks)}  # noqa: B905 - 3.10's


def systemd_state(block: dict[str, str]) -> dict[str, Any]:
    """One unit's properties in the words that both managers share."""
    active, unit_file = block.get("ActiveState", ""), block.get("UnitFileState", "")
    states = {"active": "running", "activating": "starting", "deactivating": "stopping", "failed": "failed"}
    loaded = block.get("LoadState", "")
    state = states.get(active, "stopped") if loaded != "not-found" or active == "active" else "absent"
    return {
        "state": "restarting" if block.get("SubState") == "auto-restart" else state,
        "pid": int(block.get("MainPID") or 0),
        "enabled": unit_file in ("enabled", "static"),
        "masked": loaded == "masked" or unit_file.startswith("masked"),
        "reload_due": block.get("NeedDaemonReload") == "yes",
        "detail": f"{active}/{block.get('SubState', '')} {block.get('Result', '')}".strip(),
        "restarts": int(block.get("NRestarts") or 0),
        "overridden": " ".join(p for p in block.get("DropInPaths", "").split() if f"/{block.get('Id')}.d/" in p),
    }


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, which is how supervisord is spoken to."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class UnixTransport(xmlrpc.client.Transport):
    """XML-RPC over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._connection: Any = (None, None)

    def make_connection(self, host: Any) -> Any:
        """Always the one socket, whatever the URL says; kept, so that it is closed with the proxy."""
        if self._connection[1] is None:
            self._connection = host, UnixConnection(self.path)
        return self._connection[1]


def supervisor_states(names: list[str], control: str) -> dict[str, Any]:
    """As supervisord tells; all absent when none runs there."""
    try:
        with xmlrpc.client.ServerProxy("http://localhost", transport=UnixTransport(control)) as proxy:
            rows: Any = proxy.supervisor.getAllProcessInfo()
    except (OSError, xmlrpc.client.Error, http.client.HTTPException):
        rows = []
    found = {row["name"]: supervisor_state(row) for row in rows}
    absent = {"state": "absent", "pid": 0, "enabled": False, "reload_due": False, "masked": False, "detail": "absent"}
    return {name: found.get(name, absent) for name in names}


def supervisor_state(row: Any) -> dict[str, Any]:
    """One program's row in the words that both managers share."""
    states = {
        "RUNNING": "running",
        "STARTING": "starting",
        "STOPPING": "stopping",
        "BACKOFF": "failed",
        "FATAL": "failed",
        "EXITED": "failed",
    }
    return {
        "state": states.get(row["statename"], "stopped"),
        "pid": row["pid"],
        "enabled": True,
        "reload_due": False,
        "masked": False,
        "detail": f"{row['statename']} {row['spawnerr']}".strip(),
    }


def process_environment(pid: int) -> dict[str, str]:
    """As the process was started with; empty when it may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def process_marks(pid: int) -> dict[str, str]:
    """What a live process says about itself in its environment; empty when it may not be read."""
    pairs = process_environment(pid)
    marks = {mark[len("SLIPWAY_") :].lower(): pairs[mark] for mark in MARKS if mark in pairs}
    unit = marks.pop("unit", marks.get("config"))
    if unit != marks.get("config"):  # started while its files were being written: neither the one nor the other
        marks["config"] = f"{marks.get('config', 'unknown')} in the unit of {unit}"
    return marks


def live_instances(deployment: str) -> dict[str, dict[str, str]]:
    """By name; a worker is many processes, of which one is enough."""
    found: dict[str, dict[str, str]] = {}
    for name in os.listdir("/proc") if deployment else ():
        marks = process_marks(int(name)) if name.isdigit() else {}
        if marks.get("deployment") == deployment and marks.get("instance"):
            found.setdefault(marks["instance"], marks)
    return found


def api_key(paths: Sequence[str]) -> str:
    """The API key that sealed files of this host hold, as templates/environment.j2 writes it; '' without one."""
    for path in paths:
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            found = API_KEY.search(file.read())
            if found:
                return re.sub(r"\\(.)", r"\1", found.group(1))
    return ""


def routers_of(request: dict[str, Any]) -> dict[str, Any]:
    """What each router says, by the URL that the plan names it by."""
    key = api_key(request.get("sealed", []))
    return {name: router_workers(url, key) for name, url in request.get("routers", {}).items()}


def router_workers(url: str, key: str = "") -> Any:
    """URL -> role, bootstrap port, and whether the router takes it for healthy."""
    parts = urlsplit(url)
    head = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with contextlib.closing(connection_to(parts.scheme, parts.hostname or "", parts.port)) as connection:
            connection.request("GET", "/workers", headers=head)
            rows = json.loads(connection.getresponse().read())["workers"]
        return {row["url"].rstrip("/"): router_worker(row) for row in rows}
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None


def connection_to(scheme: str, host: str, port: Any) -> http.client.HTTPConnection:
    """To our own router on this host, whose certificate need not be one that anybody knows."""
    if scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=5)
    return http.client.HTTPSConnection(host, port, timeout=5, context=ssl._create_unverified_context())  # noqa: S323


def router_worker(row: dict[str, Any]) -> dict[str, Any]:
    """What a rollout needs of one row of the list."""
    healthy, port = bool(row.get("is_healthy")), row.get("bootstrap_port")
    return {"role": row.get("worker_type", ""), "healthy": healthy, "bootstrap_port": port}


def port_owners(ports: list[int]) -> dict[str, Any]:
    """Who listens on each of `ports`; a port nobody listens on is left out."""
    inodes = listening_inodes(set(ports))
    owners = socket_pids(set(inodes.values())) if inodes else {}
    result = {}
    for port, inode in inodes.items():
        pid = owners.get(inode, 0)
        result[str(port)] = {"pid": pid, "command": command_of(pid), **lineage_marks(pid)}
    return result


def lineage_marks(pid: int) -> dict[str, str]:
    """Marks of a process, or of the nearest parent that has some: a process title can overwrite them."""
    while pid > 1:
        marks = process_marks(pid)
        if marks:
            return marks
        pid = parent_of(pid)
    return {}


def parent_of(pid: int) -> int:
    """The parent's pid; 0 when it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def listening_inodes(ports: set) -> dict[int, str]:  # type: ignore[type-arg]
    """Port -> inode of the socket that listens there."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        for row in rows:
            port = int(row[1].rpartition(":")[2], 16)
            if row[3] == "0A" and port in ports:
                found[port] = row[9]
    return found


def socket_pids(inodes: set) -> dict[str, int]:  # type: ignore[type-arg]
    """Inode -> the process that holds it, as far as we may look."""
    found: dict[str, int] = {}
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    found.setdefault(target[8:-1], int(pid))
        except OSError:
            continue
    return found


def command_of(pid: int) -> str:
    """The command line of a process, cut short; '' when it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:120]
    except OSError:
        return ""


def user_exists(name: str) -> bool:
    """Whether the system knows the user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def free_bytes(path: str) -> int:
    """Bytes free where `path` is, or will be."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free


def listing(path: str) -> list[str]:
    """Names in a folder, sorted; none when there is no such folder."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


if __name__ == "__main__":
    print(json.dumps(read_state(json.loads(sys.argv[1]))))
