"""One HTTP/1.1 answer as it arrives: status line, headers, body in chunks or by length, and the events of a stream.

Bytes go in with the time they came, figures come out; no socket, no clock. Called for every token of every stream,
so what it does for a token is little: cut, one json.loads, one append.
"""

from __future__ import annotations

import json
from typing import Any

HEAD_LIMIT = 65536
BODY_LIMIT = 64 * 1024 * 1024


class BrokenAnswerError(Exception):
    """Why this answer is a failed request: a few words that are equal for equal causes."""


class Answer:
    """The answer to one request. times: when each chunk with text came, in seconds of the caller's clock."""

    def __init__(self, streamed: bool) -> None:
        self.streamed = streamed
        self.status = 0
        self.times: list[float] = []
        self.usage: dict[str, Any] = {}
        self.finish = ""
        self.characters = 0
        self.done = False  # the answer is complete
        self.ended = False  # the stream said [DONE]
        self._raw = b""
        self._body = b""
        self._chunked = False
        self._left: int | None = None  # bytes of the body, or of the current chunk, still to come
        self._in_head = True
        self._last = False

    def feed(self, data: bytes, now: float) -> None:
        """Take bytes that came at `now`. Raises BrokenAnswerError when they say that the request failed."""
        self._raw += data
        if self._in_head and not self._read_head():
            return
        self._read_body()
        if self.streamed and self.status == 200:
            self._read_events(now)
        if self._last:
            self._complete(now)

    def closed(self, now: float) -> None:
        """The server closed the connection. Raises BrokenAnswerError unless that is how the answer ends."""
        if self._in_head:
            raise BrokenAnswerError("the connection was closed without an answer")
        if self._chunked or self._left is not None:
            raise BrokenAnswerError("the connection was closed in the middle of the answer")
        self._complete(now)

    def _read_head(self) -> bool:
        head, found, rest = self._raw.partition(b"\r\n\r\n")
        if not found:
            if len(self._raw) > HEAD_LIMIT:
                raise BrokenAnswerError("what answers does not speak HTTP")
            return False
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(None, 2)
        if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
            raise BrokenAnswerError("what answers does not speak HTTP")
        self._raw, self.status = rest, int(words[1])
        if 100 <= self.status < 200:
            return self._read_head()
        self._in_head = False
        self._read_lengths(lines[1:])
        return True

    def _read_lengths(self, lines: list[str]) -> None:
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "")
        if not self._chunked and length.isdigit():
            self._left = int(length)
            self._last = self._left == 0

    def _read_body(self) -> None:
        if self._chunked:
            self._read_chunks()
        elif self._raw:
            self._body += self._raw
            if self._left is not None:
                self._left -= len(self._raw)
                self._last = self._left <= 0
            self._raw = b""
        if len(self._body) > BODY_LIMIT:
            raise BrokenAnswerError("the answer is longer than 64 MiB")

    def _read_chunks(self) -> None:
        raw, at, size_of = self._raw, 0, len(self._raw)
        parts = []
        while True:
            end = raw.find(b"\r\n", at)
            if end < 0:
                break
            try:
                size = int(raw[at:end].partition(b";")[0], 16)
            except ValueError:
                raise BrokenAnswerError("a chunk of the answer has no size") from None
            if end + 2 + size + 2 > size_of:
                break
            if size == 0:
                self._last = True
                break
            parts.append(raw[end + 2 : end + 2 + size])
            at = end + 2 + size + 2
        self._raw = raw[at:] if at else raw
        if parts:
            self._body += b"".join(parts)

    def _read_events(self, now: float) -> None:
        body = self._body.replace(b"\r\n", b"\n") if b"\r" in self._body else self._body
        events = body.split(b"\n\n")
        self._body = events.pop()
        for event in events:
            if event.startswith(b"data: "):
                self._read_event(event[6:], now)
            elif event:
                self._read_lines(event, now)

    def _read_lines(self, event: bytes, now: float) -> None:
        """An event that is not one plain data line: comments, names, data without the space."""
        lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
        if lines:
            self._read_event(b"\n".join(lines), now)

    def _read_event(self, data: bytes, now: float) -> None:
        if data.strip() == b"[DONE]":
            self.ended = True
            return
        value = parsed(data)
        if value.get("error"):
            raise BrokenAnswerError(f"an error in the stream: {said(value)}")
        if value.get("usage"):
            self.usage = value["usage"]
        for choice in value.get("choices") or ():
            text = text_of(choice.get("delta") or choice)
            if text:
                self.times.append(now)
                self.characters += len(text)
            if choice.get("finish_reason"):
                self.finish = choice["finish_reason"]

    def _complete(self, now: float) -> None:
        if self.status != 200:
            raise BrokenAnswerError(f"HTTP {self.status}: {said_of(self._body)}")
        if not self.streamed:
            self._read_whole(now)
        elif not self.ended:
            raise BrokenAnswerError("the stream ended without [DONE]")
        if self.finish == "abort":
            raise BrokenAnswerError("the server aborted the request")
        self.done = True

    def _read_whole(self, now: float) -> None:
        value = parsed(self._body)
        self.usage = value.get("usage") or {}
        for choice in value.get("choices") or ():
            text = text_of(choice.get("message") or choice)
            self.finish = choice.get("finish_reason") or self.finish
            self.characters += len(text)
            if text:
                self.times.append(now)


def parsed(data: bytes) -> dict[str, Any]:
    """A JSON object. Raises BrokenAnswerError."""
    try:
        value = json.loads(data)
    except ValueError:
        raise BrokenAnswerError("a part of the answer is no JSON") from None
    if not isinstance(value, dict):
        raise BrokenAnswerError("a part of the answer is no JSON object")
    return value


def text_of(part: dict[str, Any]) -> str:
    """Text of a delta, a message or a completion; thoughts of a reasoning model are tokens like any other."""
    text = part.get("content") or part.get("reasoning_content") or part.get("text")
    if not text and part.get("tool_calls"):
        return json.dumps(part["tool_calls"])
    return str(text or "")


def said_of(body: bytes) -> str:
    """What an error body says."""
    try:
        return said(json.loads(body))
    except ValueError:
        return body.decode("utf-8", "replace").strip()[:160] or "nothing"


def said(value: Any) -> str:
    """The message of an error in one of the shapes that engines and routers use."""
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            return said(value[key])
    return str(value)[:160]
