"""Lists every file of a folder with size and sha256 in manifest.json, and says later which one has changed.

usage: manifest write DIR | manifest check DIR   (--json: a machine-readable answer; exit 1 on any problem)
A damaged shard loads without a word and answers garbage, so a checkpoint is compared byte for byte before it is
served. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

NAME = "manifest.json"
SCHEMA = 1
DOWNLOAD_STATE = ".cache"  # the Hub's client keeps its own notes here; no engine reads them
BLOCK = 4 * 1024 * 1024
THREADS = min(64, len(os.sched_getaffinity(0)))  # hashlib lets go of the interpreter: one a core keeps them all busy
QUIET = 3.0  # seconds between two lines of progress; a short run prints none


class ManifestError(Exception):
    """The folder cannot be listed, or its manifest cannot be used at all."""


class Problem(NamedTuple):
    """One way in which a file is not what the manifest says."""

    path: str
    kind: str  # content, size, missing, extra, unreadable, unsafe or manifest
    expected: str
    found: str

    def __str__(self) -> str:
        """The sentence a user sees."""
        return f"{self.path}: expected {self.expected}, found {self.found}"


class Progress:
    """Says on stderr how far the hashing is, but only when it takes long enough to wonder."""

    def __init__(self, total: int) -> None:
        """Start at nothing of `total` bytes."""
        self.total, self.done = total, 0
        self.began = self.said = time.monotonic()
        self.lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count bytes, and speak up when it was quiet for long."""
        with self.lock:
            self.done += count
            now = time.monotonic()
            if now - self.said < QUIET:
                return
            self.said = now
            share, speed = 100 * self.done / max(self.total, 1), self.done / (now - self.began) / 1e9
            text = f"hashed {self.done / 1e9:.2f} of {self.total / 1e9:.2f} GB ({share:.0f}%, {speed:.2f} GB/s)"
            print(text, file=sys.stderr, flush=True)


def build(folder: str) -> dict[str, Any]:
    """Hash every file under `folder` but the manifest itself; rows are sorted by path."""
    root = _existing(folder)
    names = sorted(_names(root))
    digests = _hash_all(root, {name: _size(root / name) for name in names})
    rows = []
    for name in names:
        answer = digests[name]
        if isinstance(answer, OSError):
            raise ManifestError(f"{root / name}: {answer.strerror}; it must be readable to be listed") from answer
        rows.append({"path": name, "size": answer[0], "sha256": answer[1]})
    return {"schema": SCHEMA, "files": rows}


