"""A server whose answers a test writes down: for what neither the simulator nor the router does."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = tuple[int, Any]
Script = Callable[[str, dict[str, Any], dict[str, str]], Answer]  # path, body, headers -> status, what to answer


def completion(text: str | None, finish: str = "stop", tokens: int = 4, **message: Any) -> Answer:
    """A chat completion as SGLang gives it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}
    return 200, {"model": "tiny", "choices": [choice], "usage": usage}


def plain(text: str, tokens: int = 4) -> Answer:
    """A plain completion."""
    usage = {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}
    choice = {"index": 0, "text": text, "finish_reason": "stop"}
    return 200, {"model": "tiny", "choices": [choice], "usage": usage}


def self_signed(folder: Path) -> Path:
    """A certificate that signs itself, with its key; beside it, as .crt, without."""
    path = folder / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=slipway-test",
         "-keyout", path, "-out", path.with_suffix(".crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + path.with_suffix(".crt").read_text())
    return path


class Server(ThreadingHTTPServer):
    """One that a burst gets its connections to."""

    request_queue_size = 128


@contextmanager
def serving(script: Script, certificate: Path | None = None) -> Iterator[str]:
    """Serve a script on a free port; gives the base URL. certificate: PEM with its key, for TLS."""

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            status, answer = script(self.path, body, {key.lower(): value for key, value in self.headers.items()})
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.reply()

        def do_POST(self) -> None:
            self.reply()

        def log_message(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that breaks off is part of the test
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
