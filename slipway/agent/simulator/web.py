"""HTTP/1.1 over asyncio streams: a server with keep-alive and chunked replies, and a one-shot client.

One event loop carries all connections, so that token times stay true with hundreds of streams.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
HEADER_LIMIT = 1 << 20
BACKLOG = 4096  # a burst must not be refused by the kernel before the engine sees it
GONE_POLL_S = 0.2
WRITE_AHEAD = 1 << 16  # bytes a slow reader may lag before its stream waits for it


class ConnectionCutError(Exception):
    """Close this connection as it is, without another byte."""


class HttpError(Exception):
    """An HTTP exchange that went wrong."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Request:
    """One request, read whole."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""
    peer: str = ""
    version: str = "HTTP/1.1"
    received: float = field(default_factory=time.monotonic)

    def json(self) -> Any:
        """The body as JSON; HttpError 400 when it is not."""
        try:
            return json.loads(self.body or b"{}")
        except ValueError as error:
            raise HttpError(400, f"Invalid JSON: {error}") from None


@dataclass
class Response:
    """One reply: a whole body, or a first chunk and more as they come."""

    status: int = 200
    body: bytes = b""
    kind: str = JSON
    chunks: AsyncIterator[bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Response]]


def json_response(value: Any, status: int = 200) -> Response:
    """A JSON reply. Lone surrogates stand for bytes that are not UTF-8 and are sent as those bytes."""
    return Response(status, dump(value))


def dump(value: Any) -> bytes:
    """JSON as the engine sends it: compact, not escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


def text_response(text: str, status: int = 200, kind: str = "text/plain; charset=utf-8") -> Response:
    """A plain text reply."""
    return Response(status, text.encode(), kind)


class Server:
    """Listens on one address and hands every request to one handler."""

    def __init__(self, handler: Handler, log: Callable[[Request, int], None], warn: Callable[[str], None]) -> None:
        self._handler = handler
        self._log = log
        self._warn = warn
        self._server: asyncio.AbstractServer | None = None
        self.active = 0  # requests being served, which a clean stop waits for

    async def listen(self, host: str, port: int) -> int:
        """Open the port; returns it, which matters when 0 was asked for."""
        server = await asyncio.start_server(self._connection, host, port, limit=HEADER_LIMIT, backlog=BACKLOG)
        self._server = server
        return int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop accepting; open connections go on."""
        if self._server is not None:
            self._server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionCutError):
            while await self._exchange(reader, writer):
                pass
        writer.close()
        with suppress(Exception):
            await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; False ends the connection."""
        try:
            request = await read_request(reader, writer)
        except ValueError:
            self._warn("WARNING:  Invalid HTTP request received.")
            await send_whole(writer, text_response("Invalid HTTP request received.", 400), keep=False)
            return False
        if request is None:
            return False
        if request.method == "PRI":  # a client that tries HTTP/2 first; it falls back on this answer
            self._log(request, 404)
            self._warn("WARNING:  Invalid HTTP request received.")
            await send_whole(writer, json_response({"detail": "Not Found"}, 404), keep=False)
            return False
        return await until_gone(self._serve(request, writer), reader)

    async def _serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        keep = request.headers.get("connection", "").lower() != "close"
        self.active += 1
        try:
            response = await self._handler(request)
            self._log(request, response.status)
            if response.chunks is None:
                await send_whole(writer, response, keep)
            else:
                await send_chunks(writer, response, keep)
        finally:
            self.active -= 1
        return keep


