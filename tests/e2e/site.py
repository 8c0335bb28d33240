"""A deployment on this machine for tests: its own name, ROOT and ports, deployed by pyinfra as a user would."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from slipway.agent.state import parent_of

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# Several checkouts can run these tests beside one another on one machine: each with ports and names of its own.
PORTS_MOVED = int(os.environ.get("SLIPWAY_TEST_PORTS_MOVED", "0"))
NAME_SUFFIX = os.environ.get("SLIPWAY_TEST_SUFFIX", "")


def port_here(number: int) -> int:
    """A port of this checkout's range; 21000 to 22999 are the tests' own."""
    return number + PORTS_MOVED


@dataclass
class Ran:
    """What one command did."""

    rc: int
    out: str

    @property
    def changes(self) -> int:
        """Changes that the run announced."""
        return int(re.search(r"Slipway: (\d+) change", self.out).group(1))


@dataclass
class Site:
    """One deployment. data: overrides of the default group_vars."""

    name: str
    root: Path
    first_port: int
    data: dict[str, object] = field(default_factory=dict)
    folder: Path = CHECKOUT
    inventory: Path | None = None

    def __post_init__(self) -> None:
        self.name += NAME_SUFFIX
        self.first_port = port_here(self.first_port)

    @property
    def ports(self) -> dict[str, int]:
        names = ("prefill.port", "prefill.bootstrap_port", "decode.port", "router.port", "router.metrics_port")
        return {name: self.first_port + 10 * index for index, name in enumerate(names)}

    def overrides(self, more: dict[str, object]) -> list[str]:
        data = {"deployment": self.name, "root": str(self.root), **self.ports, **self.data, **more}
        return [word for key, value in data.items() for word in ("--data", f"{key}={json.dumps(value)}")]

    def command(self, *words: str, **more: object) -> list[str]:
        inventory = str(self.inventory or self.folder / "inventory.py")
        return [str(BIN / "pyinfra"), *words[:1], *self.overrides(more), inventory, *words[1:]]

    def run(self, *words: str, timeout: float = 600, env: dict[str, str] | None = None, **more: object) -> Ran:
        return self.run_command(self.command(*words, **more), timeout, env)

    def run_command(self, command: list[str], timeout: float = 600, env: dict[str, str] | None = None) -> Ran:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        return Ran(done.returncode, done.stdout)

    def hit(self, at: str, env: dict[str, str] | None = None, **more: object) -> str:
        """Kill a deploy, and all that it runs here, at the first line with `at`; what it had said."""
        command, said = self.command("-y", "deploy.py", **more), ""
        with subprocess.Popen(
            command, cwd=self.folder, env=environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            for line in process.stdout or ():
                said += line
                if at in line:
                    os.killpg(process.pid, signal.SIGKILL)
                    return said
        raise AssertionError(f"it ended without {at!r}:\n{said}")

    def put_back(self, within_s: float = 120) -> list[str]:
        """How what this machine put back by itself, without a controller, ended."""
        audit, end = self.root / "deployments" / self.name / "audit.jsonl", time.monotonic() + within_s
        while time.monotonic() < end:
            rows = [json.loads(line) for line in audit.read_text().splitlines()]
            found = [row["result"] for row in rows if row["what"] == "put back" and row["result"] != "begun"]
            if found:
                return found
            time.sleep(0.5)
        return []

    def deploy(self, **more: object) -> Ran:
        return self.run("-y", "deploy.py", **{key.replace("__", "."): value for key, value in more.items()})

    def dry(self, **more: object) -> Ran:
        return self.run("--dry", "deploy.py", **{key.replace("__", "."): value for key, value in more.items()})

    def destroy(self) -> Ran:
        return self.run("-y", "playbooks/destroy.py")

    def ask(self, question: str, timeout: float = 30) -> tuple[int, dict]:
        """A question through the router, as curl would ask it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["router.port"], timeout=timeout)
        body = {
            "model": "tiny",
            "temperature": 0,
            "max_tokens": 128,
            "messages": [{"role": "user", "content": question}],
        }
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            text = response.read()
            connection.close()
            try:
                return response.status, json.loads(text)
            except ValueError:
                return response.status, {"text": text.decode(errors="replace")}

    def answer(self, question: str) -> str:
        status, reply = self.ask(question)
        assert status == 200, reply
        return reply["choices"][0]["message"]["content"]

    def pids(self) -> dict[str, int]:
        """Main process of each instance: the one with its marks whose parent has others."""
        marks = {int(name): marks_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}
        ours = {pid: mark for pid, mark in marks.items() if mark.get("SLIPWAY_DEPLOYMENT") == self.name}
        return {
            mark["SLIPWAY_INSTANCE"]: pid
            for pid, mark in ours.items()
            if "SLIPWAY_INSTANCE" in mark and ours.get(parent_of(pid)) != mark
        }


def environment(more: dict[str, str] | None) -> dict[str, str]:
    """Of a command as a user would run it from the checkout."""
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **(more or {})}


def marks_of(pid: int) -> dict[str, str]:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if entry.startswith("SLIPWAY_") and "=" in entry)
