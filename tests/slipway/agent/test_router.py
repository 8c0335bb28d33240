"""What a router is told when its list changes under the hands: by a removal that somebody else began."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.agent.router import Router, RouterError

URL = "http://127.0.0.1:30000"


class Listing(Router):
    """A router whose list of workers is, at each look, the next of these: '' for no worker, else its status."""

    def __init__(self, *looks: str, refuses: bool = False) -> None:
        super().__init__("http://127.0.0.1:1", timeout_s=0.5)
        self.looks, self.refuses = list(looks), refuses
        self.sent: list[tuple[str, str]] = []

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        if method != "GET":
            self.sent.append((method, path))
            return (400, {"error": "no"}) if self.refuses else (202, {})
        status = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        row = {"id": "1", "url": URL, "status": status, "is_healthy": status == "ready"}
        return 200, {"workers": [row] if status else []}


@pytest.mark.parametrize(
    ("looks", "asked"),
    [
        (["ready"], 0),
        (["", "", "pending", "ready"], 1),  # it comes onto the list a while after it was asked for
        (["draining", "draining", "draining", "", "pending", "ready"], 1),
        (["pending", "draining", "draining", "", "pending", "ready"], 1),  # the removal shows only after a first look
        (["pending", "", "pending", "ready"], 1),  # and here it is over already
        (["", "pending", "", "ready"], 2),
    ],
)
def test_a_worker_is_asked_for_once_for_each_time_that_it_is_not_there(looks: list[str], asked: int) -> None:
    router = Listing(*looks)
    router.add({"url": URL})
    assert router.sent == [("POST", "/workers")] * asked


def test_a_worker_that_never_comes_is_asked_for_once_and_named() -> None:
    router = Listing("")
    with pytest.raises(RouterError, match=f"does not take {URL} for healthy"):
        router.add({"url": URL})
    assert router.sent == [("POST", "/workers")]


def test_a_refusal_is_told_in_the_router_s_words() -> None:
    with pytest.raises(RouterError, match=f"does not take {URL}: 400 no"):
        Listing("", refuses=True).add({"url": URL})
