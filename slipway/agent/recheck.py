"""Whether a fetched checkpoint is still what was fetched: by size, time and inode in a moment, or by every byte.

usage: recheck look DIR             one JSON line: what differs from the record made when the files were proven
       recheck full DIR             the same by hash, in parallel; bad files are moved to `quarantine` beside DIR
       recheck seal DIR             the checkpoint was inspected: it is complete from now on
       recheck headers DIR          the small files and the headers of the weights, for the controller to inspect
       recheck windows DIR          samples of weights, [{file, offset, length}] on standard input

The record lies in DIR/.cache/slipway, which no engine reads: by file, size, time of change, inode, the hash as the Hub
lists it, sha256. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slipway.agent.files import write_whole
from slipway.agent.state import look, notes_path, read_note, stamp

SMALL = 64 * 1024 * 1024  # bytes of a file that is read whole
LONGEST = 100_000_000  # bytes of a safetensors header, by the format
THREADS = min(64, len(os.sched_getaffinity(0)))  # hashlib lets go of the interpreter: one a core keeps them all busy
BLOCK = 512 * 1024  # stays in a core's cache between being read and being hashed


def write_note(folder: str, name: str, content: dict[str, Any]) -> None:
    """Whole or not at all, and on the disk before it counts."""
    write_whole(notes_path(folder, name), json.dumps(content))


def hashed(path: str, as_git: bool) -> tuple[int, str, str]:
    """Bytes, sha256 and, where the Hub lists no sha256, the git blob id of a file."""
    size, buffer = os.path.getsize(path), bytearray(BLOCK)
    view, digest = memoryview(buffer), hashlib.sha256()
    blob = hashlib.sha1(b"blob %d\0" % size) if as_git else None  # noqa: S324 - git's, beside the sha256
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(view):
            digest.update(view[:count])
            if blob:
                blob.update(view[:count])
    return size, digest.hexdigest(), blob.hexdigest() if blob else ""


def proven(path: str, size: int, listed: str) -> tuple[str, str]:
    """(what is wrong, sha256): '' when the file is what the Hub lists, 'sha256:HEX' or 'git:HEX'."""
    kind, _, wanted = listed.partition(":")
    found, sha256, blob = hashed(path, kind == "git")
    if found != size:
        return f"{found} bytes; must be {size}", sha256
    have = sha256 if kind == "sha256" else blob
    return ("" if have == wanted else f"{kind} {have}; must be {wanted}"), sha256


def full(folder: str) -> dict[str, Any]:
    """Hash every recorded file; bad ones go to quarantine, and the checkpoint counts as partial then."""
    rows = read_note(folder, "record.json").get("files", {})
    with ThreadPoolExecutor(THREADS) as pool:
        names = sorted(rows, key=lambda name: -rows[name][0])
        answers = dict(zip(names, pool.map(lambda name: whether(folder, name, rows[name]), names)))  # noqa: B905
    bad = {name: text for name, text in sorted(answers.items()) if text}
    for name in bad:
        set_aside(folder, name)
    if bad:
        forget(folder, bad)
    else:
        restamp(folder, rows)
    return {**look(folder), "problems": [f"{name}: {text}" for name, text in bad.items()]}


def whether(folder: str, name: str, row: list[Any]) -> str:
    """What is wrong with the bytes of a file; '' when nothing is."""
    try:
        return proven(os.path.join(folder, name), row[0], row[3])[0]
    except OSError as error:
        return str(error.strerror)


def restamp(folder: str, rows: dict[str, list[Any]]) -> None:
    """Bytes that were just proven are the record from now on, whatever their times say: a copy has new ones."""
    fresh = {name: [*stamp(os.path.join(folder, name)), *row[3:]] for name, row in rows.items()}
    if fresh != rows:
        write_note(folder, "record.json", {**read_note(folder, "record.json"), "files": fresh})


def set_aside(folder: str, name: str) -> str:
    """Move a bad file to `quarantine` beside the checkpoint, never deleting it; where it lies now, '' if nowhere."""
    path = os.path.join(folder, name)
    if not os.path.lexists(path):
        return ""
    place = os.path.join(os.path.dirname(folder.rstrip("/")), "quarantine", os.path.basename(folder.rstrip("/")))
    kept = os.path.join(place, f"{name}.{time.time_ns()}")
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    os.replace(path, kept)
    return kept


def forget(folder: str, names: Iterable[str]) -> None:
    """The checkpoint is no longer complete, and these files are to come again."""
    if os.path.exists(notes_path(folder, "complete")):
        os.unlink(notes_path(folder, "complete"))
    record = read_note(folder, "record.json")
    gone = set(names)
    record["files"] = {name: row for name, row in record.get("files", {}).items() if name not in gone}
    write_note(folder, "record.json", record)


def seal(folder: str) -> dict[str, Any]:
    """Complete: fetched, proven and inspected. The marker is the last thing that is written."""
    record = read_note(folder, "record.json")
    if not os.path.isfile(os.path.join(folder, "manifest.json")) or not record.get("files"):
        raise OSError(f"{folder} has no manifest.json or no record; it was not fetched to its end")
    for name in record["files"]:
        to_disk(os.path.join(folder, name))
    write_note(folder, "record.json", {**record, "boot": ""})
    write_note(folder, "complete", {"commit": record.get("commit", ""), "when": int(time.time())})
    return look(folder)


def to_disk(path: str) -> None:
    """Until the bytes would survive a power cut; a file system may keep its size and lose them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def headers(folder: str) -> dict[str, Any]:
    """Sizes of all files, the small ones whole and the weights' headers, packed: a controller inspects them."""
    names = sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    weights = [name for name in names if name.endswith(".safetensors")]
    wanted = {name for name in names if name.endswith((".json", ".jinja")) and name != "manifest.json"}
    return {
        "sizes": {name: os.path.getsize(os.path.join(folder, name)) for name in names},
        "files": {name: packed(part(folder, name, 0, SMALL)) for name in sorted(wanted)},
        "headers": {name: packed(header(folder, name)) for name in weights},
    }


def header(folder: str, name: str) -> bytes:
    """A safetensors file's length and header; the length alone when it cannot be right."""
    first = part(folder, name, 0, 8)
    length = int.from_bytes(first, "little")
    return first + (part(folder, name, 8, length) if 0 < length <= LONGEST else b"")


def windows(folder: str, wanted: list[dict[str, Any]]) -> list[str]:
    """The bytes of each window, packed."""
    return [packed(part(folder, row["file"], row["offset"], row["length"])) for row in wanted]


def part(folder: str, name: str, offset: int, length: int) -> bytes:
    """Bytes of a file; fewer when it ends early."""
    with open(os.path.join(folder, name), "rb") as file:
        file.seek(offset)
        return file.read(length)


def packed(data: bytes) -> str:
    """Bytes as a text that is short for headers, which repeat themselves."""
    return base64.b64encode(zlib.compress(data, 1)).decode()


def main(arguments: list[str]) -> int:
    """Answer in one JSON line; 1 when something differs."""
    action, folder = arguments
    calls = {"look": look, "full": full, "seal": seal, "headers": headers}
    try:
        answer: Any = windows(folder, json.load(sys.stdin)) if action == "windows" else calls[action](folder)
    except (OSError, ValueError) as error:
        print(f"error: {error}")
        return 1
    print(json.dumps(answer))
    return 1 if isinstance(answer, dict) and answer.get("problems") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
