"""Looks by itself whether a deployment still answers rightly, and leaves what it found as metrics; changes nothing.

usage: periodic FOLDER            once, as a timer does it
       periodic FOLDER SECONDS    for ever, where there is no timer

FOLDER/request.json, as the last deploy that was proven left it: deployment, subjects (of slipway/agent/verify), logs
(name and source of each instance on this host), patterns, timeout_s. FOLDER gets last.json and verify.prom (Prometheus
text, for node_exporter's textfile collector). Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from slipway.agent.files import write_whole
from slipway.agent.logs import read
from slipway.agent.state import read_json

REQUEST, LAST, METRICS = "request.json", "last.json", "verify.prom"
HELP = {
    "slipway_verify_ok": ("gauge", "Whether every rung of the last periodic verification held."),
    "slipway_verify_rung_ok": ("gauge", "Whether a rung held the last time; rungs after one that failed are missing."),
    "slipway_verify_rung_seconds": ("gauge", "How long a rung took the last time."),
    "slipway_verify_last_run_timestamp_seconds": ("gauge", "When the last periodic verification ended."),
    "slipway_verify_seconds": ("gauge", "How long the last periodic verification took."),
    "slipway_verify_runs_total": ("counter", "Periodic verifications since the first."),
    "slipway_verify_failures_total": ("counter", "Periodic verifications in which a rung did not hold."),
    "slipway_log_alarms_total": ("counter", "Known-bad lines in the log of an instance, by pattern."),
}


def once(folder: str) -> dict[str, Any]:
    """Look, and write down what was seen; the answer is what last.json holds."""
    began, before = time.time(), read_json(os.path.join(folder, LAST))
    request = read_json(os.path.join(folder, REQUEST))
    rows = asked(request) if request else [nothing("there is no request.json: deploy once more")]
    logs = {one["name"]: looked(one, request["patterns"], before) for one in request.get("logs", [])}
    rows += [row for name, found in logs.items() for row in log_rows(name, found)]
    ok = all(row["ok"] for row in rows)
    last = {
        "deployment": request.get("deployment", ""), "ok": ok, "rows": rows,
        "when": time.time(), "seconds": round(time.time() - began, 3),
        "runs": before.get("runs", 0) + 1, "failures": before.get("failures", 0) + (not ok),
        "cursors": {name: found["cursor"] for name, found in logs.items()},
        "alarms": counted(before.get("alarms", {}), logs),
    }  # fmt: skip
    write_whole(os.path.join(folder, LAST), json.dumps(last, indent=1) + "\n")
    write_whole(os.path.join(folder, METRICS), "".join(f"{line}\n" for line in metrics(last)))
    return last


def nothing(why: str) -> dict[str, Any]:
    """The row of a look that could not be made."""
    return {"rung": "periodic", "subject": "verify", "ok": False, "seconds": 0.0, "detail": why}


def asked(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the verify program, run as a process of its own so that its time has an end."""
    command = [sys.executable, "-m", "slipway.agent.verify"]
    environment = {**os.environ, "PYTHONPATH": sys.path[0] or os.getcwd()}
    try:
        done = subprocess.run(
            command, input=json.dumps({"subjects": request["subjects"]}), env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=request["timeout_s"], check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [nothing(f"not done within {request['timeout_s']} s")]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rows = [{key: row[key] for key in ("rung", "subject", "ok", "seconds", "detail")} for row in rows]
    return rows or [nothing(f"the ladder did not answer: {done.stdout.strip()[-200:]}")]


def looked(one: dict[str, Any], patterns: list[dict[str, Any]], before: dict[str, Any]) -> dict[str, Any]:
    """What is new in one log since the last time; the first time, nothing is."""
    cursor = before.get("cursors", {}).get(one["name"])
    found = read({"source": one["source"], "patterns": patterns, "cursor": cursor, "sealed": one.get("sealed", [])})
    return found if cursor else {**found, "matches": {}}


def log_rows(name: str, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rung `logs` of one instance: errors since the last look."""
    errors = {key: match for key, match in found["matches"].items() if match["severity"] == "error"}
    said = "; ".join(f"{key} ({match['count']}): {match['line'][:160]}" for key, match in errors.items())
    detail = found.get("error") or said or f"{found['new']} new line(s), none known-bad"
    yield {"rung": "logs", "subject": name, "ok": not errors and not found.get("error"), "detail": detail,
           "seconds": found["seconds"]}  # fmt: skip


def counted(before: dict[str, int], logs: dict[str, Any]) -> dict[str, int]:
    """Known-bad lines so far, by 'instance pattern severity'."""
    total = dict(before)
    for name, found in logs.items():
        for key, match in found["matches"].items():
            if match["kind"] == "alarm":
                label = f"{name} {key} {match['severity']}"
                total[label] = total.get(label, 0) + match["count"]
    return total


def metrics(last: dict[str, Any]) -> Iterator[str]:
    """The lines of Prometheus' text format."""
    here = {"deployment": last["deployment"]}
    yield from family("slipway_verify_ok", [(here, int(last["ok"]))])
    labels = [{**here, "subject": row["subject"], "rung": row["rung"]} for row in last["rows"]]
    yield from family("slipway_verify_rung_ok", zip(labels, (int(row["ok"]) for row in last["rows"])))  # noqa: B905
    yield from family("slipway_verify_rung_seconds", zip(labels, (row["seconds"] for row in last["rows"])))  # noqa: B905
    yield from family("slipway_verify_last_run_timestamp_seconds", [(here, round(last["when"], 3))])
    yield from family("slipway_verify_seconds", [(here, last["seconds"])])
    yield from family("slipway_verify_runs_total", [(here, last["runs"])])
    yield from family("slipway_verify_failures_total", [(here, last["failures"])])
    alarms = [(dict(zip(("instance", "pattern", "severity"), key.split())), count)  # noqa: B905 - 3.10's
              for key, count in sorted(last["alarms"].items())]  # fmt: skip
    yield from family("slipway_log_alarms_total", [({**here, **names}, count) for names, count in alarms])


def family(name: str, samples: Iterable[tuple[dict[str, str], Any]]) -> Iterator[str]:
    """One metric with its help and its samples."""
    kind, about = HELP[name]
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{inside}}} {value}"


def escaped(text: str) -> str:
    """A label's value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def main(arguments: list[str]) -> int:
    """0 also when a rung does not hold: the look was made, and what it found is told by the metrics."""
    folder, every = arguments[0], float(arguments[1]) if len(arguments) > 1 else 0.0
    while True:
        last = once(folder)
        bad = [f"{row['subject']} {row['rung']}: {row['detail']}" for row in last["rows"] if not row["ok"]]
        print("; ".join(bad) or f"all {len(last['rows'])} rungs hold, {last['seconds']:.1f} s", flush=True)
        if not every:
            return 0
        time.sleep(every)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
