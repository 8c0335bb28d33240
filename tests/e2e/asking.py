"""A few clients that ask through the router all the while something changes, one after the other, streamed and not."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

QUESTION = "What is the capital of France?"


class Asking:
    """With `with`: what was asked, and what was not answered in full."""

    def __init__(self, port: int, clients: int = 4, key: str = "") -> None:
        self.port, self.key = port, key
        self.asked = 0
        self.lost: list[str] = []
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=(bool(number % 2),)) for number in range(clients)]

    def __enter__(self) -> Asking:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(timeout=60)

    def _ask(self, stream: bool) -> None:
        while not self.stop.wait(0.05):
            reason = self._once(stream)
            self.asked += 1
            if reason:
                self.lost.append(reason)

    def _once(self, stream: bool) -> str:
        """Why a request was lost; '' when it was answered in full."""
        body: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 24, "stream": stream,
                                "messages": [{"role": "user", "content": QUESTION}]}  # fmt: skip
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            head = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), head)
            with connection.getresponse() as response:
                text = response.read().decode(errors="replace")
                whole = "data: [DONE]" in text if stream else "Paris" in text
                return "" if response.status == 200 and whole else f"{response.status}: {text[-200:]}"
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            connection.close()
