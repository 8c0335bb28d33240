"""What a status page shows of one host, beyond what its state tells. usage: status < REQUEST; prints one JSON line.

folder: the deployment's. workers: {name: url} of those that serve here.
Answers releases (about.json of the newest, the current one marked), audit (its newest lines), verify (the newest line
that tells of a verification), periodic (what periodic verification last found, and how long ago), lock (who is changing
the deployment, and since how many seconds nothing was heard of it), armed (what would be put back by itself) and rates
({name: {gen_throughput, running, queued}}, null where a worker does not tell). Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any
from urllib.request import ProxyHandler, build_opener

from slipway.agent import in_hand, lock, putback
from slipway.agent.bench_metrics import gauge, parse
from slipway.agent.state import read_json

VERIFIED = "verified.json"  # of roles/verify
NEWEST = 5  # lines of the audit
RELEASES = 10
TIMEOUT_S = 5.0
GAUGES = {"gen_throughput": "gen_throughput", "running": "num_running_reqs", "queued": "num_queue_reqs"}


def audit_lines(folder: str) -> list[dict[str, Any]]:
    """The audit, oldest line first; a line that a full disk cut short is left out."""
    found = []
    for name in ("audit.jsonl.1", "audit.jsonl"):
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                for line in file:
                    try:
                        found.append(json.loads(line))
                    except ValueError:
                        continue
        except OSError:
            continue
    return [line for line in found if isinstance(line, dict)]


def releases(folder: str) -> list[dict[str, Any]]:
    """What each release says of itself, oldest first. Folders that no run has finished are no releases."""
    try:
        numbers = sorted(int(name) for name in os.listdir(os.path.join(folder, "releases")) if name.isdigit())
        current = os.path.basename(os.readlink(os.path.join(folder, "current")))
    except OSError:
        return []
    return [
        {**read_json(os.path.join(folder, "releases", str(number), "about.json")), "release": number,
         "current": str(number) == current}
        for number in numbers[-RELEASES:]
    ]  # fmt: skip


def rates(url: str) -> dict[str, Any] | None:
    """A worker's gauges; None when it serves no metrics."""
    try:
        # No proxy: what is asked for is on the plan's own addresses.
        with build_opener(ProxyHandler({})).open(f"{url}/metrics", timeout=TIMEOUT_S) as reply:
            page = parse(reply.read().decode("utf-8", "replace"))
    except OSError:
        return None
    found = {name: gauge(page, metric) for name, metric in GAUGES.items()}
    if in_hand.counted(url) == 0:  # the engine leaves its gauges as they were under load
        found = {name: None if value is None else 0.0 for name, value in found.items()}
    return found if any(value is not None for value in found.values()) else None


def latest(kept: dict[str, Any], noted: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last verification: the results that a router's host keeps, else what the audit says; when and result."""
    if kept.get("when"):
        return {"when": kept["when"], "result": "ok" if kept.get("ok") else "failed"}
    return noted[-1] if noted else None


def periodic(path: str) -> dict[str, Any] | None:
    """What periodic verification last found; None where there is none."""
    last = read_json(path)
    if "when" not in last:
        return None
    bad = [f"{row['subject']} {row['rung']}: {row['detail']}" for row in last["rows"] if not row["ok"]]
    return {"ok": last["ok"], "age_s": round(time.time() - last["when"], 1), "bad": bad, "rungs": len(last["rows"])}


def status(request: dict[str, Any]) -> dict[str, Any]:
    """Everything that was asked for."""
    folder = request["folder"]
    lines = audit_lines(folder)
    verified = [line for line in lines if str(line.get("step", "")).startswith("verify")]
    held = lock.look(folder)
    return {
        "releases": releases(folder),
        "audit": lines[-NEWEST:],
        "verify": latest(read_json(os.path.join(folder, VERIFIED)), verified),
        "lock": held if held["state"] == "held" else None,
        "periodic": periodic(os.path.join(folder, "verify", "last.json")),
        "armed": putback.watched(folder),
        "rates": {name: rates(url) for name, url in request["workers"].items()},
    }


def main() -> int:
    """One request."""
    print(json.dumps(status(json.load(sys.stdin))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
