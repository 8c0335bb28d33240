"""Reads an instance's log on its own host: bounded, since its start or from a cursor, whatever bytes it holds.

usage: logs < REQUEST, JSON: see `read`; answers one JSON object. Standard library only, Python 3.9+.
Only what is asked for leaves the host: the last lines, and one line of each pattern that matched. Secrets are masked.
"""

from __future__ import annotations

import calendar
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

MAX_BYTES = 8 * 1024 * 1024
MAX_LINES = 40_000
LONGEST = 600  # characters of a line that leave the host
PATIENCE_S = 20.0  # for journalctl
START = re.compile(r"^slipway: start of \S+ at (\d+)")  # templates/start.sh.j2 prints it
STAMPED = re.compile(r"^\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
UTC = re.compile(r"^[0-9: .TZ-]{19,30}\s+(?:TRACE|DEBUG|INFO|WARN|ERROR)\s")  # the router's; the engine's are local
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
GLOG = re.compile(r"^[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.")
TRACEBACK = "Traceback (most recent call last)"
SECRET = re.compile(
    r"(?i)((?:api[-_]?key|token|secret|password|passwd|authorization)[\"']?\s*[=:]\s*(?:bearer\s+)?)"
    r"(?!None\b|null\b)([\"']?)(?=[^\s,;\"')}]*[A-Za-z_-])[^\s,;\"')}]{6,}\2"
)
KNOWN_SECRET = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9-]{16,})")

Line = tuple[float, str]  # seconds since 1970, 0 when nothing says; text


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request.

    source: {"kind": "file", "path"} or {"kind": "journal", "unit"}. cursor: of an earlier answer, to read on from
    there. scope "start": only the newest start of the instance. within_s: nothing older than this. lines: how many
    of the last ones to answer. patterns: rows with id, kind, severity, pattern and block. without: a pattern of lines
    that are no news. sealed: environment files whose values are masked. max_bytes, max_lines: so much of the newest is
    read.
    Answers: lines, last (the last line that says something), new (how many lines there were), starts (how often the
    instance was started in them), up_s (seconds since it was started or said to be ready, None when neither is seen),
    matches {id: {count, kind, severity, line, age_s}} of the newest line of each, throughput {value, age_s}, cursor,
    skipped (bytes beyond the bound), error. age_s is None where nothing tells a line's time.
    """
    now, began = time.time(), time.monotonic()
    found, answer = lines_of(request)
    wanted = [one for one in found if recent(one, now, request)]
    conceal = masker(request.get("sealed", []))
    answer["starts"] = sum(1 for _, text in found if START.match(text))
    answer.update(judged(wanted, request.get("patterns", []), conceal, now))
    ages = [age(when, now) for when, text in found if START.match(text)]
    ready = answer["matches"].get("ready", {}).get("age_s")
    answer["up_s"] = min((one for one in [*ages, ready] if one is not None), default=None)
    without = re.compile(request["without"]) if request.get("without") else START
    texts = [text for _, text in wanted if text.strip() and not START.match(text) and not without.search(text)]
    answer["new"] = len(texts)
    answer["last"] = conceal(telling(texts))[:LONGEST]
    answer["lines"] = [conceal(text)[:LONGEST] for text in texts[len(texts) - request.get("lines", 0) :]]
    return {**answer, "seconds": round(time.monotonic() - began, 3)}


def recent(line: Line, now: float, request: dict[str, Any]) -> bool:
    """Whether a line is young enough; one whose time nothing tells is taken for young."""
    within = request.get("within_s")
    return within is None or not line[0] or line[0] >= now - within


def age(when: float, now: float) -> float | None:
    """Seconds since a line was written; None when nothing says when it was."""
    return round(max(0.0, now - when), 1) if when else None


def telling(texts: list[str]) -> str:
    """The last line that is not the tail of a warning: those are indented."""
    return next((text for text in reversed(texts) if not text.startswith((" ", "\t"))), "")


def plain(text: str) -> str:
    """Without colours and other control characters, which would change the terminal of who looks at it."""
    return CONTROL.sub("", COLOURS.sub("", text))


# ---- sources


def lines_of(request: dict[str, Any]) -> tuple[list[Line], dict[str, Any]]:
    """The lines that are asked for, oldest first, and cursor, skipped and error of the answer."""
    reader = from_journal if request["source"]["kind"] == "journal" else from_file
    bounds = (request.get("max_bytes", MAX_BYTES), request.get("max_lines", MAX_LINES))
    try:
        return reader(request["source"], request.get("cursor"), request.get("scope", ""), bounds)
    except OSError as error:
        return [], {"cursor": request.get("cursor"), "skipped": 0, "error": f"the log cannot be read: {error}"}


def from_file(source: dict[str, Any], cursor: Any, scope: str, bounds: tuple[int, int]) -> tuple[list[Line], Any]:
    """From a file that is rotated to PATH.1, PATH.2 and so on."""
    spans = spans_after(source["path"], cursor) if cursor else [(path, 0) for path in rotated(source["path"])]
    sizes = [max(0, os.path.getsize(path) - offset) for path, offset in spans]
    skipped, data = max(0, sum(sizes) - bounds[0]), b""
    left = skipped
    for (path, offset), size in zip(spans, sizes):  # noqa: B905 - 3.10's
        step = min(left, size)
        left -= step
        data += slice_of(path, offset + step, size - step)
    cut = data.rfind(b"\n") + 1  # a line that is being written is read the next time
    state = {"cursor": at(source["path"], len(data) - cut), "skipped": skipped}
    texts = plain(data[:cut].decode("utf-8", "replace")).splitlines()[-bounds[1] :]
    found = list(timed(texts[1:] if skipped else texts))
    return (since_start(found) if scope == "start" and not cursor else found), state


def rotated(path: str) -> list[str]:
    """The file and its older parts that exist, oldest first. FileNotFoundError when there is none."""
    parts = [path]
    while os.path.exists(f"{path}.{len(parts)}"):
        parts.append(f"{path}.{len(parts)}")
    os.stat(path)
    return parts[::-1]


def spans_after(path: str, cursor: dict[str, int]) -> list[tuple[str, int]]:
    """Files with the offset to read on from; all of a file that is another than the cursor's."""
    parts = rotated(path)
    for index, part in enumerate(parts):
        if os.stat(part).st_ino == cursor["inode"]:
            offset = cursor["offset"] if cursor["offset"] <= os.path.getsize(part) else 0
            return [(part, offset), *((later, 0) for later in parts[index + 1 :])]
    return [(part, 0) for part in parts]


