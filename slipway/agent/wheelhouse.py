"""Fills a folder with every wheel that some builds need, for hosts without a network, and lists it in a manifest.

usage: wheelhouse FOLDER PYTHON REQUIREMENTS...   PYTHON: X.Y of the hosts. REQUIREMENTS: files as pip reads them.
Runs on the controller, with the pip of the Python that runs it; pip checks every hash that a file names.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from slipway.agent import manifest


class WheelhouseError(Exception):
    """A sentence for the operator: what could not be had, and what to do."""


def fill(folder: str, python: str, requirements: list[str]) -> int:
    """Download what each text of `requirements` names; how many files the folder now holds. Raises WheelhouseError.

    What is there already is kept: pip looks into the folder first, so a broken download goes on.
    """
    os.makedirs(folder, exist_ok=True)
    for text in requirements:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            download(folder, python, file.name, locked="--hash=" in text)
    return len(manifest.write(folder)["files"])


def download(folder: str, python: str, requirements: str, locked: bool) -> None:
    """One call of pip. A locked set names every package, so pip looks for nothing else and checks each hash."""
    flags = ["--no-deps", "--require-hashes"] if locked else []
    command = [sys.executable, "-m", "pip", "download", "--progress-bar", "off", "--only-binary", ":all:",
               *target(python), "--find-links", folder, "--dest", folder, *flags, "-r", requirements]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.startswith("ERROR")] or [done.stdout.strip()[-300:]]
        raise WheelhouseError(f"pip could not download everything: {'; '.join(lines[-3:])}")


def target(python: str) -> list[str]:
    """For which Python; nothing to say when it is our own."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [] if python == own else ["--python-version", python, "--implementation", "cp"]


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
        print(f"{folder}: {fill(folder, python, texts)} files")
    except (WheelhouseError, manifest.ManifestError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
