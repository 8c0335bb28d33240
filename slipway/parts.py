"""Splits a folder into content-addressed parts of an archive, so that an upload can be resumed."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slipway.plan.model import Files

PART_BYTES = 16 * 1024 * 1024  # small enough to redo after a broken connection, large enough to be few


@dataclass(frozen=True)
class Part:
    """One part: its name is the SHA-256 of its bytes."""

    name: str
    data: bytes


class _Sink(io.RawIOBase):
    """Takes what tarfile writes and hands out full parts."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.digest.update(data)
        self.buffer += data
        return len(data)

    def take(self, size: int) -> Iterator[Part]:
        while len(self.buffer) >= size > 0:
            data = bytes(self.buffer[:size])
            del self.buffer[:size]
            yield Part(hashlib.sha256(data).hexdigest(), data)


def archive_parts(files: Files, digest: list[str], size: int = PART_BYTES) -> Iterator[Part]:
    """The folder's files as parts of one tar archive; equal files give equal parts.

    digest: an empty list, to which the archive's SHA-256 is appended at the end. size: bytes a part.
    """
    sink = _Sink()
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files.entries):
            _add(archive, Path(files.source) / name, name)
            yield from sink.take(size)
    yield from sink.take(size)
    if sink.buffer:
        yield from sink.take(len(sink.buffer))
    digest.append(sink.digest.hexdigest())


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.size = path.stat().st_size
    info.mode = 0o644
    with path.open("rb") as file:
        archive.addfile(info, file)
