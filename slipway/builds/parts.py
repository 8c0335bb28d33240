"""Cuts a folder into parts of a chosen size for the way to where no network is, and puts it together by hash."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slipway.parts import archive_parts
from slipway.plan.model import Files

LIST = "parts.json"


class PartsError(Exception):
    """A sentence for the operator: which part is missing or differs."""


def split(files: Files, into: Path, size: int) -> int:
    """Write the parts, each at most `size` bytes, and the list of them; how many there are."""
    into.mkdir(parents=True, exist_ok=True)
    digest: list[str] = []
    rows = []
    for number, part in enumerate(archive_parts(files, digest, size)):
        name = f"{number:04}.part"
        (into / name).write_bytes(part.data)
        rows.append({"path": name, "size": len(part.data), "sha256": part.name})
    listed = {"files": {name: list(entry) for name, entry in files.entries.items()}, "parts": rows}
    (into / LIST).write_text(json.dumps({**listed, "sha256": digest[0]}, indent=1) + "\n", encoding="utf-8")
    return len(rows)


def join(parts: Path, into: Path) -> int:
    """The folder again, every part and then every file checked by hash; how many files. Raises PartsError."""
    listed = _listed(parts)
    wrong = [text for row in listed["parts"] for text in _wrong(parts, row)]
    if wrong:
        raise PartsError(f"{'; '.join(wrong[:5])}: carry these parts again")
    into.mkdir(parents=True, exist_ok=True)
    with _Chain(parts, listed["parts"]) as chain, tarfile.open(fileobj=chain, mode="r|") as archive:
        for member in archive:
            _unpack(archive, member, into, listed["files"])
    missing = sorted(name for name in listed["files"] if not (into / name).is_file())
    if missing:
        raise PartsError(f"the parts do not hold {', '.join(missing[:5])}, which {LIST} names: make them anew")
    return len(listed["files"])


def _listed(parts: Path) -> dict[str, Any]:
    try:
        listed: dict[str, Any] = json.loads((parts / LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PartsError(f"{parts / LIST} cannot be read ({type(error).__name__}): carry it again") from None
    return listed


def _wrong(parts: Path, row: Mapping[str, Any]) -> Iterator[str]:
    path = parts / row["path"]
    if not path.is_file():
        yield f"{row['path']} is missing"
    elif path.stat().st_size != row["size"]:
        yield f"{row['path']} has {path.stat().st_size} bytes, must be {row['size']}"
    elif _sha256(path) != row["sha256"]:
        yield f"{row['path']} has another hash than {LIST} says"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, into: Path, listed: Mapping[str, Any]) -> None:
    """One file, if it is listed and as listed; names lead nowhere else, as only listed ones are written."""
    source = archive.extractfile(member) if member.name in listed and "/" not in member.name else None
    new = into / f"{member.name}.new"
    if source:
        with new.open("wb") as file:
            shutil.copyfileobj(source, file)
    if source is None or _sha256(new) != listed[member.name][1]:
        new.unlink(missing_ok=True)
        raise PartsError(f"{member.name} in the parts is not as {LIST} says: make them anew")
    new.replace(into / member.name)


class _Chain(io.RawIOBase):
    """The parts read as one file."""

    def __init__(self, parts: Path, rows: list[dict[str, Any]]) -> None:
        self.files = iter([parts / row["path"] for row in rows])
        self.current: io.BufferedReader | None = None

    def close(self) -> None:
        if self.current is not None:
            self.current.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self.current is None:
                path = next(self.files, None)
                if path is None:
                    return 0
                self.current = path.open("rb")
            data = self.current.read(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            self.current.close()
            self.current = None
