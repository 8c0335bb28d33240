"""Looks at instances that come up: their service, port, /health and what is new in their logs; changes nothing.

usage: watch < REQUEST, JSON: instances (list) and patterns; answers one JSON line for each instance, in any order:
{"name", "state", "detail", "pid", "restarts", "config", "port_open", "health", "health_detail", "log"}.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from slipway.agent.logs import read
from slipway.agent.state import service_states

PORT_TIMEOUT_S = 5.0
OWN = r'"(?:GET|HEAD) /(?:health|health_generate|readiness|model_info)[ ?]'  # lines that looking makes


def look(instance: dict[str, Any], patterns: list[dict[str, Any]]) -> dict[str, Any]:
    """All that can be seen of one instance.

    instance: name, service {manager, name, control}, address, ports, url ('' when it does not serve), timeout_s,
    log (a request of slipway/agent/logs.py without patterns).
    """
    name = instance["service"]["name"]
    state = service_states({**instance["service"], "names": [name]})[name]
    opened = state["state"] == "running" and ports_open(instance["address"], instance["ports"].values())
    status, detail = health(instance["url"], instance["timeout_s"]) if opened and instance["url"] else (-1, "")
    return {
        "name": instance["name"],
        **{key: state.get(key) for key in ("state", "detail", "pid", "restarts")},
        "config": state.get("config", ""),
        "port_open": opened,
        "health": status,
        "health_detail": detail,
        "log": read({**instance["log"], "patterns": patterns, "without": OWN}),
    }


def ports_open(address: str, ports: Any) -> bool:
    """Whether every port accepts a connection."""
    try:
        for port in ports:
            socket.create_connection((address, port), timeout=PORT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def health(url: str, timeout_s: float) -> tuple[int, str]:
    """Status and start of the body of /health, which on a worker runs a generation of one token; 0 and why for none.

    A certificate is not checked: this is no client that trusts an answer.
    """
    parts = urlsplit(url)
    secure = {"context": ssl._create_unverified_context()} if parts.scheme == "https" else {}  # noqa: S323
    kind: Any = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s, **secure)
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        return response.status, response.read(200).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error) or type(error).__name__
    finally:
        connection.close()


def main() -> int:
    """Look at all of them at once: a /health that hangs must not hide the others."""
    request = json.load(sys.stdin)
    with ThreadPoolExecutor(max_workers=16) as pool:
        for found in pool.map(lambda one: look(one, request.get("patterns", [])), request["instances"]):
            print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
