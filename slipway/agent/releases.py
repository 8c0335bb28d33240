"""Keeps the releases of a deployment on a host. usage: releases < REQUEST, JSON; prints one JSON line.

folder: .../releases. action:
list -> {"releases": [about, ...], "current": N or null}
read, number -> {"about", "plan" (text), "files": rows with their text}
write, number, texts {name: text} -> the folder N.new, whole or not at all; what an earlier run left there goes
finish, number, about, texts, current (bool) -> N.new becomes N, for good; `current` points at it if that is asked,
  and its about says which release was current before
point, number (or null) -> `current` points at a release that is there, or at none

A release is N once it is finished; a run that dies leaves N.new, which is no release and which the next overwrites.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
from typing import Any

UNFINISHED = ".new"


class ReleaseError(Exception):
    """What could not be done, and what is there instead."""


def listed(request: dict[str, Any]) -> dict[str, Any]:
    """Every finished release, oldest first."""
    folder = request["folder"]
    return {"releases": [about(folder, number) for number in numbers(folder)], "current": current(folder)}


def numbers(folder: str) -> list[int]:
    """Of the finished releases."""
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return []


def about(folder: str, number: int) -> dict[str, Any]:
    """What is written about a release; one without a record is told as such."""
    try:
        with open(os.path.join(folder, str(number), "about.json"), encoding="utf-8") as file:
            return {**json.load(file), "release": number}
    except (OSError, ValueError, TypeError):
        return {"release": number, "state": "damaged"}


def link_of(folder: str) -> str:
    """`current`, beside the folder of releases."""
    return os.path.join(os.path.dirname(folder.rstrip("/")), "current")


def current(folder: str) -> Any:
    """The number that `current` points at; None when it is no such link."""
    try:
        name = os.path.basename(os.readlink(link_of(folder)))
    except OSError:
        return None
    return int(name) if name.isdigit() else None


def read(request: dict[str, Any]) -> dict[str, Any]:
    """A finished release with the text of everything in it."""
    folder, number = request["folder"], request["number"]
    if number not in numbers(folder):
        have = ", ".join(map(str, numbers(folder))) or "none"
        raise ReleaseError(f"there is no release {number}; there are: {have}")
    place = os.path.join(folder, str(number))
    try:
        rows = json.loads(text_of(os.path.join(place, "files.json")))
        for row in rows["files"]:
            row["text"] = "" if row["sealed"] else text_of(os.path.join(place, "files", row["name"]))
        answers = text_of(os.path.join(place, "known_answers.json"))
        plan = text_of(os.path.join(place, "plan.json"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseError(f"release {number} is not whole ({type(error).__name__}: {error})") from None
    return {"about": about(folder, number), "plan": plan, "known_answers": answers, **rows}


def text_of(path: str) -> str:
    """A file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(request: dict[str, Any]) -> dict[str, Any]:
    """The unfinished release; on an error nothing of it stays."""
    place = os.path.join(request["folder"], f"{request['number']}{UNFINISHED}")
    clear(request["folder"])
    try:
        put(place, request["texts"])
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        raise ReleaseError(f"release {request['number']} could not be written: {reason(error, place)}") from None
    return {"written": place}


def clear(folder: str) -> None:
    """Remove what dead runs left unfinished."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.endswith(UNFINISHED):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def put(place: str, texts: dict[str, str]) -> None:
    """Files below a folder, on the disk when this returns."""
    for name, text in texts.items():
        path = os.path.join(place, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = 0o600 if name.startswith("evidence/") else 0o644  # logs are for who may read the journal
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def reason(error: OSError, path: str) -> str:
    """The system's word, with the way out where the disk is full."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    way = "; free some space and run again" if full else ""
    return f"{error.strerror or error} ({error.filename or path}){way}"


def finish(request: dict[str, Any]) -> dict[str, Any]:
    """Give the unfinished release its number."""
    folder, number = request["folder"], request["number"]
    place, final = os.path.join(folder, f"{number}{UNFINISHED}"), os.path.join(folder, str(number))
    told = {**request["about"], "before": current(folder)} if request.get("current") else request["about"]
    try:
        put(place, {"about.json": json.dumps(told, sort_keys=True) + "\n", **request.get("texts", {})})
        os.rename(place, final)
    except OSError as error:
        raise ReleaseError(f"release {number} could not be finished: {reason(error, place)}") from None
    if request.get("current"):
        point(request)
    return {"written": final}


def point(request: dict[str, Any]) -> dict[str, Any]:
    """Move `current`, in one step."""
    folder, number = request["folder"], request["number"]
    link = link_of(folder)
    if os.path.isdir(link) and not os.path.islink(link):
        shutil.move(link, link + ".was")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link + UNFINISHED)
    if number is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(link)
        return {"current": None}
    os.symlink(f"{os.path.basename(folder.rstrip('/'))}/{number}", link + UNFINISHED)
    os.replace(link + UNFINISHED, link)
    return {"current": number}


ACTIONS = {"list": listed, "read": read, "write": write, "finish": finish, "point": point}


def main() -> int:
    """One request; 1 when it could not be done."""
    request = json.load(sys.stdin)
    try:
        print(json.dumps(ACTIONS[request["action"]](request)))
    except (ReleaseError, OSError) as error:
        print(json.dumps({"error": str(error)}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
