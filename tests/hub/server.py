"""The Hub's HTTP API as huggingface_hub calls it, on the loopback: `with Hub([Repository(...)]) as hub: hub.url`.

Observed with huggingface_hub 2.4.0: model info, tree (paged by Link), resolve (large files redirect to a store),
ranges, ETag, X-Repo-Commit, X-Linked-Size, X-Error-Code. Xet is not offered.

Faults, switched on by `hub.fault(NAME, path=part of the URL, times=N, **options)`:
  cut        the connection ends after `at` bytes of the body        truncated  `at` bytes are announced as all there is
  wrong      one byte of the body is flipped, the size stays         slow       `rate` bytes a second
  stalled    nothing more after `at` bytes, the connection open      busy       429 with Retry-After `seconds`
  broken     500                                                     refused    401
  gated      403 with X-Error-Code GatedRepo                         no_repo    404 RepoNotFound
  forbidden  403 and nothing else, as a proxy answers; with `said`, the Hub's reason in X-Error-Message
  no_revision 404 RevisionNotFound                                   no_range   ranges are ignored: 200 and all of it
  other_list the tree lists one file less                            empty_list the tree lists nothing
"""

import json
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub.repository import Entry, Repository, bytes_of

STATUSES = {
    "busy": (429, "", "Too Many Requests"),
    "broken": (500, "", "Internal Error"),
    "refused": (401, "", "Invalid credentials in Authorization header"),
    "forbidden": (403, "", ""),
    "gated": (403, "GatedRepo", "Access to this model is restricted"),
    "no_repo": (404, "RepoNotFound", "Repository not found"),
    "no_revision": (404, "RevisionNotFound", "Invalid rev id"),
}
BLOCK = 1 << 20


@dataclass
class Fault:
    """One fault. times: how often it still happens."""

    name: str
    path: str
    times: int
    options: dict = field(default_factory=dict)


