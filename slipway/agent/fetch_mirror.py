"""Lets other hosts take a checkpoint from this one, also while it is still coming here.

usage: fetch_mirror REQUEST.json, with keys path, files ({name: [size, hash]}), address and port to listen on,
token_file, user (whom to become when started as root), pending (whether this host is still to fetch), idle_s.

GET /have            what is there: {"state": ..., "files": {name: bytes}}
GET /files/NAME      the file from byte N on (Range: bytes=N-); bytes that are to come are sent as they come

Every request needs the token. Only files of the request are read and nothing is written. Whoever takes a file proves it
by the hash of its own plan. Ends by itself once nobody has asked for a while. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import hmac
import json
import os
import pwd
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO
from urllib.parse import unquote

from slipway.agent.fetch_peers import FOLLOWS
from slipway.agent.fetch_sink import part_path
from slipway.agent.prune import being_fetched
from slipway.agent.state import notes_path

EXPECTED_S = 30.0  # a fetch that was announced is believed in for so long
BEGIN_S = 10.0  # how long a request waits for the first byte of a file
LOOK_S = 0.02
PIECE = 4 * 1024 * 1024


class Shelf:
    """What of a checkpoint lies on this host. pending: a fetch is about to start here."""

    def __init__(self, path: str, files: dict[str, Any], pending: bool) -> None:
        self.path, self.files, self.pending, self.began = path, files, pending, time.monotonic()
        self.seen, self.fetching = 0.0, False

    def place(self, name: str) -> str:
        """Where the bytes of a file are now: its own name once it is proven, else its part; '' when there are none."""
        final, part = os.path.join(self.path, name), part_path(self.path, name)
        return next((path for path in (final, part) if os.path.isfile(path)), "")

    def have(self) -> dict[str, int]:
        """Bytes of every file that is there, or begun."""
        found = {name: self.place(name) for name in self.files}
        return {name: size_of(path) for name, path in found.items() if path}

    def growing(self) -> bool:
        """Whether more may come: a fetch runs here, or will. Asked of the kernel once a second at most."""
        now = time.monotonic()
        if now - self.seen > 1.0 or not self.seen:
            self.fetching, self.seen = being_fetched(self.path), now
            self.pending = self.pending and not self.fetching and now - self.began < EXPECTED_S
        return self.fetching or self.pending

    def follows(self) -> bool:
        """Whether this host waits for others itself, so that nobody may wait for it."""
        return os.path.exists(notes_path(self.path, FOLLOWS))

    def state(self, have: dict[str, int]) -> str:
        """'whole', 'fetching', 'following' (from other hosts only), or 'ended' when nobody fetches what is missing."""
        if all(have.get(name) == size and not self.is_part(name) for name, (size, _) in self.files.items()):
            return "whole"
        if not self.growing():
            return "ended"
        return "following" if self.follows() else "fetching"

    def is_part(self, name: str) -> bool:
        """Whether a file is not proven yet."""
        return not os.path.isfile(os.path.join(self.path, name))


class Mirror(ThreadingHTTPServer):
    """The server. asked: when somebody with the token last did."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, port: int, shelf: Shelf, token: str) -> None:
        self.shelf, self.token, self.asked, self.busy = shelf, token, time.monotonic(), 0
        self.lock = threading.Lock()
        self.address_family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        super().__init__((address, port), Handler)

    def wait_idle(self, idle_s: float, every_s: float = 1.0) -> None:
        """Until nobody has asked for `idle_s` and no fetch runs here."""
        while self.busy or self.shelf.growing() or time.monotonic() - self.asked < idle_s:
            time.sleep(every_s)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One that hangs up is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Mirror
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "slipway", ""
    timeout = 60

    def log_message(self, *_: object) -> None:
        """The log of the job is for what an operator should know."""

    def do_GET(self) -> None:
        """Answer what comes with the token; anything else learns nothing."""
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, f"Bearer {self.server.token}".encode()):
            self.refuse(401)
            return
        with self.server.lock:
            self.server.busy += 1
        try:
            self.answer(unquote(self.path))
        except PermissionError:
            self.refuse(404)  # another host has it, or the Hub
        finally:
            with self.server.lock:
                self.server.busy, self.server.asked = self.server.busy - 1, time.monotonic()

    def answer(self, path: str) -> None:
        """What there is, or a file."""
        name = path[len("/files/") :]
        if path == "/have":
            self.have()
        elif path.startswith("/files/") and name in self.server.shelf.files:
            self.file(name)
        else:
            self.refuse(404)

    def have(self) -> None:
        """What there is, and whether more will be."""
        shelf = self.server.shelf
        there = shelf.have()
        whole = [name for name in there if not shelf.is_part(name)]
        body = json.dumps({"state": shelf.state(there), "whole": whole, "files": there}).encode()
        self.head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
        self.wfile.write(body)

    def file(self, name: str) -> None:
        """From the byte asked for on."""
        size, begin = self.server.shelf.files[name][0], self.begin()
        path = self.wait_for(name)
        if not path or begin > size:
            self.refuse(503 if not path else 416)
            return
        with open(path, "rb") as file:
            part = {"Content-Range": f"bytes {begin}-{size - 1}/{size}"} if begin else {}
            self.head(206 if begin else 200, {"Content-Length": str(size - begin), **part})
            self.send(file, begin, size)

    def begin(self) -> int:
        """The first byte that is asked for."""
        wanted = self.headers.get("Range", "").replace("bytes=", "", 1).partition("-")[0]
        return int(wanted) if wanted.isdigit() else 0

    def wait_for(self, name: str) -> str:
        """Where a file is, once it has begun to come; '' when it does not."""
        deadline, shelf = time.monotonic() + BEGIN_S, self.server.shelf
        while not (path := shelf.place(name)):
            if time.monotonic() > deadline or not shelf.growing() or shelf.follows():
                return ""
            time.sleep(LOOK_S)
        return path

    def send(self, file: BinaryIO, at: int, size: int) -> None:
        """Everything up to `size`, as it comes; an end before that tells the other side to look elsewhere."""
        while at < size:
            there = min(os.fstat(file.fileno()).st_size, size)
            if there > at:
                at += self.connection.sendfile(file, at, min(there - at, PIECE))
            elif self.server.shelf.growing() and not self.server.shelf.follows():
                time.sleep(LOOK_S)
            else:
                break
        self.close_connection = at < size

    def refuse(self, status: int) -> None:
        """No bytes, and no reasons to strangers."""
        self.close_connection = True
        self.head(status, {"Content-Length": "0"})

    def head(self, status: int, headers: dict[str, str]) -> None:
        """Status and headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def size_of(path: str) -> int:
    """Bytes of a file; 0 when there is none."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def become(user: str) -> None:
    """What is read by strangers is read without root's rights."""
    if user and os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)


def main(arguments: list[str]) -> int:
    """Serve until nobody asks any more."""
    with open(arguments[0], encoding="utf-8") as file:
        request = json.load(file)
    try:
        with open(request["token_file"], encoding="utf-8") as file:
            token = file.read().strip()
        shelf = Shelf(request["path"], request["files"], request.get("pending", False))
        mirror = Mirror(request["address"], request["port"], shelf, token)
        become(request.get("user", ""))
    except (OSError, KeyError) as error:
        print(f"error: other hosts cannot take the checkpoint from here: {error}", flush=True)
        return 1
    threading.Thread(target=mirror.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()
    print(f"other hosts can take {request['path']} from {request['address']}:{request['port']}", flush=True)
    mirror.wait_idle(request.get("idle_s", 120.0))
    print("nobody asks any more", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
