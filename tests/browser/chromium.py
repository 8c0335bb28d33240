"""Headless Chromium, driven over its DevTools pipe: no port, no driver, no package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """The browser of this machine; SLIPWAY_TEST_CHROMIUM names another."""
    named = os.environ.get("SLIPWAY_TEST_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab."""

    def __init__(self, send, receive) -> None:
        self._send, self._receive, self._last, self._session = send, receive, 0, None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")
        self.ask("Log.enable")
        self.said: list[str] = []

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        self._send({**message, "sessionId": self._session} if self._session else message)
        while True:
            reply = self._receive()
            if reply.get("method") == "Log.entryAdded":
                self.said.append(reply["params"]["entry"]["text"])
            if reply.get("id") == self._last:
                assert "error" not in reply, reply
                return reply["result"]

    def open(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=path.as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def value(self, script: str) -> Any:
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"]["value"]

    def screenshot(self) -> bytes:
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser with an empty profile and no network; ended again."""
    to_read, to_write = os.pipe(), os.pipe()
    command = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
               "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}"]  # fmt: skip
    ends = (to_read[0], to_write[1])  # DevTools reads from 3 and writes to 4
    script = f"import os, sys; os.dup2({ends[0]}, 3); os.dup2({ends[1]}, 4); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen([sys.executable, "-c", script, *command], pass_fds=ends, stderr=subprocess.DEVNULL)
    os.close(to_read[0])
    os.close(to_write[1])
    with os.fdopen(to_read[1], "wb", 0) as out, os.fdopen(to_write[0], "rb") as back:
        try:
            yield Page(lambda message: out.write(json.dumps(message).encode() + b"\0"), lambda: _message(back))
        finally:
            process.terminate()
            process.wait(20)


def _message(stream) -> dict[str, Any]:
    data = bytearray()
    while (byte := stream.read(1)) != b"\0":
        assert byte, "the browser is gone"
        data += byte
    return json.loads(data)
