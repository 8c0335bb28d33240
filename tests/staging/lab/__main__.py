"""python -m tests.staging.lab COMMAND: the staging hosts by hand.

prepare            install what is missing (as root), build the base: `make test` does it first
up [NAME=IP ...]   start a lab that stays (h1 and h2 by default)
ctl COMMAND...     run a command where the controller is, with STAGEHOST_DIR set
down               remove it
sweep              remove what killed test runs left (up and the tests do it too)
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.staging.lab import Lab, places, sweep
from tests.staging.lab.needs import prepare

PREFIX = "stgcli"
HOSTS = {"h1": "10.77.0.11", "h2": "10.77.0.12"}


def _prepare() -> int:
    """Only in CI is it an error when the hosts cannot run: elsewhere the tests skip, and say so."""
    if not (why := prepare()):
        return 0
    print(f"staging: tests on real hosts will not run: {why}", file=sys.stderr)
    return int(os.environ.get("CI") == "true")


def _saved() -> Path:
    return places.runs() / PREFIX / "hosts.json"


def _up(words: list[str]) -> int:
    hosts = dict(word.split("=", 1) for word in words) or HOSTS
    lab = Lab(hosts, prefix=PREFIX, tied=False).up()
    _saved().write_text(json.dumps(hosts))
    print(f"ssh: python -m tests.staging.lab ctl ssh -F {lab.ssh_config} {next(iter(hosts))}")
    return 0


def _running() -> Lab:
    if not _saved().exists():
        raise SystemExit("no lab is up: python -m tests.staging.lab up")
    return Lab(json.loads(_saved().read_text()), prefix=PREFIX, tied=False)


def _ctl(words: list[str]) -> int:
    lab = _running()
    command = lab.switch.command(*words)
    os.execvpe(command[0], command, lab.environment)


def _down() -> int:
    lab = _running()
    lab.down()
    left = lab.leftovers()
    print("\n".join(["left:", *left] if left else ["nothing left"]))
    return int(bool(left))


def _sweep() -> int:
    sweep()
    return 0


def main(arguments: list[str]) -> int:
    """Dispatch; without a known command, explain."""
    command, *words = arguments or ["help"]
    known: dict[str, Callable[[], int]] = {
        "prepare": _prepare,
        "up": lambda: _up(words),
        "ctl": lambda: _ctl(words),
        "down": _down,
        "sweep": _sweep,
    }
    if command in known:
        return known[command]()
    print(__doc__)
    return int(command != "help") * 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
