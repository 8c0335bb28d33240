"""Reads torch's Chrome traces event by event, so that one of gigabytes needs no more memory than a small one.

The format, as the engine of release 0.5.13 writes it: one JSON object, gzip'd, whose traceEvents hold an object for
each kernel and operator: ph "X", cat, name, ts and dur in microseconds, pid, tid, args.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

GZIP = b"\x1f\x8b"
LIST = '"traceEvents"'
LONGEST = 4 * 1024 * 1024  # characters of one event; beyond that it is no trace
_BETWEEN = re.compile(r"[\s,]*")
_SCAN = json.JSONDecoder().raw_decode


class TraceError(Exception):
    """A trace that cannot be read, in one sentence."""


def events(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events of a trace, in its order. chunks: the file's bytes, gzip'd or not. Raises TraceError."""
    texts = _decoded(_plain(chunks))
    buffer, at = _after_bracket(texts), 0
    while True:
        at = _BETWEEN.match(buffer, at).end()  # type: ignore[union-attr]  # it matches nothing too
        if buffer.startswith("]", at):
            return
        try:
            event, at = _SCAN(buffer, at)
        except ValueError:
            buffer, at = buffer[at:] + _more(texts, len(buffer) - at), 0
            continue
        if isinstance(event, dict):
            yield event


def _more(texts: Iterator[str], length: int) -> str:
    """More text, after `length` characters that are no whole event."""
    text = next(filter(None, texts), "")
    if not text:
        raise TraceError(
            "the trace ends in the middle: the profiler was not stopped, or the file was not fetched whole"
        )
    if length > LONGEST:
        raise TraceError("an event of the trace is no JSON")
    return text


def _after_bracket(texts: Iterator[str]) -> str:
    """The text from the first event on."""
    buffer = ""
    for text in texts:
        buffer += text
        at = buffer.find(LIST)
        bracket = buffer.find("[", at) if at >= 0 else -1
        if bracket >= 0:
            return buffer[bracket + 1 :]
        if at < 0 and len(buffer) > LONGEST:
            break
    raise TraceError("this is no Chrome trace: it has no traceEvents")


def _decoded(chunks: Iterable[bytes]) -> Iterator[str]:
    """As text; a character that lies in two chunks comes whole."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        cut = len(data)
        while cut and cut > len(data) - 4 and data[cut - 1] & 0xC0 == 0x80:
            cut -= 1
        cut -= 1 if cut and data[cut - 1] >= 0xC0 else 0
        rest = data[cut:] if cut < len(data) else b""
        yield data[: len(data) - len(rest)].decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


def _plain(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Unpacked, where the bytes are gzip'd."""
    unpack: Any = None
    for index, chunk in enumerate(chunks):
        if index == 0 and chunk.startswith(GZIP):
            unpack = zlib.decompressobj(wbits=31)
        try:
            yield from _inflated(unpack, chunk) if unpack else [chunk]
        except zlib.error as error:
            raise TraceError(f"the trace is damaged: {error}") from None


def _inflated(unpack: Any, chunk: bytes) -> Iterator[bytes]:
    """In pieces of a bounded size: a trace packs thirty-fold."""
    while chunk:
        piece = unpack.decompress(chunk, 1 << 20)
        chunk = unpack.unconsumed_tail
        if piece:
            yield piece
