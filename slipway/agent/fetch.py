"""Fetches one commit of a repository of the Hub to a host, proves every file, and says how far it is.

usage: fetch REQUEST.json, with keys path, repo, commit, endpoint, files ({name: [size, 'sha256:HEX' or 'git:HEX']}),
token_file ('' for none; removed once read when `passing_token`), workers, bandwidth (bytes a second, 0 for no cap),
timeout_s (without a byte), patience_s (without a byte in spite of trying again), share (other hosts that fetch or have
the same: {me, members, peers: {name: url}, token_file}, see fetch_peers). endpoint '': only from other hosts.

Runs with the Python of the build `hub`, whose huggingface_hub it imports when there is an endpoint (fetch_hub). A file
has its name only once it is proven; until then it is DIR/.cache/slipway/parts/NAME, from which the next run goes on.
The folder is not complete when this ends: `recheck seal` says so, after the controller has inspected it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from typing import Any

from slipway.agent.fetch_http import TransferError
from slipway.agent.fetch_http import read as read_http
from slipway.agent.fetch_hub import Client
from slipway.agent.fetch_pace import Pace, size
from slipway.agent.fetch_peers import FOLLOWS, STALL_S, Line, Peer, line_of
from slipway.agent.fetch_sink import DiskError, Sink, part_path
from slipway.agent.files import write_whole
from slipway.agent.process import boot_id
from slipway.agent.recheck import forget, proven, set_aside, write_note
from slipway.agent.state import NOTES, free_bytes, notes_path, read_note, stamp, unchanged

SLOWEST_RETRY_S = 30.0
RECORD_EVERY_S = 5.0


class FetchError(Exception):
    """A sentence for the operator: what failed, and what to do."""


class Fetch:
    """One run. rows: what is proven, by file."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.path, self.commit, self.files = request["path"], request["commit"], request["files"]
        self.request, self.lock, self.stop = request, threading.Lock(), threading.Event()
        os.makedirs(notes_path(self.path, "parts"), exist_ok=True)
        self.written = 0.0
        record = read_note(self.path, "record.json")
        trusted = record.get("boot", "") in ("", boot_id())
        self.rows: dict[str, Any] = record.get("files", {}) if trusted else {}
        token, self.timeout_s = token_of(request), request.get("timeout_s", 30.0)
        given = (request["endpoint"], request["repo"], token, self.timeout_s)
        self.client = Client(*given) if request["endpoint"] else None
        self.line: Line | None = line_of(request, sorted(self.files, key=lambda name: -self.files[name][0]))
        self.came: dict[str, int] = {}
        self.why = ""
        forget_note(self.path, FOLLOWS)

    def run(self) -> None:
        """Everything, to the manifest. Raises FetchError and TransferError."""
        self.compare()
        pending = self.pending()
        if pending:
            forget(self.path, pending)
        self.check_disk(pending)
        begun = sum(row[0] for row in self.files.values()) - self.to_come(pending)
        total, count = sum(row[0] for row in self.files.values()), len(self.files)
        with Pace(total, begun, count, self.request.get("bandwidth", 0), self.request.get("every_s", 1.0)) as pace:
            pace.finished = count - len(pending)
            try:
                with self.line or nullcontext():
                    self.download(pending, pace)
            finally:
                self.keep()
        self.compare()
        self.clear_strangers()
        self.write_manifest()
        print(f"{count} files, {size(total)}, every one as {self.lister} lists it{self.origins()}", flush=True)

    @property
    def lister(self) -> str:
        """Who says what each file must be."""
        return "the Hub" if self.client else "the plan"

    def origins(self) -> str:
        """What came from where, when it did not all come from the Hub."""
        told = ", ".join(f"{size(count)} from {name}" for name, count in sorted(self.came.items()))
        return f"; {told}" if self.line and told else ""

    def compare(self) -> None:
        """The commit's list of files must be the planned one, now and at the end: a commit does not change."""
        if self.client is None:
            return
        try:
            found = self.client.files(self.commit)
        except TransferError as error:
            if not self.line or not error.passing or error.status:
                raise
            self.follow(error)
            return
        bad = [name for name, row in self.files.items() if found.get(name) != tuple(row)]
        if bad:
            what = f"{len(bad)} of {len(self.files)} planned files are missing or others, e.g. {min(bad)}"
            fix = "the endpoint is no faithful mirror; correct model.endpoint, or run `slipway checkpoint facts` anew"
            raise FetchError(f"the list of files at {self.request['repo']} {self.commit[:12]} differs: {what}; {fix}")

    def follow(self, error: TransferError) -> None:
        """The Hub is out of reach from here: every file comes from other hosts, and none of them waits for us."""
        print(f"{error}; everything comes from other hosts", flush=True)
        self.client, self.why = None, f"; {error}"
        write_note(self.path, FOLLOWS, {"why": str(error)})

    def pending(self) -> list[str]:
        """What is still to come, largest first. A file that lies there unproven is proven now, or set aside."""
        found = [name for name in self.files if not self.there(name)]
        return sorted(found, key=lambda name: -self.files[name][0])

    def there(self, name: str) -> bool:
        """Whether a file is in its place and proven."""
        row, (wanted, listed) = self.rows.get(name), self.files[name]
        if row and row[3] == listed and not unchanged(self.path, name, row):
            return True
        path = os.path.join(self.path, name)
        if not os.path.lexists(path):
            return False
        wrong, sha256 = proven(path, wanted, listed) if os.path.isfile(path) else ("it is no file", "")
        if wrong:
            print(f"{name}: {wrong}; kept as {set_aside(self.path, name)}", flush=True)
            return False
        self.record(name, sha256)
        return True

    def record(self, name: str, sha256: str) -> None:
        """Remember that a file is proven, so that the next run need not read it."""
        with self.lock:
            self.rows[name] = [*stamp(os.path.join(self.path, name)), self.files[name][1], sha256]
            if time.monotonic() - self.written > RECORD_EVERY_S:
                self.keep()

    def keep(self) -> None:
        """Write the record; what a kill takes from it is only read again, and so is all that a reboot may have taken.

        The bytes need not be on the disk yet when the record is; `recheck seal` sees to that, and drops the boot.
        """
        self.written = time.monotonic()
        kept = {key: row for key, row in self.rows.items() if key in self.files}
        write_note(self.path, "record.json", {"commit": self.commit, "boot": boot_id(), "files": kept})

    def part(self, name: str) -> str:
        """Where the bytes of a file gather."""
        return part_path(self.path, name)

    def to_come(self, pending: list[str]) -> int:
        """Bytes that are still to come."""
        return sum(max(0, self.files[name][0] - length(self.part(name))) for name in pending)

    def check_disk(self, pending: list[str]) -> None:
        """Refuse before the first byte when there is no room for the last."""
        needed, free = self.to_come(pending), free_bytes(self.path)
        if needed > free:
            place = os.path.dirname(self.path)
            missing = f"{size(needed - free)} are missing"
            text = f"{place} has {size(free)} free and {size(needed)} are still to come: {missing}"
            raise FetchError(f"{text}; free them (`slipway checkpoint prune`), or set `root:` to a larger disk")

    def download(self, pending: list[str], pace: Pace) -> None:
        """Every file, some side by side; the first that fails for good ends it, and all that came is kept."""
        with ThreadPoolExecutor(self.request.get("workers", 8)) as pool:
            jobs = [pool.submit(self.one, name, pace) for name in pending]
            done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
            if any(job.exception() for job in done):
                self.stop.set()
                pace.closing.set()
                for job in jobs:
                    job.cancel()
        for job in jobs:
            if not job.cancelled():
                job.result()

    def one(self, name: str, pace: Pace) -> None:
        """One file: all of it, proven, in its place. Other hosts that gave wrong bytes are not asked for it again."""
        (wanted, listed), shunned, attempts = self.files[name], set[str](), 0
        while attempts < 2:
            with Sink(self.part(name), wanted, listed, pace) as sink:
                gave = self.transfer(name, sink, shunned)
            if not (wrong := sink.wrong):
                self.put(name, sink.sha256.hexdigest())
                pace.file()
                return
            shunned |= gave
            attempts += not gave
            self.keep_bad(name)
            pace.lost(wanted)
            what = f"{wrong} (from {', '.join(sorted(gave))})" if gave else wrong
            print(f"{name}: {what}; {'fetched again' if attempts < 2 else 'given up'}", flush=True)
        raise FetchError(f"{name}: twice the bytes were not those that the Hub lists ({wrong}); try another endpoint")

    def transfer(self, name: str, sink: Sink, shunned: set[str]) -> set[str]:
        """Until all bytes are there; the other hosts that gave some.

        Faults that may pass are waited out, as long as bytes keep coming. shunned: hosts not to ask, added to.
        """
        delay, quiet, gave = 1.0, time.monotonic(), set[str]()
        while not sink.whole:
            have, peer = sink.come, self.line.source(name, shunned) if self.line else None
            try:
                self.take(name, sink, peer)
            except TransferError as error:
                if sink.come > have:
                    delay, quiet = 1.0, time.monotonic()
                late = time.monotonic() - quiet > self.request.get("patience_s", 900.0)
                if isinstance(error, DiskError) or late or self.stop.is_set():
                    raise
                delay = self.another(error, peer, shunned) if peer else self.again(error, delay)
            finally:
                gave |= self.credit(peer, sink.come - have)
        return gave

    def take(self, name: str, sink: Sink, peer: Peer | None) -> None:
        """Bytes of a file from whoever has them."""
        if peer:
            read_http(peer.address(name), name, sink, sink.come, min(self.timeout_s, STALL_S))
        elif self.client:
            large = self.files[name][1].startswith("sha256:")
            self.client.read(self.commit, name, sink, sink.come, sink.size, large)
        else:
            raise TransferError(f"{name}: no host that has it answers{self.why}", passing=True)

    def credit(self, peer: Peer | None, count: int) -> set[str]:
        """Remember who gave how much."""
        name = peer.name if peer else "the Hub"
        with self.lock:
            self.came[name] = self.came.get(name, 0) + max(count, 0)
        return {peer.name} if peer and count else set()

    def another(self, error: TransferError, peer: Peer, shunned: set[str]) -> float:
        """Another host may have it; one that has another checkpoint, or has gone, is passed over."""
        if error.passing or error.status == 401:  # 401: a later run has given out another token
            peer.ask()
        else:
            shunned.add(peer.name)
        print(f"{error}; looking who else has it", flush=True)
        self.pause(0.2)
        return 1.0

    def again(self, error: TransferError, delay: float) -> float:
        """Wait as told, or longer each time; the next time to wait."""
        if not error.passing:
            raise error
        pause = max(delay, error.wait_s)
        print(f"{error}; trying again in {pause:.0f} s", flush=True)
        self.pause(pause)
        return min(2 * delay, SLOWEST_RETRY_S)

    def pause(self, seconds: float) -> None:
        """Wait, unless the run ends before."""
        self.stop.wait(seconds)

    def keep_bad(self, name: str) -> None:
        """Bytes that are not what the Hub lists are evidence."""
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.replace(self.part(name), path)
        set_aside(self.path, name)

    def put(self, name: str, sha256: str) -> None:
        """The proven file gets its name."""
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.chmod(self.part(name), 0o644)
        os.replace(self.part(name), path)
        self.record(name, sha256)

    def clear_strangers(self) -> None:
        """An engine loads every shard it finds: what the plan does not name goes to quarantine."""
        for place, folders, names in os.walk(self.path):
            if place == self.path:
                folders[:] = [name for name in folders if name != NOTES.split(os.sep, maxsplit=1)[0]]
            for name in names:
                own = os.path.relpath(os.path.join(place, name), self.path)
                if own not in self.files and own != "manifest.json":
                    print(f"{own} is not of this commit; kept as {set_aside(self.path, own)}", flush=True)

    def write_manifest(self) -> None:
        """manifest.json as slipway/agent/manifest.py makes it, from hashes that were just proven.

        A file of that name in the repository stays what it is; ours lies among our notes then.
        """
        names = sorted(self.files)
        rows = [{"path": name, "size": self.files[name][0], "sha256": self.rows[name][4]} for name in names]
        place = (
            notes_path(self.path, "manifest.json") if "manifest.json" in self.files else f"{self.path}/manifest.json"
        )
        write_whole(place, json.dumps({"schema": 1, "files": rows}, indent=1) + "\n")


def forget_note(folder: str, name: str) -> None:
    """What a note said of an earlier run."""
    with suppress(FileNotFoundError):
        os.unlink(notes_path(folder, name))


def length(path: str) -> int:
    """Bytes of a file; 0 when there is none."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def token_of(request: dict[str, Any]) -> str:
    """The token, read from its file; one that was only sent along for this run does not stay on the host."""
    path = request.get("token_file", "")
    if not path:
        return ""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            token = file.read().strip()
    except OSError as error:
        raise FetchError(f"model.token: {path} cannot be read: {error.strerror}") from None
    if request.get("passing_token"):
        os.unlink(path)
    return token


def main(arguments: list[str]) -> int:
    """Fetch what the request file asks for; one at a time into a folder."""
    with open(arguments[0], encoding="utf-8") as file:
        request = json.load(file)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))  # what came is in its part, a moment's bytes apart
    os.umask(0o022)  # whoever serves the checkpoint reads it
    os.makedirs(os.path.join(request["path"], NOTES), exist_ok=True)
    with open(notes_path(request["path"], "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            Fetch(request).run()
        except (FetchError, TransferError, OSError) as error:
            print(f"error: {error}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
