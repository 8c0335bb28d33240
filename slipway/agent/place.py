"""Puts an uploaded folder in its place: joins the parts, unpacks, checks every file, then renames.

usage: place REQUEST on standard input, JSON: parts (paths, in order), sha256 (of the joined archive), dest,
files ({name: [size, sha256]}). Standard library only, Python 3.9+. What stood at dest is kept beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator
from typing import Any

from slipway.agent.state import folder_problems


class PlaceError(Exception):
    """A sentence for the operator."""


class Joined:
    """The parts read as one file, hashed on the way."""

    def __init__(self, parts: list[str]) -> None:
        self.blocks = self._blocks(parts)
        self.digest = hashlib.sha256()
        self.rest = b""

    def _blocks(self, parts: list[str]) -> Iterator[bytes]:
        for part in parts:
            with open(part, "rb") as file:
                yield from iter(lambda: file.read(1 << 20), b"")

    def read(self, size: int) -> bytes:
        """As a file object's read, for tarfile."""
        while len(self.rest) < size:
            block = next(self.blocks, b"")
            if not block:
                break
            self.digest.update(block)
            self.rest += block
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def finish(self) -> str:
        """Read what tarfile left over; the hash of everything."""
        while self.read(1 << 20):
            pass
        return self.digest.hexdigest()


def place(request: dict[str, Any]) -> None:
    """Unpack beside, check, swap. Raises PlaceError and leaves what stood at dest as it was."""
    dest = request["dest"]
    beside = dest + ".new"
    shutil.rmtree(beside, ignore_errors=True)
    os.makedirs(beside, mode=0o755)
    unpack(request, beside)
    problems = folder_problems(beside, request["files"])["problems"]
    if problems:
        shutil.rmtree(beside, ignore_errors=True)
        raise PlaceError(f"what arrived is not what was sent: {'; '.join(problems[:5])}")
    if os.path.isdir(dest):
        os.rename(dest, f"{dest}.damaged-{int(time.time())}")
    os.rename(beside, dest)
    for part in request["parts"]:
        os.unlink(part)


def unpack(request: dict[str, Any], folder: str) -> None:
    """Regular files with plain names only."""
    joined = Joined(request["parts"])
    with tarfile.open(fileobj=joined, mode="r|") as archive:  # type: ignore[call-overload]
        for member in archive:
            if not member.isfile() or member.name not in request["files"] or unsafe(member.name):
                raise PlaceError(f"the archive holds {member.name!r}, which the plan does not name")
            write(archive.extractfile(member), os.path.join(folder, member.name))
    if joined.finish() != request["sha256"]:
        raise PlaceError("the upload is damaged: its hash differs; run the deploy again")


def unsafe(name: str) -> bool:
    """Whether a name would leave the folder."""
    return os.path.isabs(name) or ".." in name.split("/")


def write(source: Any, path: str) -> None:
    """One file, readable by the service user."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        shutil.copyfileobj(source, file)
    os.chmod(path, 0o644)


def main() -> int:
    """Place what standard input asks for."""
    try:
        place(json.load(sys.stdin))
    except (PlaceError, OSError, tarfile.TarError) as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
