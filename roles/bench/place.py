"""Where the client runs: a host of the plan, or the controller. Both answer to the same few questions."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from pyinfra.api.host import Host

from roles.remote import BROKEN, RemoteError, agent_command, ask_agent, broken, check, ensure_agent, privileges, upload
from slipway.front import project_root
from slipway.plan.model import HostPlan


class Place(Protocol):
    """Runs agent programs and keeps files. folder: of a label. name: as messages say it."""

    name: str
    jobs: str

    def folder(self, label: str) -> str:
        """Where the label's files lie."""

    def ask(self, *words: str) -> Any:
        """The JSON that an agent program answers on its last line. Raises RemoteError."""

    def command(self, *words: str) -> list[str]:
        """The command line of an agent program there."""

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """Put a file. Raises RemoteError."""

    def read(self, path: str) -> bytes:
        """A file's bytes. Raises RemoteError."""


class OnHost:
    """A host of the plan."""

    def __init__(self, host: Host, plan: HostPlan, deployment: str) -> None:
        self.name, self._host, self._plan = host.name, host, plan
        self.jobs = f"{plan.paths['jobs']}/bench-{deployment}"
        self._home = f"{plan.paths['deployment']}/bench"
        ensure_agent(host, plan)

    def folder(self, label: str) -> str:
        """ROOT/deployments/NAME/bench/LABEL."""
        return f"{self._home}/{label}"

    def command(self, *words: str) -> list[str]:
        """By the agent bundle."""
        return agent_command(self._plan, words[0], *words[1:])

    def ask(self, *words: str) -> Any:
        """Over the connection."""
        output = ask_agent(self._host, self._plan, words[0], *words[1:])
        return _answer(words, output.stdout if output.ok else [], output.said)

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """Readable by all, or for its owner alone from the first byte on."""
        check(self._host, ["mkdir", "-p", path.rpartition("/")[0]])
        check(self._host, ["install", "-m", mode, "/dev/null", path])
        if mode != "644":  # not by way of another file
            check(self._host, ["sh", "-c", 'cat > "$1"', "sh", path], stdin=text)
        else:
            upload(self._host, text.encode(), path)

    def read(self, path: str) -> bytes:
        """By the connection's own file transfer."""
        sink = io.BytesIO()
        try:
            done = self._host.get_file(path, sink, **privileges(self._host))
        except BROKEN as error:
            raise RemoteError(broken(self._host, error)) from None
        if not done:
            raise RemoteError(f"{path} on {self.name} could not be fetched")
        return sink.getvalue()


class OnController:
    """This machine. results: the folder that labels are kept in, which is where they are measured as well."""

    def __init__(self, results: Path, deployment: str) -> None:
        self.name, self._results = "controller", results
        self.jobs = str(results / f".job-{deployment}")

    def folder(self, label: str) -> str:
        """bench/LABEL beside the inventory."""
        return str(self._results / label)

    def command(self, *words: str) -> list[str]:
        """From the checkout."""
        return [sys.executable, "-m", f"slipway.agent.{words[0]}", *words[1:]]

    def ask(self, *words: str) -> Any:
        """A process of its own."""
        done = subprocess.run(self.command(*words), cwd=project_root(), capture_output=True, text=True, check=False)
        said = (done.stderr or done.stdout).strip().splitlines()
        return _answer(words, done.stdout.splitlines() if not done.returncode else [], said[-1] if said else "nothing")

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """Readable by all, or for its owner alone from the first byte on."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch(mode=int(mode, 8))
        target.write_text(text, encoding="utf-8")

    def read(self, path: str) -> bytes:
        """From the disk."""
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise RemoteError(f"{path} cannot be read: {error.strerror}") from None


def _answer(words: tuple[str, ...], lines: list[str], said: str) -> Any:
    try:
        return json.loads(lines[-1])
    except (ValueError, IndexError):
        raise RemoteError(f"{' '.join(words[:2])} did not answer: {said}") from None
