"""One HTTP request at a time, to exactly the address that the plan names: environment proxies are not used.

A proxy would answer for the server, or send a private address to the outside.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from slipway.agent.verify.reasons import RungError

TLS_FLAGS = ("--ssl-certfile", "--tls-cert-path")  # SGLang's and the router's


@dataclass(frozen=True)
class Reply:
    """An answer, read whole."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        """For messages: whatever the bytes are."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """What was answered. Raises RungError when the bytes are not UTF-8 or no JSON."""
        try:
            return json.loads(self.body.decode("utf-8"))
        except UnicodeDecodeError as error:
            bad = self.body[max(0, error.start - 8) : error.start + 8]
            raise RungError(f"the answer holds bytes that are not UTF-8: {bad!r}") from None
        except ValueError:
            raise RungError(f"the answer is no JSON: {self.text[:120]!r}") from None


def call(subject: dict[str, Any], method: str, path: str, body: Any = None, url: str = "") -> Reply:
    """Ask `url`, by default the subject's own, and read the answer whole."""
    with opened(subject, method, path, body, url) as response:
        return Reply(response.status, response.read())


def get(subject: dict[str, Any], path: str, url: str = "") -> Reply:
    """A GET."""
    return call(subject, "GET", path, None, url)


@contextmanager
def opened(
    subject: dict[str, Any], method: str, path: str, body: Any = None, url: str = ""
) -> Iterator[http.client.HTTPResponse]:
    """The answer to one request, to be read by the caller."""
    address = url or subject["url"]
    subject["doing"] = f"{method} {address}{path}"
    connection = connect(subject, address)
    try:
        data = None if body is None else json.dumps(body).encode()
        send = partial(connection.request, method, path, data, headers(subject, data is not None))
        together = subject.get("together")
        _ = together.sent(connection, send) if together else send()
        yield connection.getresponse()
    finally:
        connection.close()


def headers(subject: dict[str, Any], has_body: bool) -> dict[str, str]:
    """The API key goes in a header, so it is in no command line and no log."""
    found = {"Content-Type": "application/json"} if has_body else {}
    return {**found, "Authorization": f"Bearer {subject['key']}"} if subject.get("key") else found


def connect(subject: dict[str, Any], address: str) -> http.client.HTTPConnection:
    """A connection that is not open yet."""
    parts = urlsplit(address)
    host, timeout = parts.hostname or "", subject["timeout_s"]
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=trust(subject.get("ca")))
    return http.client.HTTPConnection(host, parts.port, timeout=timeout)


def asked_at(serves_at: str, command: Sequence[str]) -> str:
    """The base URL of a server that listens at `serves_at`, with the scheme that its command line makes it speak."""
    tls = any(word.partition("=")[0] in TLS_FLAGS for word in command)
    return serves_at.replace("http://", "https://", 1) if tls else serves_at


def trust(certificate: str | None) -> ssl.SSLContext:
    """Whom to trust: the named certificate or CA, in PEM; without one, whom the system trusts.

    Hosts go by bare addresses here, which certificates seldom name: whoever holds the named one is the right one.
    """
    context = ssl.create_default_context(cadata=certificate)
    context.check_hostname = certificate is None
    return context


def wanted(subject: dict[str, Any], reply: Reply, what: str) -> Reply:
    """The reply when it is 200. Raises RungError with the status and what a user can do about it."""
    if reply.status == 200:
        return reply
    if reply.status in (401, 403):
        have = "does not take the API key of verify.api_key" if subject.get("key") else "asks for an API key"
        raise RungError(f"{what} answers {reply.status}: it {have}; verify.api_key says where the controller finds it")
    raise RungError(f"{what} answers {reply.status}: {reply.text[:200]}")
