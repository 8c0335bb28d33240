"""A file that grows: its bytes are written, hashed and counted as they come, so that they need not be read again."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from slipway.agent.fetch_http import TransferError
from slipway.agent.fetch_pace import Pace
from slipway.agent.state import notes_path

BLOCK = 1024 * 1024


def part_path(folder: str, name: str) -> str:
    """Where the bytes of a file gather; one folder deep, whatever its name."""
    return notes_path(folder, os.path.join("parts", name.replace("/", "%2F")))


class DiskError(TransferError):
    """The disk takes no more; no other source helps."""


class Sink:
    """The part of one file, from whose end a transfer goes on; what huggingface_hub takes for its temporary file.

    listed: the hash as the Hub lists it, 'sha256:HEX' or 'git:HEX'. Opening one hashes what an earlier run left.
    """

    def __init__(self, path: str, size: int, listed: str, pace: Pace) -> None:
        self.path, self.size, self.listed, self.pace, self.come = path, size, listed, pace, 0
        self.file = open(path, "r+b" if os.path.exists(path) else "w+b", buffering=0)  # noqa: SIM115 - closed by leave
        self._begin()
        self._catch_up()

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def _begin(self) -> None:
        self.come, self.sha256 = 0, hashlib.sha256()
        as_git = self.listed.startswith("git:")
        self.blob = hashlib.sha1(b"blob %d\0" % self.size) if as_git else None  # noqa: S324 - git's, beside the sha256

    def _catch_up(self) -> None:
        """Hash what is there; more than the file has is of no use."""
        if os.fstat(self.file.fileno()).st_size > self.size:
            self.file.truncate(0)
        while data := self.file.read(BLOCK):
            self._hash(data)

    def _hash(self, data: bytes | memoryview) -> None:
        self.sha256.update(data)
        if self.blob:
            self.blob.update(data)
        self.come += len(data)

    @property
    def piece(self) -> int:
        """Bytes that are best given to `write` at once."""
        return self.pace.piece

    def write(self, data: bytes | memoryview) -> int:
        """Write, hash and count. Raises DiskError when the disk takes no more."""
        view = memoryview(data)
        try:
            while view:
                view = view[self.file.write(view) :]
        except OSError as error:
            self.file.truncate(self.come)
            text = f"{self.path} cannot be written: {error.strerror}; all that came is kept for the next run"
            raise DiskError(text) from error
        self._hash(data)
        self.pace.add(len(data))
        return len(data)

    def tell(self) -> int:
        """Where the next byte goes."""
        return self.come

    def seek(self, offset: int) -> int:
        """Only to the start, where everything comes again."""
        if offset:
            raise TransferError(f"{self.path}: a transfer cannot go on at byte {offset}")
        self.pace.lost(self.come)
        self._begin()
        return int(self.file.seek(0))

    def truncate(self) -> int:
        """Drop what lies behind."""
        return int(self.file.truncate(self.come))

    @property
    def whole(self) -> bool:
        """Whether as many bytes came as there should be."""
        return self.come >= self.size

    @property
    def wrong(self) -> str:
        """What is wrong with the bytes; '' when they are those that the Hub lists."""
        if self.come != self.size:
            return f"{self.come} bytes; must be {self.size}"
        kind, _, wanted = self.listed.partition(":")
        have = self.blob.hexdigest() if self.blob else self.sha256.hexdigest()
        return "" if have == wanted else f"{kind} {have}; must be {wanted}"
