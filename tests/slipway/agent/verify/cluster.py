"""Simulated workers behind the real router, and the verification agent climbing them as it does on hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.verify.rungs import rungs_at
from tests.slipway.agent.simulator.harness import ROOT, Simulator, ask, free_port, make_model

SMG = os.environ.get("SLIPWAY_TEST_SMG", "")
QUICK = ["--worker-startup-check-interval", "1", "--health-check-interval-secs", "1", "--health-failure-threshold", "2"]
ONCE = ["--disable-retries", "--disable-circuit-breaker"]
KNOWN = [
    {"question": "What is 17*23? Answer with the number only.", "expect": "391"},
    {"question": "What is the capital of France?", "expect": "The capital of France is Paris."},
]
# Smaller than in the configuration, so that dozens of clusters are climbed in a minute.
SIZES = {"max_tokens": 32, "burst": 40, "mixed": 8, "repeats": 2, "long_tokens": 700, "context_tokens": 100_000,
         "pairs": 16, "first_token_s": None, "token_ms": None}  # fmt: skip
WARM_UP_S = 2  # how long an open port may answer 503
GATES = ("reference", "accuracy")  # need something that the user gives
WITHOUT_SERVICE = ("process", "limits", "environment")


ALL = {"samples": "warn"}  # a rung that is left out by itself


@dataclass
class Cluster:
    """A prefill and a decode, or one unified worker, and a router where it is asked for."""

    model: Path
    logs: Path
    processes: list[Any] = field(default_factory=list)
    workers: list[dict[str, Any]] = field(default_factory=list)
    router_port: int = 0
    bootstrap: int = 0
    address: str = "127.0.0.1"

    def worker(self, role: str, faults: str = "", *flags: str, **env: str) -> Simulator:
        """Start one; `wait` follows when all are started."""
        mode = () if role == "unified" else ("--disaggregation-mode", role)
        port = free_port() if role == "prefill" else None
        own = ("--disaggregation-bootstrap-port", str(port)) if port else ()
        env = {"SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT": "30", "SGLANG_HOST_IP": self.address, **env}
        flags = ("--host", self.address, *mode, *own, "--enable-metrics", *flags)
        simulator = Simulator(self.model, self.logs / f"{role}-{len(self.workers)}.log", faults, flags, env)
        self.processes.append(simulator.process)
        count = sum(one["role"] == role for one in self.workers)
        url = f"http://{self.address}:{simulator.port}"
        self.workers.append({"name": f"{role}-{count}", "role": role, "url": url, "bootstrap_port": port})
        return simulator

    def replaced(self, first: Simulator) -> None:
        """A new prefill on the ports of one that ended."""
        worker = next(one for one in self.workers if one["url"].endswith(f":{first.port}"))
        flags = ("--host", self.address, "--disaggregation-mode", "prefill", "--enable-metrics", "--port",
                 str(first.port), "--disaggregation-bootstrap-port", str(worker["bootstrap_port"]))  # fmt: skip
        successor = Simulator(self.model, self.logs / "replaced.log", "", flags, {"SGLANG_HOST_IP": self.address})
        self.processes.append(successor.process)

    def router(self, *flags: str) -> None:
        """Start the real router in front of all workers."""
        self.router_port, metrics = free_port(), free_port()
        of = {role: [one for one in self.workers if one["role"] == role] for role in ("prefill", "decode", "unified")}
        wired = ["--pd-disaggregation"] if of["prefill"] else ["--worker-urls", *(one["url"] for one in of["unified"])]
        for one in of["prefill"]:
            wired += ["--prefill", one["url"], str(one["bootstrap_port"])]
        for one in of["decode"]:
            wired += ["--decode", one["url"]]
        listen = ["--host", "127.0.0.1", "--port", str(self.router_port), "--policy", "round_robin"]
        listen += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics)]
        with (self.logs / "router.log").open("wb") as sink:
            command = [SMG, "launch", *wired, *listen, *QUICK, *ONCE, *flags]
            self.processes.append(subprocess.Popen(command, stdout=sink, stderr=sink))

    def wait(self, patience: float = 40) -> Cluster:
        """Until every worker says that it is well, or has said otherwise for a while."""
        end = time.monotonic() + patience
        for worker in self.workers:
            port, opened = int(worker["url"].rpartition(":")[2]), end
            while time.monotonic() < min(end, opened + WARM_UP_S):
                with suppress(OSError):
                    if ask(port, "/health", timeout=1, at=self.address).status == 200:
                        break
                    opened = min(opened, time.monotonic())
                time.sleep(0.02)
        return self

    def wait_router(self, patience: float = 40) -> Cluster:
        """Until the router has every worker; it takes them in one by one, and lists none before."""
        self.wait(patience)
        end, wanted, found = time.monotonic() + patience, {one["url"] for one in self.workers}, set[str]()
        while not wanted <= found and time.monotonic() < end:
            with suppress(OSError, ValueError, KeyError):
                found = {row["url"].rstrip("/") for row in ask(self.router_port, "/workers").json["workers"]}
            time.sleep(0.05)
        assert wanted <= found, f"the router has {found}"
        return self

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def router_subject(self, **more: Any) -> dict[str, Any]:
        expected = {role: [one["url"] for one in self.workers if one["role"] == role]
                    for role in ("prefill", "decode", "unified")}  # fmt: skip
        rungs = [row.name for row in rungs_at("router", ALL) if row.name not in GATES]
        subject = {
            "name": "router-0", "url": f"http://127.0.0.1:{self.router_port}", "timeout_s": 10, "settle_s": 8,
            "model": "tiny", "expected_workers": expected, "workers": self.workers, "known_answers": KNOWN,
            "rungs": rungs, "limits_s": {"samples": 4}, **SIZES,
        }  # fmt: skip
        return {**subject, **more}

    def alone_subject(self, **more: Any) -> dict[str, Any]:
        """A unified worker asked as a router would be."""
        rungs = [row.name for row in rungs_at("router", ALL) if row.name not in ("readiness", "workers", *GATES)]
        return {**self.router_subject(), "name": "unified-0", "url": self.workers[0]["url"], "rungs": rungs, **more}

    def worker_subject(self, worker: dict[str, Any], **more: Any) -> dict[str, Any]:
        port = int(worker["url"].rpartition(":")[2])
        settings = {"served_model_name": "tiny", "port": port, "tp_size": 1, "enable_metrics": True}
        names = [row.name for row in rungs_at("worker", {}) if row.name not in WITHOUT_SERVICE]
        return {"name": worker["name"], "url": worker["url"], "address": self.address, "ports": {"http": port},
                "timeout_s": 5, "model": "tiny", "settings": settings, "release": "0.5.13", "rungs": names,
                **more}  # fmt: skip

    def decode_subject(self, worker: dict[str, Any], **more: Any) -> dict[str, Any]:
        prefills = [
            {"name": one["name"], "bootstrap": f"http://{self.address}:{one['bootstrap_port']}",
             "advertised": self.address}
            for one in self.workers if one["role"] == "prefill"
        ]  # fmt: skip
        return {"name": worker["name"], "url": worker["url"], "address": self.address, "prefills": prefills,
                "timeout_s": 5, "settle_s": 1, "rungs": ["bootstrap"], **more}  # fmt: skip

    def subjects(self, **more: Any) -> list[dict[str, Any]]:
        """All of them in the order of a deploy."""
        found = [self.worker_subject(one) for one in self.workers]
        found += [self.decode_subject(one) for one in self.workers if one["role"] == "decode"]
        return [*found, self.router_subject(**more)] if self.router_port else found


def climbed(subjects: list[dict[str, Any]], timeout: float = 120) -> list[dict[str, Any]]:
    """The rows that the agent prints; like a deploy, what goes through the router is asked when all else holds."""
    router = [one for one in subjects if one["name"] == "router-0"]
    others = [one for one in subjects if one not in router]
    rows = agent({"subjects": others}, timeout) if others else []
    return rows + agent({"subjects": router}, timeout) if router and all(row["ok"] for row in rows) else rows


def agent(request: dict[str, Any], timeout: float = 120) -> list[dict[str, Any]]:
    """One run of the agent, as a process with no site packages: it must not need them."""
    command = [sys.executable, "-S", "-m", "slipway.agent.verify"]
    done = subprocess.run(command, input=json.dumps(request), cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    assert not done.stderr, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode == 0) == all(row["ok"] for row in rows)
    return rows


def failed(rows: list[dict[str, Any]]) -> tuple[str, str, str]:
    """(rung, subject, detail) of the one that does not hold, a mere warning included."""
    bad = [row for row in rows if not row["ok"] or row.get("warning")]
    return (bad[0]["rung"], bad[0]["subject"], bad[0]["detail"]) if bad else ("", "", "")


__all__ = ["Cluster", "agent", "climbed", "failed", "make_model"]
