"""The same command lines as a deployed release's, started without Slipway, and both measured in turns.

python -m hardware.by_hand PLAN.json RESULT.json: the release's plan (deployments/NAME/current/plan.json). Each worker
and the router is started a second time, by subprocess alone, on ports further up and beside the deployed ones, on the
same GPUs. Then the built-in client measures the two in turns, first one then the other, so that whatever changes on the
machine meanwhile falls on both. The ratio is deployed over by hand.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PORTS_UP = 1500
START_BUDGET_S = 240
STREAMS = (1, 8, 16)
ROUNDS = 8
PROMPTS = 16  # a stream and cell: cells of two to four seconds on two H200
INPUT, OUTPUT = 512, 128  # tokens, as in the hand run that set the yardstick


class ByHandError(Exception):
    """Why there is no comparison."""


def moved(word: str, ports: set[str]) -> str:
    """A word of a command line with every port of the plan moved up."""
    return re.sub(r"(?<![\d.])\d{4,5}(?![\d.])", lambda m: str(int(m[0]) + PORTS_UP) if m[0] in ports else m[0], word)


def ports_of(instances: list[dict[str, Any]]) -> set[str]:
    """Every port that the plan names, as text."""
    return {str(port) for one in instances for use in ("ports", "reserved") for port in one[use].values()}


def start(instance: dict[str, Any], ports: set[str], folder: Path) -> subprocess.Popen[bytes]:
    """One process with the release's command line and environment, in a session of its own."""
    tmp = folder / instance["name"]
    tmp.mkdir()
    env = {**os.environ, **instance["env"], "TMPDIR": str(tmp)}
    env = {key: value for key, value in env.items() if not key.startswith("SLIPWAY_")}
    log = (folder / f"{instance['name']}.log").open("wb")
    command = [moved(word, ports) for word in instance["argv"]]
    return subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def answers(url: str, path: str) -> bool:
    """Whether a GET of it is 200."""
    host, port = url.removeprefix("http://").split(":")
    try:
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def wait(instances: list[dict[str, Any]], ports: set[str], running: dict[str, subprocess.Popen[bytes]]) -> None:
    """Until all are ready. Raises ByHandError when one dies or is late."""
    end = time.monotonic() + START_BUDGET_S
    for one in instances:
        path = "/readiness" if one["role"] == "router" else "/health"
        while not answers(moved(one["serves_at"], ports), path):
            if running[one["name"]].poll() is not None:
                raise ByHandError(f"{one['name']} ended with {running[one['name']].returncode}")
            if time.monotonic() > end:
                raise ByHandError(f"{one['name']} is not ready after {START_BUDGET_S} s")
            time.sleep(0.5)


def measure(url: str, model: str, streams: int, seed: str) -> dict[str, Any]:
    """One cell by the built-in client."""
    words = ["--url", url, "--model", model, "--streams", str(streams), "--prompts", str(PROMPTS * streams)]
    words += ["--input", str(INPUT), "--output", str(OUTPUT), "--warmups", str(streams), "--seed", seed]
    done = subprocess.run([sys.executable, "-m", "slipway.agent.load", *words], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise ByHandError(f"the client ended with {done.returncode} on {url}")
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def compare(deployed: str, by_hand: str, model: str, result: Path) -> None:
    """Every cell in turns, ROUNDS times; who goes first changes from round to round. Each row is kept at once."""
    rows: list[dict[str, Any]] = []
    for streams in STREAMS:
        found: dict[str, list[float]] = {deployed: [], by_hand: []}
        for round_ in range(ROUNDS):
            pair = [deployed, by_hand] if round_ % 2 == 0 else [by_hand, deployed]
            for url in pair:
                found[url].append(measure(url, model, streams, f"{streams}/{round_}")["output_throughput"])
        ratios = [one / other for one, other in zip(found[deployed], found[by_hand], strict=True)]
        rows.append({"streams": streams, "deployed": found[deployed], "by_hand": found[by_hand],
                     "ratio": statistics.median(ratios)})  # fmt: skip
        result.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def stop(running: dict[str, subprocess.Popen[bytes]]) -> None:
    """End what was started here, by its process groups."""
    for process in running.values():
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
    for process in running.values():
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main(plan_file: str, result: str) -> int:
    """Start, compare, stop; 1 and a sentence when there is no comparison."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    instances, running = plan["instances"], {}
    ports = ports_of(instances)
    model = next(host["checkpoint"]["served_name"] for host in plan["hosts"] if host["checkpoint"])
    router = next(one for one in instances if one["role"] == "router")
    with tempfile.TemporaryDirectory(prefix="by-hand-") as folder:
        try:
            for one in instances:
                running[one["name"]] = start(one, ports, Path(folder))
            wait(instances, ports, running)
            compare(router["serves_at"], moved(router["serves_at"], ports), model, Path(result))
        except ByHandError as error:
            print(f"no comparison: {error}", file=sys.stderr)
            for log in sorted(Path(folder).glob("*.log")):
                print(f"{log.name}:", *log.read_text(errors="replace").splitlines()[-15:], sep="\n  ", file=sys.stderr)
            return 1
        finally:
            stop(running)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
