"""What the host itself says of an instance: its process, its ports, its limits and its environment."""

from __future__ import annotations

import re
import socket
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from slipway.agent.state import limits_of, service_states
from slipway.agent.verify.client import get
from slipway.agent.verify.reasons import RungError

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
PROXIES = ("http_proxy", "all_proxy")  # what plain HTTP between workers goes by


def process_runs(subject: dict[str, Any]) -> str:
    """The service manager says it runs, and it runs what the plan says."""
    service = service_states({**subject["service"], "names": [subject["service"]["name"]]})
    state = service[subject["service"]["name"]]
    if state["state"] != "running":
        raise RungError(f"the process is {state['state']} ({state.get('detail', '')})")
    if state.get("config") not in (None, subject["config"]):
        found = f"it runs configuration {state['config']}; the plan's is {subject['config']}"
        raise RungError(f"{found}: deploy, or verify with the settings that it was deployed with")
    subject["pid"] = state["pid"]
    if subject.get("expected_pid") not in (None, state["pid"]):
        raise RungError(f"it was restarted meanwhile: pid {state['pid']}, was {subject['expected_pid']}")
    return f"pid {state['pid']}"


def ports_open(subject: dict[str, Any]) -> str:
    """Every port of the plan accepts a connection."""
    for use, port in sorted(subject["ports"].items()):
        try:
            socket.create_connection((subject["address"], port), timeout=5).close()
        except OSError as error:
            raise RungError(f"port {port} ({use}) on {subject['address']}: {error}") from error
    return ", ".join(f"{use} {port}" for use, port in sorted(subject["ports"].items()))


def health_ok(subject: dict[str, Any]) -> str:
    """GET /health is 200; on a worker that runs a one-token generation."""
    reply = get(subject, "/health")
    if reply.status != 200:
        raise RungError(f"/health answers {reply.status}: {reply.text[:200]}")
    return "/health 200"


def limits_granted(subject: dict[str, Any]) -> str:
    """Locked memory and open files of the live process: asking for a limit is not getting it."""
    have = limits_of(subject["pid"])
    short = [
        f"{name} {have[name]}, asked {asked}"
        for name, asked in sorted(subject["limits"].items())
        if asked and name in have and not enough(asked, have[name])
    ]
    if short:
        text = "; ".join(short)
        raise RungError(f"the kernel did not grant {text}: RDMA and pinned memory, or many connections, fail beyond")
    return ", ".join(f"{name} {value}" for name, value in sorted(have.items())) or "limits cannot be read"


def enough(asked: str, have: str) -> bool:
    """Whether a limit, as /proc shows it, is as large as was asked for."""
    return have == "unlimited" or (asked.isdigit() and have.isdigit() and int(have) >= int(asked))


def environment_right(subject: dict[str, Any]) -> str:
    """The live process has the plan's environment, and none that would send its peers' requests elsewhere."""
    live = live_environment(subject["pid"])
    if not live:
        return "the environment may not be read by this user"
    differing = [difference(name, live.get(name), value) for name, value in sorted(subject["env"].items())]
    wrong = [text for text in differing if text]
    wrong += [f"{name}: not set; the plan has a secret there" for name in subject["secrets"] if not live.get(name)]
    wrong += proxied(subject, live)
    if wrong:
        raise RungError(f"{len(wrong)} of its environment: {'; '.join(wrong[:6])}")
    devices = live.get("CUDA_VISIBLE_DEVICES")
    return f"{len(subject['env'])} variables" + (f", CUDA_VISIBLE_DEVICES={devices}" if devices is not None else "")


def live_environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty when it may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def difference(name: str, have: str | None, wish: str) -> str:
    """How one variable differs, '' when it does not. What may be a secret is not shown."""
    if have == wish:
        return ""
    if SECRET_NAME.search(name):
        return f"{name} differs from the plan's"
    return f"{name} is {have!r}; the plan's is {wish!r}" if have is not None else f"{name} is not set"


def proxied(subject: dict[str, Any], live: dict[str, str]) -> list[str]:
    """Peers that the process would ask through a proxy: engines and routers follow these variables silently."""
    lower = {name.lower(): value for name, value in live.items() if value}
    proxy = next((lower[name] for name in PROXIES if name in lower), "")
    hosts = {urlsplit(url).hostname or "" for url in subject["peers"]}
    lost = sorted(host for host in hosts if proxy and not bypassed(host, lower.get("no_proxy", "")))
    if not lost:
        return []
    return [f"a proxy is set and NO_PROXY does not name {', '.join(lost)}: what it asks there goes to the proxy"]


def bypassed(host: str, names: str) -> bool:
    """Whether NO_PROXY covers a host."""
    return bool(proxy_bypass_environment(host, {"no": names}))
