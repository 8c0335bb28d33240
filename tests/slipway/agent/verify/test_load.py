"""The burst is one: what is asked together is there together, however slow the asking host is."""

from __future__ import annotations

import http.client
import threading
import time
from typing import Any

import pytest

from slipway.agent.verify.load import all_at_once, all_together, burst
from slipway.agent.verify.reasons import RungError

from .cluster import KNOWN, SIZES
from .scripted import Answer, completion, serving

SIZE = 20


class Counting:
    """Answers soon, and knows how many it had at the same time."""

    def __init__(self) -> None:
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def __call__(self, _path: str, _body: dict[str, Any], _headers: dict[str, str]) -> Answer:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.1)
        with self.lock:
            self.now -= 1
        return completion("391")


def asking(url: str, **more: Any) -> dict[str, Any]:
    rows = {"model": "tiny", "known_answers": KNOWN[:1], **SIZES}
    return {"name": "router-0", "url": url, "timeout_s": 5, **rows, **more}


@pytest.fixture
def busy_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host on which threads get their turn one after the other."""
    turn, connect = threading.Lock(), http.client.HTTPConnection.connect

    def slowly(connection: http.client.HTTPConnection) -> None:
        with turn:
            time.sleep(0.05)
        connect(connection)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", slowly)


@pytest.mark.usefixtures("busy_host")
def test_a_burst_is_one_also_from_a_busy_host() -> None:
    counting = Counting()
    with serving(counting) as url:
        asked = [(KNOWN[0], 8)] * SIZE
        results = all_together(asking(url), asked)
        assert (counting.most, [error for _, error in results]) == (SIZE, [""] * SIZE)
        counting.most = 0
        all_at_once(asking(url), asked, SIZE)
        assert counting.most < SIZE  # what the threads alone come to there


def test_who_gets_no_connection_is_counted_and_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, seen = http.client.HTTPConnection.connect, []

    def sometimes(connection: http.client.HTTPConnection) -> None:
        seen.append(connection)
        if len(seen) % 4 == 0:
            raise ConnectionRefusedError
        connect(connection)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", sometimes)
    with serving(lambda *_: completion("391")) as url, pytest.raises(RungError) as told:
        burst(asking(url, burst=SIZE - 1))
    assert str(told.value) == (
        "burst of 19: 5 of 19 requests got no answer; 5 times: connection refused: nothing listens there"
    )


def test_a_connection_that_breaks_as_the_request_goes_is_one_lost_request(monkeypatch: pytest.MonkeyPatch) -> None:
    request, seen = http.client.HTTPConnection.request, []

    def sometimes(connection: http.client.HTTPConnection, *words: Any) -> None:
        seen.append(connection)
        if len(seen) == 3:
            raise BrokenPipeError
        request(connection, *words)

    monkeypatch.setattr(http.client.HTTPConnection, "request", sometimes)
    with serving(lambda *_: completion("391")) as url, pytest.raises(RungError) as told:
        burst(asking(url, burst=SIZE))
    assert "1 of 20 requests got no answer; 1 times: the connection was closed without an answer" in str(told.value)
