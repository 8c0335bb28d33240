"""Fills a folder with every wheel that some builds need, for hosts without a network, and lists it in a manifest.

usage: wheelhouse FOLDER PYTHON REQUIREMENTS...   PYTHON: X.Y of the hosts. REQUIREMENTS: files as pip reads them.
Runs on the controller, with the pip of the Python that runs it; pip checks every hash that a file names.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

from slipway.agent import manifest
from slipway.agent.sources import source_flags, trusted


class WheelhouseError(Exception):
    """A sentence for the operator: what could not be had, and what to do."""


class Target(NamedTuple):
    """What the wheels are for. python: X.Y. machine, glibc: of the hosts, such as x86_64 and 2.36; '' for our own."""

    python: str
    machine: str = ""
    glibc: str = ""


def fill(folder: str, target: Target, requirements: list[str], sources: dict[str, Any]) -> int:
    """Download what each text of `requirements` names; how many files the folder now holds. Raises WheelhouseError.

    What is there already is kept: pip looks into the folder first, so a broken download goes on.
    """
    os.makedirs(folder, exist_ok=True)
    for text in requirements:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            download(folder, target, file.name, "--hash=" in text, sources)
    return len(manifest.write(folder)["files"])


def download(folder: str, target: Target, requirements: str, locked: bool, sources: dict[str, Any]) -> None:
    """One call of pip. A locked set names every package, so pip looks for nothing else and checks each hash."""
    flags = ["--no-deps", "--require-hashes", *trusted(sources)] if locked else []
    flags += platform_flags(target) + source_flags({**sources, "wheelhouse": None})
    own = ["--only-binary", ":all:", "--progress-bar", "off", "--find-links", folder, "--dest", folder]
    command = [sys.executable, "-m", "pip", "download", *own, *flags, "-r", requirements]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.startswith("ERROR")] or [done.stdout.strip()[-300:]]
        raise WheelhouseError(f"pip could not download everything: {'; '.join(lines[-3:])}")


def platform_flags(target: Target) -> list[str]:
    """For which Python and platform; nothing to say when it is our own."""
    own = Target(f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine(), platform.libc_ver()[1])
    machine, glibc = target.machine or own.machine, target.glibc or own.glibc
    if Target(target.python, machine, glibc) == own:
        return []
    minor = int(glibc.partition(".")[2] or 17)
    names = [f"manylinux_2_{number}" for number in range(minor, 4, -1)]
    places = [f"{name}_{machine}" for name in [*names, "manylinux2014", "manylinux2010", "manylinux1", "linux"]]
    python = ["--python-version", target.python, "--implementation", "cp"]
    return [*python, *(word for place in places for word in ("--platform", place))]


def main(arguments: list[str]) -> int:
    """Fill the folder; 1 and a sentence when something could not be had."""
    if len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder, python, *files = arguments
    texts = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            texts.append(file.read())
    try:
        print(f"{folder}: {fill(folder, Target(python), texts, {})} files")
    except (WheelhouseError, manifest.ManifestError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