def write(folder: str) -> dict[str, Any]:
    """Build the manifest and put it into the folder, whole or not at all."""
    made = build(folder)
    path = Path(folder) / NAME
    fresh = path.with_name(f".{NAME}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return made


def check(folder: str) -> list[str]:
    """Every problem as a sentence with file, expected and found; an empty list means all is as recorded."""
    return [str(problem) for problem in problems(folder)]


def problems(folder: str) -> list[Problem]:
    """Compare the folder with its manifest; sizes first, so that only files of the right size are hashed."""
    root = _existing(folder)
    try:
        rows = _read(root)
    except ManifestError as error:
        return [Problem(NAME, "manifest", f"a manifest of schema {SCHEMA}", str(error))]
    bad = list(_unsafe(root, rows))
    refused = {problem.path for problem in bad}
    wanted = {row["path"]: row for row in rows if row["path"] not in refused}
    differing = list(_missing_or_resized(root, wanted))
    settled = {problem.path for problem in differing}
    same = {name: row["size"] for name, row in wanted.items() if name not in settled}
    changed = _changed(wanted, _hash_all(root, same))
    return sorted([*bad, *differing, *changed, *_extra(root, {row["path"] for row in rows})])


def _existing(folder: str) -> Path:
    """The folder as a path."""
    root = Path(folder)
    if not root.is_dir():
        raise ManifestError(f"{folder}: no such folder")
    return root


def _names(root: Path) -> Iterator[str]:
    """Files below `root`, as POSIX paths. Links to files count as files, since the Hub's cache is made of them."""
    for place, folders, files in os.walk(root):
        here = Path(place).relative_to(root)
        if here == Path():
            folders[:] = [name for name in folders if name != DOWNLOAD_STATE]
            files[:] = [name for name in files if name != NAME]
        for name in folders:
            if (root / here / name).is_symlink():  # os.walk passes it by, an engine would not
                raise ManifestError(f"{root / here / name} is a link to a folder; it must be a folder")
        for name in files:
            yield (here / name).as_posix()


def _size(path: Path) -> int:
    """Bytes of a file; a dangling link, or a pipe that would be read for ever, cannot be listed."""
    if not path.is_file():
        raise ManifestError(f"{path} is no regular file; move it out of the folder")
    return path.stat().st_size


def _hash_all(root: Path, sizes: dict[str, int]) -> dict[str, tuple[int, str] | OSError]:
    """Size and sha256 of each file, or what kept it from being read; large ones first, so none is left alone last."""
    progress = Progress(sum(sizes.values()))
    names = sorted(sizes, key=lambda name: -sizes[name])
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = {name: pool.submit(_hash, root / name, progress) for name in names}
    return {name: job.result() for name, job in jobs.items()}


def _hash(path: Path, progress: Progress) -> tuple[int, str] | OSError:
    """Size and sha256 of one file, both of the same bytes."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(BLOCK):
                digest.update(block)
                size += len(block)
                progress.add(len(block))
    except OSError as error:
        return error
    return size, digest.hexdigest()


def _read(root: Path) -> list[dict[str, Any]]:
    """The manifest's rows, each of the right shape."""
    try:
        made = json.loads((root / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError("no such file") from None
    except OSError as error:
        raise ManifestError(str(error.strerror)) from error
    except ValueError as error:
        raise ManifestError(f"no JSON: {error}") from error
    if not isinstance(made, dict) or made.get("schema") != SCHEMA or not isinstance(made.get("files"), list):
        found = made.get("schema") if isinstance(made, dict) else type(made).__name__
        raise ManifestError(f"schema {found!r}, or no list of files")
    for number, row in enumerate(made["files"]):
        if not _is_row(row):
            raise ManifestError(f"files[{number}] is {json.dumps(row)[:120]}, not a path, a size and a sha256")
    rows: list[dict[str, Any]] = made["files"]
    return rows


def _is_row(row: Any) -> bool:
    """Whether a row has a path, a size and a sha256 of the right types."""
    if not isinstance(row, dict):
        return False
    size, digest = row.get("size"), row.get("sha256")
    sized = isinstance(size, int) and not isinstance(size, bool)
    return isinstance(row.get("path"), str) and sized and isinstance(digest, str)


def _unsafe(root: Path, rows: list[dict[str, Any]]) -> Iterator[Problem]:
    """Rows that must not be followed: a manifest may come from outside, and must name files of this folder only."""
    seen: set[str] = set()
    for row in rows:
        name = row["path"]
        if name in seen:
            yield Problem(name, "manifest", "one row", "more than one")
        elif not _stays_inside(root, name):
            yield Problem(name, "unsafe", "a plain path inside the folder", "a path that may lead out of it")
        seen.add(name)


def _stays_inside(root: Path, name: str) -> bool:
    """Whether a name is relative, in its simplest spelling, without '..', and reached through no linked folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.as_posix() != name or not path.name:
        return False
    if "\0" in name or "\\" in name:
        return False
    return not any((root / parent).is_symlink() for parent in path.parents)  # the last is '.', the folder itself


def _missing_or_resized(root: Path, wanted: dict[str, dict[str, Any]]) -> Iterator[Problem]:
    """What a look at the sizes already tells."""
    for name, row in wanted.items():
        path, expected = root / name, f"{row['size']} bytes"
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            yield Problem(name, "missing", expected, "no such file")
        except OSError as error:
            yield Problem(name, "unreadable", expected, str(error.strerror))
        else:
            if not path.is_file():
                yield Problem(name, "missing", f"a file of {expected}", "something else of that name")
            elif found != row["size"]:
                yield Problem(name, "size", expected, f"{found} bytes")


def _changed(wanted: dict[str, dict[str, Any]], digests: dict[str, tuple[int, str] | OSError]) -> Iterator[Problem]:
    """Files of the right size with other bytes in them, or that cannot be read."""
    for name, answer in digests.items():
        expected = wanted[name]["sha256"]
        if isinstance(answer, OSError):
            yield Problem(name, "unreadable", f"sha256 {expected}", str(answer.strerror))
        elif answer[1] != expected:
            yield Problem(name, "content", f"sha256 {expected}", f"sha256 {answer[1]}")


def _extra(root: Path, listed: set[str]) -> Iterator[Problem]:
    """Files that the manifest does not name: an engine loads every shard it finds, so a stray one is no trifle."""
    try:
        for name in _names(root):
            if name not in listed:
                yield Problem(name, "extra", "no such file", "a file that the manifest does not name")
    except ManifestError as error:
        yield Problem(".", "extra", "files and folders only", str(error))


def main(arguments: list[str] | None = None) -> int:
    """Write or check; problems go to stdout, one a line, progress and errors to stderr."""
    parser = argparse.ArgumentParser(prog="manifest", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("action", choices=["write", "check"])
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    try:
        return _write(given) if given.action == "write" else _check(given)
    except (ManifestError, OSError) as error:
        print(json.dumps({"error": str(error)}) if given.json else f"error: {error}", file=sys.stderr)
        return 1


def _write(given: argparse.Namespace) -> int:
    made = write(given.folder)
    size = sum(row["size"] for row in made["files"])
    text = f"{Path(given.folder) / NAME}: {len(made['files'])} files, {size} bytes"
    print(json.dumps(made) if given.json else text)
    return 0


def _check(given: argparse.Namespace) -> int:
    found = problems(given.folder)
    if given.json:
        print(json.dumps({"folder": given.folder, "problems": [problem._asdict() for problem in found]}))
    else:
        print("\n".join(map(str, found)) or f"{given.folder}: every file is as {NAME} says")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