def slice_of(path: str, offset: int, size: int) -> bytes:
    """Bytes of a file."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def at(path: str, unread: int) -> dict[str, int]:
    """The cursor at the end of what was read."""
    info = os.stat(path)
    return {"inode": info.st_ino, "offset": info.st_size - unread}


def timed(texts: Iterable[str]) -> Iterator[Line]:
    """Lines with their time: their own stamp, else that of the line before."""
    when, year = 0.0, time.localtime().tm_year
    for text in texts:
        when = stamp_of(text, year) or when
        yield when, text


def stamp_of(text: str, year: int) -> float:
    """When a line was written, by its own words; 0 when it does not say."""
    start = START.match(text)
    if start:
        return float(start[1])
    full = STAMPED.match(text)
    short = None if full else GLOG.match(text)
    numbers = [int(part) for part in full.groups()] if full else []
    numbers = [year, *(int(part) for part in short.groups())] if short else numbers
    if not numbers:
        return 0.0
    try:
        if full and UTC.match(text):
            return float(calendar.timegm((*numbers, 0, 0, 0)))
        return time.mktime((numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0


def since_start(lines: list[Line]) -> list[Line]:
    """From the last start on; all of them where no start is seen."""
    marks = [index for index, (_, text) in enumerate(lines) if START.match(text)]
    return lines[marks[-1] :] if marks else lines


def from_journal(source: dict[str, Any], cursor: Any, scope: str, bounds: tuple[int, int]) -> tuple[list[Line], Any]:
    """From the journal: what the unit's processes print, and what the manager says of it."""
    unit = source["unit"]
    which = ["-u", unit]
    if scope == "start" and not cursor:
        identity = output_of(["systemctl", "show", "-p", "InvocationID", "--value", unit]).strip()
        which = [f"_SYSTEMD_INVOCATION_ID={identity}", "+", f"INVOCATION_ID={identity}"] if identity else which
    after = [f"--after-cursor={cursor}"] if cursor else []
    fields = "--output-fields=MESSAGE"
    command = ["journalctl", "--no-pager", "-q", "--all", "-o", "json", fields, "-n", str(bounds[1]), *after, *which]
    found: deque[Line] = deque()
    state = {"cursor": cursor, "skipped": 0}
    size = 0
    for entry in journal_entries(command):
        state["cursor"] = entry.get("__CURSOR", state["cursor"])
        text = plain(message_of(entry))
        found.append((int(entry.get("__REALTIME_TIMESTAMP", 0)) / 1e6, text))
        size += len(text)
        while size > bounds[0]:
            dropped = found.popleft()
            size -= len(dropped[1])
            state["skipped"] += len(dropped[1])
    return list(found), state


