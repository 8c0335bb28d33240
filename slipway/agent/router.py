"""Tells a running router which workers it has. usage: router < REQUEST, JSON; prints one JSON line.

url: the router's. remove: URLs of workers that get no new request. add: workers, each {url, worker_type,
bootstrap_port}, and of those the router waits until they are healthy. timeout_s: for all of it. key: its API key, ''
for none; workers that are added are asked with it too, as smg knows no other for those that it did not begin with.
ca: a certificate in PEM that its own is checked against; without one its own is not checked.
Answers {"workers": {url: {"role", "healthy", "load", "bootstrap_port"}}, "error": ""}.

As smg 1.13.0 was seen to behave: a removal is a job that marks the worker, sleeps drain_settle_secs (5 by default) and
then removes whatever is registered at the URL - also a worker that was added there meanwhile. So the wait is set to 0
before, and nothing is added until the old one is gone. Running requests finish either way.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import time
from typing import Any, Optional
from urllib.parse import urlsplit

from slipway.agent.verify.client import trust

POLL_S = 0.05


class RouterError(Exception):
    """What the router did not do."""


class Router:
    """One router's HTTP interface, until a deadline."""

    def __init__(self, url: str, timeout_s: float, key: str = "", ca: Optional[str] = None) -> None:  # noqa: UP045
        self.url, self.key, self.ca = url, key, ca
        self.head = {"Authorization": f"Bearer {key}"} if key else {}
        self.end = time.monotonic() + timeout_s

    def connection(self) -> http.client.HTTPConnection:
        """A fresh one: the router may have been restarted since the last."""
        parts = urlsplit(self.url)
        if parts.scheme != "https":
            return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
        context = trust(self.ca) if self.ca else ssl._create_unverified_context()  # noqa: S323
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=10, context=context)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of one request. Raises RouterError when there is no answer."""
        connection = self.connection()
        data = json.dumps(body).encode() if body is not None else None
        head = {**self.head, "Content-Type": "application/json"} if data else self.head
        try:
            connection.request(method, path, data, head)
            with connection.getresponse() as response:
                text = response.read().decode("utf-8", "replace")
                return response.status, json.loads(text or "{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RouterError(f"{self.url} does not answer {method} {path}: {type(error).__name__} {error}") from None
        finally:
            connection.close()

    def workers(self) -> dict[str, dict[str, Any]]:
        """The router's list, by URL."""
        status, found = self.call("GET", "/workers")
        if status != 200 or "workers" not in found:
            raise RouterError(f"{self.url} does not tell its workers: {status} {found}")
        return {row["url"].rstrip("/"): row for row in found["workers"]}

    def remove(self, url: str) -> None:
        """Until the router does not have it any more."""
        row = self.workers().get(url)
        if row is None:
            return
        if row.get("status") != "draining":  # somebody's removal is under way otherwise
            self.call("PATCH", f"/workers/{row['id']}", {"health": {"drain_settle_secs": 0}})
            time.sleep(2 * POLL_S)
            self.call("DELETE", f"/workers/{row['id']}")
        self.wait(lambda: url not in self.workers(), f"still sends to {url}, which it was told to leave")

    def add(self, spec: dict[str, Any]) -> None:
        """Until the router has it and takes it for healthy; anew when a removal that began before takes it away."""
        asked = False

        def healthy() -> bool:
            nonlocal asked
            row = self.workers().get(spec["url"])
            if row and row.get("status") == "draining":
                self.remove(spec["url"])
                row = None
            if row is None and not asked:
                self.ask_for(spec)
            asked = row is None  # until it is on the list: the router takes it on in a job of its own
            return bool(row and row.get("is_healthy"))

        self.wait(healthy, f"does not take {spec['url']} for healthy")

    def ask_for(self, spec: dict[str, Any]) -> None:
        """Tell the router of a worker. Raises RouterError when it refuses."""
        status, said = self.call("POST", "/workers", {**spec, "api_key": self.key} if self.key else spec)
        if status not in (202, 409):
            raise RouterError(f"{self.url} does not take {spec['url']}: {status} {said.get('error', said)}")

    def wait(self, condition: Any, complaint: str) -> None:
        """Poll. Raises RouterError with the complaint after the deadline."""
        while not condition():
            if time.monotonic() > self.end:
                raise RouterError(f"{self.url} {complaint}")
            time.sleep(POLL_S)


def told(request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked for; the router's list afterwards, or why not."""
    router = Router(request["url"], request.get("timeout_s", 30), request.get("key", ""), request.get("ca"))
    try:
        for url in request.get("remove", []):
            router.remove(url)
        for spec in request.get("add", []):
            router.add(spec)
        return {"workers": {url: described(row) for url, row in router.workers().items()}, "error": ""}
    except RouterError as error:
        return {"workers": {}, "error": str(error)}


def described(row: dict[str, Any]) -> dict[str, Any]:
    """What a rollout needs of one row."""
    return {"role": row.get("worker_type", ""), "healthy": bool(row.get("is_healthy")), "load": row.get("load", 0),
            "bootstrap_port": row.get("bootstrap_port")}  # fmt: skip


def main() -> int:
    """One request; 1 when it was not done."""
    answer = told(json.load(sys.stdin))
    print(json.dumps(answer))
    return 1 if answer["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
