"""Reads a file over HTTP into a sink as fast as a socket gives it, from any byte on. Standard library only.

huggingface_hub says where a file lies and whether it may be read; the bytes themselves come through here, since its
own loop costs a core at 250 MB/s (measured) and this one costs little more than the kernel's copy.
"""

from __future__ import annotations

import email.utils
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

ENOUGH = 1024 * 1024  # bytes that are worth a write: each costs a turn of the interpreter, for which all threads wait
ENOUGH_TLS = 256 * 1024  # of TLS, which gives 16 kB at a time; 1 MiB took a tenth longer (measured)
KEPT_S = 0.05  # after that, fewer are written with the next that come, or with the fault that comes instead
LONGEST_WAIT_S = 3600.0  # of a server that asks to be left alone


class TransferError(Exception):
    """A sentence for the operator. passing: whether trying again may help. wait_s: how long the server asks to wait.

    status: of HTTP, 0 when no answer came.
    """

    def __init__(self, text: str, passing: bool = False, wait_s: float = 0.0, status: int = 0) -> None:
        super().__init__(text)
        self.passing, self.wait_s, self.status = passing, wait_s, status


class Address:
    """Where a file is read. headers: of the request. context: makes the TLS context, when there is TLS."""

    def __init__(
        self, url: str, headers: Mapping[str, str], context: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        self.url, self.headers, self.context = url, dict(headers), context
        self.parts = urlsplit(url)

    @property
    def place(self) -> str:
        """The server, for a message: never the query, which may hold a signature."""
        return f"{self.parts.scheme}://{self.parts.netloc.rpartition('@')[2]}"

    def connect(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that is opened by its first request."""
        host, port = self.parts.hostname or "", self.parts.port
        if self.parts.scheme == "https":
            made = self.context() if self.context else ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=made)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    @property
    def target(self) -> str:
        """Path and query, as they go into the request."""
        return (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")


def read(address: Address, what: str, sink: Any, resume: int, timeout_s: float) -> None:
    """Write the rest of a file, from byte `resume` on, to `sink`. what: the file, for messages.

    Raises TransferError; what came stays in the sink.
    """
    connection = address.connect(timeout_s)
    headers = {"Accept-Encoding": "identity", **address.headers}
    if resume:
        headers["Range"] = f"bytes={resume}-"
    try:
        connection.request("GET", address.target, headers=headers)
        response = connection.getresponse()
        accepted(response, address.place, what, sink, resume)
        copy(response, what, sink, ENOUGH_TLS if address.parts.scheme == "https" else ENOUGH)
    except (OSError, http.client.HTTPException) as error:
        raise of_the_way(error, address.place, what) from error
    finally:
        connection.close()


def accepted(response: http.client.HTTPResponse, place: str, what: str, sink: Any, resume: int) -> None:
    """The answer is the file, from the byte asked for on; a server that ignores ranges sends it from the start."""
    if response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {resume}-"):
        return
    if response.status in (200, 206, 416) and resume:  # 416: our part cannot be of this file
        sink.seek(0)
        sink.truncate()
    if response.status != 200:
        raise refusal(response, place, what)


def refusal(response: http.client.HTTPResponse, place: str, what: str) -> TransferError:
    """Why there are no bytes, and whether there may be some later."""
    status = response.status
    if status == 429:
        text = f"{place} answers 429 (too many requests) for {what}"
        return TransferError(text, True, waiting_time(response.headers.get("Retry-After", "")), status)
    if status >= 500 or status in (206, 408, 416):
        return TransferError(f"{place} answers {status} for {what}", True, status=status)
    if status == 404:
        return TransferError(f"{place} has no {what} (404), where it was said to be; it is damaged", status=404)
    likely = f"most likely a proxy or firewall on the way lets the Hub through but not {place}"
    fix = "ask whoever runs it to let this host through, or set model.endpoint to a mirror"
    text = f"{place} refuses {what} ({status}) although its bytes were said to be there; {likely}: {fix}"
    return TransferError(text, status=status)


def waiting_time(told: str) -> float:
    """Seconds of a Retry-After header: a number, or a date."""
    if told.strip().isdigit():
        return min(float(told), LONGEST_WAIT_S)
    try:
        until = email.utils.parsedate_to_datetime(told).timestamp()
    except (TypeError, ValueError):
        return 0.0
    return min(max(until - time.time(), 0.0), LONGEST_WAIT_S)


def copy(response: http.client.HTTPResponse, what: str, sink: Any, enough: int = ENOUGH) -> None:
    """Everything that comes, soon after it came: a cut loses nothing that arrived. enough: bytes worth a write."""
    known, room = response.length is not None, memoryview(bytearray(sink.piece))
    source, left = (response.fp, response.length or 0) if known else (response, len(room))
    while left and (count := gather(source, room[:left], sink, enough)):
        left -= count if known else 0
    if left and known:
        raise TransferError(f"{what}: the transfer ended early", passing=True)


def gather(source: Any, room: memoryview, sink: Any, enough: int) -> int:
    """Write what comes now to the sink, up to about `enough` bytes; how many, 0 at the end."""
    come, until = 0, time.monotonic() + KEPT_S
    try:
        while come < min(enough, len(room)) and (count := source.readinto1(room[come:])):
            come += count
            if time.monotonic() > until:
                break
    finally:
        if come:
            sink.write(room[:come])
    return come


def of_the_way(error: Exception, place: str, what: str) -> TransferError:
    """A fault between here and there; the disk's are the sink's to tell."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TransferError(f"{what}: the certificate of {place} is not trusted here ({error.verify_message})")
    if isinstance(error, (TimeoutError, socket.timeout)):  # two things up to 3.9
        return TransferError(f"{what}: {place} sent nothing for too long", passing=True)
    reason = getattr(error, "strerror", None) or type(error).__name__
    return TransferError(f"{what}: the connection to {place} failed ({reason})", passing=True)