def journal_entries(command: list[str]) -> Iterator[dict[str, Any]]:
    """Entries as journalctl prints them. OSError when it says that it cannot, or takes too long."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        timer = threading.Timer(PATIENCE_S, process.kill)
        timer.start()
        try:
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                yield json.loads(line)
            said = process.stderr.read().decode("utf-8", "replace").strip()
        finally:
            timer.cancel()
    if process.returncode:
        raise OSError(said.splitlines()[-1] if said else f"journalctl ended with {process.returncode}")


def message_of(entry: dict[str, Any]) -> str:
    """Text of an entry; the journal gives bytes that are not UTF-8 as a list of numbers."""
    message = entry.get("MESSAGE") or ""
    if isinstance(message, list) and message and isinstance(message[0], int):
        return bytes(message).decode("utf-8", "replace")
    return str(message[-1] if isinstance(message, list) else message)


def output_of(command: list[str]) -> str:
    """What a command prints; '' when it cannot be run."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


# ---- what the lines mean


def judged(lines: list[Line], patterns: list[dict[str, Any]], conceal: Any, now: float) -> dict[str, Any]:
    """What matched: the newest line of each pattern and how often, and the newest throughput."""
    found: dict[str, Any] = {"matches": {}, "throughput": None}
    for (when, text), row, match in matched(lines, patterns):
        if row["kind"] == "throughput":
            found["throughput"] = {"value": float(match.group(1)), "age_s": age(when, now)}
        elif row["kind"] in ("alarm", "progress"):
            before = found["matches"].get(row["id"], {"count": 0, "kind": row["kind"], "severity": row["severity"]})
            shown = {"line": conceal(text).strip()[:LONGEST], "age_s": age(when, now)}
            found["matches"][row["id"]] = {**before, **shown, "count": before["count"] + 1}
    return found


def matched(lines: list[Line], patterns: list[dict[str, Any]]) -> Iterator[tuple[Line, dict[str, Any], Any]]:
    """Each line with the row that it matches. The lines of a block are its indented ones and its exception."""
    compiled = [(re.compile(row["pattern"]), row) for row in patterns]
    frequent = [pair for pair in compiled if pair[1]["kind"] in ("routine", "throughput")]
    others = [pair for pair in compiled if pair not in frequent]
    block = ""
    for line in lines:
        text = line[1]
        first = next(((one.match(text), row) for one, row in frequent if one.match(text)), None)
        if block and not first:
            if text.startswith((" ", "\t")):
                continue
            traceback, block = TRACEBACK in block, ""
            if traceback and text.strip() and not STAMPED.match(text) and not GLOG.match(text):
                continue  # the exception, which ends a traceback
        match, row = first or next(((found, row) for one, row in others if (found := one.search(text))), (None, None))
        if row is not None:
            block = text if row.get("block") else ""
            yield line, row, match


def masker(sealed: list[str]) -> Any:
    """Masks what looks like a secret, and every value of the sealed files of this host."""
    values = sorted({value for path in sealed for value in values_of(path)}, key=len, reverse=True)

    def conceal(text: str) -> str:
        for value in values:
            text = text.replace(value, "***")
        return KNOWN_SECRET.sub("***", SECRET.sub(r"\1***", text))

    return conceal


def values_of(path: str) -> Iterator[str]:
    """Values of an environment file that are long enough to be secret; none where it may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, equals, value = line.strip().partition("=")
                value = value.strip("\"'")
                if equals and not name.startswith(("#", "SLIPWAY_")) and len(value) >= 6:
                    yield value
    except OSError:
        return


def main() -> int:
    """Answer the request on standard input."""
    print(json.dumps(read(json.load(sys.stdin))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
