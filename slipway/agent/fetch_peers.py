"""Where each file of a checkpoint comes from when several hosts fetch the same one: one copy from the Hub in all.

The files are dealt out: the host whose turn it is takes a file from the Hub, the next one from that host while it is
still coming, and so on down the line. Every file begins its line at another host, so that all of them take a share
from the Hub and pass a share on. A host that is gone is left out of the line; when all before us are, it is our turn.
One that cannot reach the Hub follows: it gives what it has whole, and nobody waits for it.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from slipway.agent.fetch_http import Address

FOLLOWS = "follows.json"  # a note of the fetch: the Hub is out of reach here, so nobody may wait for our turn
ASK_S = 1.0  # between two questions to the same host
ANSWER_S = 4.0  # a host that has not answered by then is taken for gone
STALL_S = 15.0  # without a byte from a host, after which we look again who has the file


class Peer:
    """Another host that has, fetches or will fetch the same checkpoint. The token is read anew for each request."""

    def __init__(self, name: str, url: str, token_file: str) -> None:
        self.name, self.url, self.token_file = name, url, token_file
        self.state, self.whole = "gone", frozenset()  # type: str, frozenset[str]

    def headers(self) -> dict[str, str]:
        """What lets us in there; a later run of the controller gives out another token."""
        try:
            with open(self.token_file, encoding="utf-8") as file:
                return {"Authorization": f"Bearer {file.read().strip()}"}
        except OSError:
            return {}

    def ask(self) -> None:
        """What it has now."""
        request = urllib.request.Request(f"{self.url}/have", headers=self.headers())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=ANSWER_S) as answer:
                found = json.load(answer)
            self.whole, self.state = frozenset(found["whole"]), str(found["state"])
        except (OSError, ValueError, KeyError):
            self.state = "gone"

    def offers(self, name: str) -> bool:
        """Whether the file can be had from there, all of it or as it comes."""
        return self.state == "fetching" or (self.state != "gone" and name in self.whole)

    def address(self, name: str) -> Address:
        """Where the file is read."""
        return Address(f"{self.url}/files/{quote(name)}", self.headers())


class Line:
    """The hosts of one fetch. me: our name. members: who fetches, in order; everyone else has it already.

    files: names in the order in which they are fetched, which is the same on every host.
    """

    def __init__(self, me: str, members: list[str], peers: Iterable[Peer], files: list[str]) -> None:
        self.me, self.members = me, members
        self.peers = {peer.name: peer for peer in peers}
        self.turns = {name: number for number, name in enumerate(files)}
        self.closing, self.threads = threading.Event(), []  # type: threading.Event, list[threading.Thread]

    def __enter__(self) -> Line:
        self.threads = [threading.Thread(target=self._watch, args=[peer], daemon=True) for peer in self.peers.values()]
        ready = [threading.Thread(target=peer.ask, daemon=True) for peer in self.peers.values()]
        for thread in ready:
            thread.start()
        for thread in ready:
            thread.join(ANSWER_S + 1)
        for peer in self.peers.values():
            if peer.state == "gone":
                print(f"{peer.name} does not answer at {peer.url}; the others do without", flush=True)
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.closing.set()

    def _watch(self, peer: Peer) -> None:
        while not self.closing.wait(ASK_S):
            peer.ask()

    def before(self, name: str) -> list[Peer]:
        """Those who are to have a file before us, the nearest first."""
        start = self.turns[name] % len(self.members)
        order = [*self.members[start:], *self.members[:start]]
        mine = order.index(self.me)
        return [self.peers[host] for host in reversed(order[:mine]) if host in self.peers]

    def source(self, name: str, shunned: Iterable[str]) -> Peer | None:
        """Whom to take a file from; None when nobody has it and it is our turn. shunned: names not to be asked."""
        near = [peer for peer in self.before(name) if peer.name not in shunned]
        far = [peer for key, peer in sorted(self.peers.items()) if key not in shunned and name in peer.whole]
        turn = self.turns[name] % max(len(far), 1)
        return next((peer for peer in [*near, *far[turn:], *far[:turn]] if peer.offers(name)), None)


def line_of(request: dict[str, Any], files: list[str]) -> Line | None:
    """The line of a request's share: {me, members, peers: {name: url}, token_file}; None when we are alone."""
    share = request.get("share") or {}
    if not share.get("peers"):
        return None
    peers = [Peer(name, url, share["token_file"]) for name, url in sorted(share["peers"].items())]
    return Line(share["me"], share["members"], peers, files)
