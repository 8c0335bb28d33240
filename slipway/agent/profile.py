"""Profiles one engine for some seconds: starts its profiler, waits, stops it, and waits for the traces.

usage: profile REQUEST_FILE, JSON: url, key (for Authorization, or ""), folder (where the engine writes), user (who it
runs as), seconds, activities, timeout_s. The last line printed is JSON: {"files": {name: bytes}}. The request file is
removed as soon as it is read. Whatever happens, the engine's profiler is off in the end, unless somebody else's was on
before. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import ssl
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

SUFFIX = ".trace.json.gz"
STILL_S = 1.0  # /stop_profile answers when traces are written; one that has not grown for so long is whole


class ProfileError(Exception):
    """Why there is no profile: one sentence."""


def record(request: dict[str, Any]) -> dict[str, int]:
    """Sizes of the traces by name."""
    make_folder(request)
    with profiling(request):
        for second in range(int(request["seconds"])):
            print(f"recording, {second} of {request['seconds']:g} s", flush=True)
            time.sleep(1.0)
        time.sleep(request["seconds"] % 1.0)
        print("the engine writes its traces", flush=True)
    return whole(request["folder"], request["timeout_s"])


def make_folder(request: dict[str, Any]) -> None:
    """An empty one, that the engine's user can write to."""
    shutil.rmtree(request["folder"], ignore_errors=True)
    os.makedirs(request["folder"])
    if os.geteuid() == 0 and request.get("user"):
        shutil.chown(request["folder"], request["user"], request["user"])


@contextlib.contextmanager
def profiling(request: dict[str, Any]) -> Iterator[None]:
    """Between start and stop of the engine's profiler; a signal that ends us ends it too. Raises ProfileError."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    body = {"output_dir": request["folder"], "activities": request["activities"], "with_stack": False,
            "record_shapes": False}  # fmt: skip
    status, text = call(request, "/start_profile", body)
    if status == 500:
        raise ProfileError(
            "the engine's profiler could not be started; it may be on already: POST /stop_profile ends it"
        )
    if status != 200:
        raise ProfileError(f"/start_profile answers {status}: {text}{needs_key(status)}")
    try:
        yield
    finally:
        status, text = call(request, "/stop_profile", {})
        if status not in (200, 500):  # 500: it had ended by itself
            raise ProfileError(f"/stop_profile answers {status}: {text}; the engine may still be profiling")


def needs_key(status: int) -> str:
    """What a refusal means."""
    return "; the worker wants its API key: set verify.api_key" if status in (401, 403) else ""


def call(request: dict[str, Any], path: str, body: dict[str, Any]) -> tuple[int, str]:
    """One request to the engine: status and start of the text. Raises ProfileError when it cannot be reached."""
    parts = urlsplit(request["url"])
    secure = {"context": ssl._create_unverified_context()} if parts.scheme == "https" else {}  # noqa: S323 - our worker
    kind: Any = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=request["timeout_s"], **secure)
    headers = {"Content-Type": "application/json"}
    headers.update({"Authorization": f"Bearer {request['key']}"} if request.get("key") else {})
    try:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read(300).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise ProfileError(f"{path} of {request['url']}: {error or type(error).__name__}") from None
    finally:
        connection.close()


def whole(folder: str, timeout_s: float) -> dict[str, int]:
    """Wait until every trace is written. Raises ProfileError when none is in time."""
    before: dict[str, int] = {}
    end, since = time.monotonic() + timeout_s, time.monotonic()
    while time.monotonic() < end:
        sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in traces(folder)}
        if sizes != before:
            before, since = sizes, time.monotonic()
        elif sizes and time.monotonic() - since > STILL_S and min(sizes.values()) > 0:
            return sizes
        time.sleep(0.2)
    raise ProfileError(f"the engine wrote no trace within {timeout_s:g} s; was there any load on it?")


def traces(folder: str) -> list[str]:
    """Names of the traces so far."""
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except OSError:
        return []


def main(arguments: list[str]) -> int:
    """Record what the request file says."""
    with open(arguments[0], encoding="utf-8") as file:
        request = json.load(file)
    os.unlink(arguments[0])
    try:
        print(json.dumps({"files": record(request)}))
    except (ProfileError, OSError) as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