class Hub:
    """The server; `requests` holds what was asked: method, path and Range. cap: bytes a second of each connection.

    address: where it listens. One made inside another network namespace stays there.
    """

    def __init__(
        self, repositories: list[Repository], page: int = 50, cap: int = 0, address: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.repositories = {one.name: one for one in repositories}
        self.page, self.cap, self.requests, self.faults, self.sent = page, cap, [], [], 0
        self.lock, self.closing = threading.Lock(), threading.Event()
        self.server = ThreadingHTTPServer((address, port), Handler)
        self.server.hub, self.server.daemon_threads, self.server.block_on_close = self, True, False
        self.url = f"http://{address}:{self.server.server_address[1]}"
        self.store = self.url.replace("127.0.0.1", "localhost")  # as with the real one, another host than the Hub's
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> "Hub":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def fault(self, name: str, path: str = "", times: int = 1, **options: object) -> None:
        """Switch a fault on for the next `times` requests whose URL holds `path`."""
        self.faults.append(Fault(name, path, times, options))

    def take(self, path: str, *names: str) -> Fault | None:
        """The fault that this request meets, if any."""
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.name in names and fault.path in path:
                    fault.times -= 1
                    return fault
        return None

    def commit_with(self, entry: Entry) -> str:
        """A commit that has this file."""
        commits = [row for one in self.repositories.values() for row in one.commits.items()]
        return next(commit for commit, files in commits if entry in files.values())

    def asked(self, part: str, method: str = "GET") -> list[tuple]:
        """The requests whose path holds `part`."""
        return [row for row in self.requests if part in row[1] and row[0] == method]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True  # as every server of files; else an answer in two writes takes 40 ms on the loopback

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, parts = self.server.hub, urlsplit(self.path)
        path = unquote(parts.path)
        hub.requests.append((self.command, path, self.headers.get("Range", ""), self.headers.get("Authorization", "")))
        fault = hub.take(path, *STATUSES)
        if fault:
            status, code, said = STATUSES[fault.name]
            self._refuse(status, code, fault.options.get("said", said), retry=fault.options.get("seconds"))
        elif path.startswith("/store/"):
            self._store(path.removeprefix("/store/"))
        else:
            self._of_repository(path.strip("/").split("/"), parse_qs(parts.query))

    def _of_repository(self, words: list[str], query: dict) -> None:
        api = words[:2] == ["api", "models"]
        words = words[2:] if api else words
        repository = self.server.hub.repositories.get("/".join(words[:2]))
        if repository is None:
            self._refuse(404, "RepoNotFound", "Repository not found")
        elif repository.gated or repository.token not in ("", self._token()):
            known = self._token() and repository.token in ("", self._token())
            code, text = ("GatedRepo", "not in the authorized list") if known else ("RepoNotFound", "not found")
            self._refuse(403 if known else 401, code, text)
        else:
            self._answer(repository, api, words[2:], query)

    def _answer(self, repository: Repository, api: bool, words: list[str], query: dict) -> None:
        kind, revision = (words[0], words[1]) if len(words) > 1 else ("revision", "main")
        commit = repository.resolve(revision)
        if not commit:
            self._refuse(404, "RevisionNotFound", "Invalid rev id")
        elif api and kind == "revision":
            files = [{"rfilename": name} for name in repository.commits[commit]]
            self._json({"id": repository.name, "modelId": repository.name, "sha": commit, "siblings": files})
        elif api and kind == "tree":
            self._tree(repository, commit, int(query.get("cursor", ["0"])[0]))
        else:
            self._resolve(repository, commit, "/".join(words[2:]))

    def _tree(self, repository: Repository, commit: str, begin: int) -> None:
        hub = self.server.hub
        rows = [entry.row() for entry in repository.commits[commit].values()]
        rows = [] if hub.take(self.path, "empty_list") else rows
        rows = rows[:-1] if hub.take(self.path, "other_list") else rows
        page, end = rows[begin : begin + hub.page], begin + hub.page
        address = f"{hub.url}/api/models/{repository.name}/tree/{commit}?recursive=True&cursor={end}"
        self._json(page, {"Link": f'<{address}>; rel="next"'} if end < len(rows) else {})

    def _resolve(self, repository: Repository, commit: str, name: str) -> None:
        entry = repository.commits[commit].get(name)
        if entry is None:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        headers = {"X-Repo-Commit": commit, "ETag": f'"{entry.etag}"', "Accept-Ranges": "bytes"}
        if not entry.sha256:
            self._body(entry, headers)
            return
        linked = {"X-Linked-Size": str(entry.size), "X-Linked-ETag": f'"{entry.sha256}"'}
        place = {"Location": f"{self.server.hub.store}/store/{entry.sha256}", "Content-Length": "0"}
        self._head(302, {**headers, **linked, **place})

    def _store(self, digest: str) -> None:
        hub = self.server.hub
        stores = (one.blobs for one in hub.repositories.values())
        entry = next((blobs[digest] for blobs in stores if digest in blobs), None)
        if entry is None:
            self._refuse(404, "EntryNotFound", "no such object")
        else:
            self.path = f"/store/{entry.path}"  # faults go by the file's name
            headers = {"ETag": f'"{digest}"', "Accept-Ranges": "bytes"}
            if hub.store == hub.url:  # the client follows a redirect within a host, and takes this for the answer
                headers["X-Repo-Commit"] = hub.commit_with(entry)
            self._body(entry, headers)

    def _body(self, entry: Entry, headers: dict) -> None:
        """The file or the range asked for, with whatever fault it meets on the way."""
        hub, name = self.server.hub, self.path
        begin, status = self._range(), 200
        if begin and not hub.take(name, "no_range"):
            status, headers = 206, {**headers, "Content-Range": f"bytes {begin}-{entry.size - 1}/{entry.size}"}
        else:
            begin = 0
        fault = hub.take(name, "cut", "truncated", "wrong", "slow", "stalled") if self.command == "GET" else None
        length = entry.size - begin
        if fault and fault.name == "truncated":
            length = min(length, fault.options["at"])
        self._head(status, {**headers, "Content-Length": str(length)})
        if self.command == "GET":
            with suppress(OSError):
                self._send(entry, begin, length, fault)

    def _send(self, entry: Entry, begin: int, length: int, fault: Fault | None) -> None:
        hub, stop = self.server.hub, begin + length
        if fault and fault.name in ("cut", "stalled"):
            stop = min(stop, begin + fault.options["at"])
        rate = fault.options["rate"] if fault and fault.name == "slow" else hub.cap
        flip = entry.size // 2 if fault and fault.name == "wrong" else -1
        self._blocks(entry, begin, stop, rate, flip)
        if fault and fault.name == "stalled":
            hub.closing.wait(fault.options.get("seconds", 30))
        if stop < begin + length:
            self.close_connection = True

    def _blocks(self, entry: Entry, begin: int, stop: int, rate: int, flip: int) -> None:
        hub, began, first = self.server.hub, time.monotonic(), begin
        if not rate and flip < 0:
            with entry.source.open("rb") as file:
                self.connection.sendfile(file, begin, stop - begin) if stop > begin else None
            hub.sent += stop - begin
            return
        block = min(BLOCK, max(rate // 20, 1)) if rate else BLOCK
        while begin < stop and not hub.closing.is_set():
            data = bytearray(bytes_of(entry, begin, min(block, stop - begin)))
            if begin <= flip < begin + len(data):
                data[flip - begin] ^= 0xFF
            self.connection.sendall(data)
            begin += len(data)
            hub.sent += len(data)
            if rate:
                hub.closing.wait(max(0.0, (begin - first) / rate - (time.monotonic() - began)))

    def _range(self) -> int:
        wanted = self.headers.get("Range", "").removeprefix("bytes=").partition("-")[0]
        return int(wanted) if wanted.isdigit() else 0

    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _refuse(self, status: int, code: str, text: str, retry: object = None) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": text, "Content-Length": "0"}
        self._head(status, {**headers, **({"Retry-After": str(retry)} if retry is not None else {})})

    def _json(self, data: object, headers: dict | None = None) -> None:
        body = json.dumps(data).encode()
        self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})})
        if self.command == "GET":
            self.wfile.write(body)

    def _head(self, status: int, headers: dict) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()


def main() -> None:
    """`python -m tests.hub.server NAME FOLDER [BYTES_A_SECOND [ADDRESS]]`: one folder, until standard input ends."""
    name, folder, *more = sys.argv[1:]
    cap, address = [*more, *("0", "127.0.0.1")[len(more) :]]
    with Hub([Repository(name, Path(folder))], cap=int(cap), address=address) as hub:
        print(hub.url, flush=True)
        sys.stdin.read()
        print(f"sent {hub.sent}", flush=True)


if __name__ == "__main__":
    main()