async def until_gone(serving: Awaitable[bool], reader: asyncio.StreamReader) -> bool:
    """Serve, but give up as soon as the client has gone: the engine aborts such requests too."""
    task = asyncio.ensure_future(serving)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=GONE_POLL_S)
            if not task.done() and reader.at_eof():
                return False
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """Read one request; None at the end of the connection, ValueError when it is no HTTP."""
    line = await reader.readline()
    if not line.strip():
        return None
    method, target, version = line.decode("latin-1").split()
    if not version.startswith("HTTP/"):
        raise ValueError(version)
    parts = urllib.parse.urlsplit(target) if target != "*" else urllib.parse.SplitResult("", "", "%2A", "", "")
    peer = writer.get_extra_info("peername") or ("?", 0)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    path = urllib.parse.unquote(parts.path)
    request = Request(method, path, query, {}, peer=f"{peer[0]}:{peer[1]}", version=version)
    if version.startswith("HTTP/2"):
        request.path = "%2A"
        return request
    request.headers = await read_headers(reader)
    request.body = await read_body(reader, writer, request.headers)
    return request


async def read_headers(reader: asyncio.StreamReader) -> dict[str, str]:
    """Header lines up to the empty one, names in lower case."""
    headers: dict[str, str] = {}
    while True:
        line = (await reader.readline()).decode("latin-1").strip()
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()


async def read_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]) -> bytes:
    """The body by its length, or in chunks."""
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await read_chunked(reader)
    return await reader.readexactly(int(headers.get("content-length") or 0))


async def read_chunked(reader: asyncio.StreamReader) -> bytes:
    """Join the chunks of a chunked body."""
    parts = []
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        parts.append(await reader.readexactly(size))
        await reader.readline()
        if size == 0:
            return b"".join(parts)


def head(response: Response, keep: bool, length: str) -> bytes:
    """Status line and headers."""
    lines = [
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
        f"content-type: {response.kind}",
        length,
        "x-slipway-simulated: 1",
        *(f"{name}: {value}" for name, value in response.headers.items()),
        *([] if keep else ["connection: close"]),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def send_whole(writer: asyncio.StreamWriter, response: Response, keep: bool) -> None:
    """Send a reply whose body is known."""
    writer.write(head(response, keep, f"content-length: {len(response.body)}") + response.body)
    await writer.drain()


async def send_chunks(writer: asyncio.StreamWriter, response: Response, keep: bool) -> None:
    """Send chunks as they come."""
    assert response.chunks is not None
    writer.write(head(response, keep, "transfer-encoding: chunked"))
    chunks = response.chunks
    try:
        send_chunk(writer, response.body)
        async for chunk in chunks:
            send_chunk(writer, chunk)
            if writer.transport.get_write_buffer_size() > WRITE_AHEAD:
                await writer.drain()
    finally:
        closing = getattr(chunks, "aclose", None)
        if closing is not None:
            await closing()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def send_chunk(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    """Write one chunk; an empty one would end the body."""
    if chunk:
        writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))


async def call(method: str, url: str, timeout: float, body: Any = None) -> tuple[int, bytes]:
    """One request to another server. OSError when it cannot be reached, hangs up or is silent."""
    try:
        return await asyncio.wait_for(_call(method, url, body), timeout)
    except asyncio.TimeoutError:  # noqa: UP041  (another class than TimeoutError before Python 3.11)
        raise TimeoutError(f"{url}: no answer within {timeout:g} s") from None


async def _call(method: str, url: str, body: Any) -> tuple[int, bytes]:
    parts = urllib.parse.urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=HEADER_LIMIT)
    try:
        payload = b"" if body is None else dump(body)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = f"{method} {target} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: close\r\n"
        writer.write(f"{lines}content-length: {len(payload)}\r\n\r\n".encode("latin-1") + payload)
        await writer.drain()
        return await read_reply(reader)
    except asyncio.IncompleteReadError:
        raise ConnectionResetError(f"{parts.netloc} closed the connection") from None
    finally:
        writer.close()
        with suppress(Exception):
            await writer.wait_closed()


async def read_reply(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of a reply with a content-length."""
    first = (await reader.readline()).split()
    if len(first) < 2:
        raise ConnectionResetError("the connection was closed without a reply")
    headers = await read_headers(reader)
    return int(first[1]), await reader.readexactly(int(headers.get("content-length") or 0))
