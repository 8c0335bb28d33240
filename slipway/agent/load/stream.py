"""One request in flight: connect, send, receive, on a socket that never blocks. Linux only, as it uses epoll."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import time
from typing import Any

from .answer import Answer, BrokenAnswerError
from .target import Target

READ, WRITE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR, select.EPOLLOUT | select.EPOLLERR
PIECE = 262144
IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK)


class Stream:
    """A request from its start to its end; `error` says why it failed, '' while it has not."""

    def __init__(self, target: Target, index: int, payload: bytes, streamed: bool) -> None:
        self.index = index
        self.answer = Answer(streamed)
        self.error = ""
        self.ended = 0.0
        self.started = self.heard = time.monotonic()
        self._out = payload
        self._sent = 0
        self._plain: socket.socket | None = None
        self._socket: Any = None
        self._target = target
        self._shaking = target.context is not None

    def open(self) -> int | None:
        """Begin to connect; the descriptor to wait on, or None when that failed at once."""
        family, address = self._target.family, self._target.address
        try:
            plain = self._plain = self._socket = socket.socket(family, socket.SOCK_STREAM)
            plain.setblocking(False)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = plain.connect_ex(address)
        except OSError as error:
            self._fail(f"cannot connect: {reason_of(error)}")
            return None
        if code and code not in IN_PROGRESS:
            self._fail(f"cannot connect: {os.strerror(code)}")
            return None
        return plain.fileno()

    def ready(self) -> int:
        """The socket can be read or written; what to wait for next, 0 when the request has ended."""
        try:
            if self._sent < len(self._out):
                return self._send()
            return self._receive()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            return WRITE if isinstance(error, ssl.SSLWantWriteError) else READ
        except BrokenAnswerError as error:
            self._fail(str(error))
        except OSError as error:
            self._fail(f"the connection broke: {reason_of(error)}")
        return 0

    def _send(self) -> int:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if not self._sent else 0
        if code:
            self._fail(f"cannot connect: {os.strerror(code)}")
            return 0
        if self._shaking:
            self._shake()
        try:
            self._sent += self._socket.send(self._out[self._sent : self._sent + PIECE])
        except BlockingIOError:
            return WRITE
        return READ if self._sent >= len(self._out) else WRITE

    def _shake(self) -> None:
        if self._socket is self._plain:
            assert self._target.context is not None and self._plain is not None
            self._socket = self._target.context.wrap_socket(
                self._plain, server_hostname=self._target.host, do_handshake_on_connect=False
            )
        self._socket.do_handshake()
        self._shaking = False

    def _receive(self) -> int:
        try:
            data = self._socket.recv(PIECE)
        except BlockingIOError:
            return READ
        now = self.heard = time.monotonic()
        if data:
            self.answer.feed(data, now)
        else:
            self.answer.closed(now)
        if self.answer.done:
            self._end(now)
            return 0
        return self._receive() if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() else READ

    def give_up(self, why: str) -> None:
        """End it as failed."""
        self._fail(why)

    def _fail(self, why: str) -> None:
        self.error = why
        self._end(time.monotonic())

    def _end(self, now: float) -> None:
        self.ended = now
        if self._socket is not None:
            self._socket.close()

    def row(self, asked: tuple[int, int]) -> dict[str, Any]:
        """The request in figures; seconds. asked: prompt and output tokens that were wanted."""
        answer, usage = self.answer, self.answer.usage
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return {
            "index": self.index, "start": self.started, "end": self.ended, "error": self.error,
            "ttft": answer.times[0] - self.started if answer.times else None,
            "chunks": len(answer.times), "finish": answer.finish, "characters": answer.characters,
            "input_asked": asked[0], "output_asked": asked[1],
            "input": usage.get("prompt_tokens"), "output": usage.get("completion_tokens"), "cached": cached,
        }  # fmt: skip


def reason_of(error: OSError) -> str:
    """An error of the system in the system's words, without what differs from one request to the next."""
    return error.strerror or str(error) or type(error).__name__
