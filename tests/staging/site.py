"""examples/staging as a user would deploy it, onto the hosts of a lab."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.staging.lab import Lab
from tests.staging.lab.commands import Done, run, until

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples/staging/inventory.py"
LOOK = Path(__file__).with_name("look.py")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
UNITS = {
    "prefill-0": ("h1", "slipway-staging-prefill-0.service"),
    "router-0": ("h1", "slipway-staging-router-0.service"),
    "decode-0": ("h2", "slipway-staging-decode-0.service"),
}
QUESTION, ANSWER = "What is 17*23? Answer with the number only.", "391"


@dataclass
class Ran:
    """One run of pyinfra or slipway. changes: what it found to change; None when it did not come that far."""

    rc: int
    out: str
    changes: list[dict[str, str]] | None

    @property
    def named(self) -> list[str]:
        """The changes in one word each."""
        return [f"{row['host']} {row['action']} {row['subject']}" for row in self.changes or []]


@dataclass
class Site:
    """The deployment of examples/staging on one lab."""

    lab: Lab
    wheelhouse: Path
    folder: Path
    data: dict[str, object] = field(default_factory=dict)
    inventory: Path = EXAMPLE
    healthy: bool = True
    first: Ran | None = None

    @property
    def overrides(self) -> list[str]:
        data = {"engine.wheelhouse": str(self.wheelhouse), **self.data}
        return [word for key, value in data.items() for word in ("--data", f"{key}={value}")]

    def command(self, program: str, *words: object) -> list[object]:
        return [sys.executable, "-m", {"pyinfra": "pyinfra", "slipway": "slipway.cli"}[program], *words]

    def environment(self, **more: str) -> dict[str, str]:
        return {**self.lab.environment, "SLIPWAY_CHANGES": str(self.folder / "changes.json"), **more}

    def pyinfra(
        self, *words: object, env: dict[str, str] | None = None, timeout: float = 300, cwd: Path = REPOSITORY,
        playbook: str = "deploy.py",
    ) -> Ran:  # fmt: skip
        """Run deploy.py with options; the record of changes is read back. cwd: the checkout that it is run from."""
        record = self.folder / "changes.json"
        record.unlink(missing_ok=True)
        command = self.command("pyinfra", "-y", *words, *self.overrides, self.inventory, playbook)
        done = self.lab.ctl(*command, check=False, env=self.environment(**(env or {})), cwd=cwd, timeout=timeout)
        changes = json.loads(record.read_text()) if record.exists() else None
        return Ran(done.returncode, COLOURS.sub("", done.stdout), changes)

    def deploy(self, *words: object, **options: object) -> Ran:
        return self.pyinfra(*words, **options)

    def playbook(self, name: str, *words: object, **options: object) -> Ran:
        return self.pyinfra(*words, **options, playbook=f"playbooks/{name}.py")

    def dry(self, *words: object, **options: object) -> Ran:
        return self.pyinfra("--dry", *words, **options)

    def start(self, *words: object) -> subprocess.Popen[str]:
        """A deploy that something happens to while it runs."""
        command = self.command("pyinfra", "-y", *words, *self.overrides, self.inventory, "deploy.py")
        return self.lab.start(*command, env=self.environment(), cwd=REPOSITORY)

    def impatient(self) -> Site:
        """The same inventory, that takes a connection for dead after seconds: for tests that cut a cable."""
        inventory = self.folder / "impatient.py"
        quick = (
            "_login |= {'ssh_paramiko_connect_kwargs': __import__('roles.transport').transport.connect_kwargs(1, 4)}\n"
        )
        inventory.write_text(self.inventory.read_text().replace("\nrouter = ", f"\n{quick}\nrouter = "))
        if not (self.folder / "group_vars").exists():
            (self.folder / "group_vars").symlink_to(EXAMPLE.parent / "group_vars")
        return replace(self, inventory=inventory)

    def drift(self, *words: object) -> Done:
        """`slipway drift`; stdout and stderr together."""
        command = self.command("slipway", "drift", *words, *self.overrides, self.inventory)
        return self.lab.ctl(*command, check=False, env=self.lab.environment, cwd=REPOSITORY, timeout=120)

    def ask(self, question: str = QUESTION, timeout: float = 20) -> str:
        """What a client gets from the router, or why it gets nothing."""
        body = json.dumps({"model": "tiny", "temperature": 0, "max_tokens": 32,
                           "messages": [{"role": "user", "content": question}]})  # fmt: skip
        with self.lab.inside():
            connection = http.client.HTTPConnection(self.lab["h1"].ip, 8000, timeout=timeout)
            try:
                connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                text = reply.read().decode()
                return json.loads(text)["choices"][0]["message"]["content"].strip() if reply.status == 200 else text
            except OSError as error:
                return f"no answer: {error}"
            finally:
                connection.close()

    def answers(self, within: float = 60) -> bool:
        """Whether the deployment answers rightly, at once or soon."""
        return until(lambda: self.ask() == ANSWER, within, pause=0.2)

    def pid(self, instance: str) -> int:
        host, unit = UNITS[instance]
        return int(self.lab[host].enter("systemctl", "show", "-p", "MainPID", "--value", unit).stdout)

    def pids(self) -> dict[str, int]:
        return {instance: self.pid(instance) for instance in UNITS}

    def sh(self, host: str, script: str, check: bool = True) -> str:
        """Run a script on a host as root, past sshd."""
        return self.lab[host].enter("sh", "-ec", script, check=check).stdout

    def look(self, host: str, *words: str) -> dict[str, object]:
        """Everything on the host's disk and its units."""
        return json.loads(self.lab[host].enter("python3", "-", *words, input=LOOK.read_text()).stdout)


def differences(before: dict, after: dict) -> list[str]:
    """Paths that were added, removed or changed between two looks."""
    one, other = before["disk"], after["disk"]
    changed = sorted(path for path in {*one, *other} if one.get(path) != other.get(path))
    return [f"{path}: {one.get(path)} -> {other.get(path)}" for path in changed]


def fill_wheelhouse(folder: Path, *overrides: str) -> Path:
    """What a user does on a machine with a network: `slipway wheelhouse`. Done once, as it is cached."""
    if not (folder / "manifest.json").exists():
        command = (sys.executable, "-m", "slipway.cli", "wheelhouse", "--into", folder, *overrides, EXAMPLE)
        run(*command, cwd=REPOSITORY)
    return folder


Make = Callable[..., Site]
