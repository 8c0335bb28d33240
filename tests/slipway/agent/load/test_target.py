"""Endpoints of other kinds: TLS with a certificate of its own, a key that is asked for, a path in front."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slipway.agent.load.cell import Cell, Client
from slipway.agent.load.prompts import PLAIN
from slipway.agent.load.target import Shape, TargetError, target_of

KEY = "sk-secret"


class Handler(BaseHTTPRequestHandler):
    """Four tokens to whoever has the key, at one path alone."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/serving/v1/chat/completions" or self.headers["Authorization"] != f"Bearer {KEY}":
            return self.answer(401, json.dumps({"error": {"message": "who are you?"}}).encode())
        usage = {"prompt_tokens": len(body["messages"][0]["content"].split()) + 5, "completion_tokens": 4}
        if not body["stream"]:
            message = {"message": {"content": "a b c d"}, "finish_reason": "length"}
            return self.answer(200, json.dumps({"choices": [message], "usage": usage}).encode())
        tokens = [{"choices": [{"delta": {"content": text}}]} for text in "abcd"]
        events = [*tokens, {"choices": [], "usage": usage}]
        return self.answer(
            200, b"".join(b"data: %s\n\n" % json.dumps(e).encode() for e in events) + b"data: [DONE]\n\n"
        )

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """One that nobody has signed but itself."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
             "-keyout", f"{file}.key", "-out", str(file)]  # fmt: skip
    subprocess.run(words, check=True, capture_output=True)
    return file


@pytest.fixture(scope="module")
def url(certificate: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, f"{certificate}.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}/serving/v1"
    server.shutdown()
    server.server_close()


SHAPE = Shape("chat", "tiny", 4, True, True, {})


def measured(url: str, key: str, ca: str) -> dict:
    client = Client(target_of(url, key, ca=ca), PLAIN)
    words = client.calibrate(SHAPE, 40, "seed")
    return client.measure(Cell(SHAPE, 40, 3, 9, "seed", processes=1), words, lambda *_: True)


def test_an_endpoint_behind_tls_a_key_and_a_path_is_measured(url, certificate):
    cell = measured(url, KEY, str(certificate))

    assert (cell["completed"], cell["failed"], cell["failures"]) == (9, 0, {})
    assert (cell["total_input_tokens"], cell["total_output_tokens"]) == (9 * 40, 9 * 4)


def test_without_the_key_the_endpoint_says_why(url, certificate):
    with pytest.raises(TargetError, match=r"answers 401 to a first request: .*who are you"):
        measured(url, "", str(certificate))


def test_a_certificate_that_nobody_trusts_is_said(url):
    with pytest.raises(TargetError, match="certificate verify failed"):
        measured(url, KEY, "")


@pytest.mark.parametrize("wrong", ["10.0.0.1:8000", "ftp://host/", "http://"])
def test_what_is_no_address_is_said(wrong):
    with pytest.raises(TargetError, match="not an http:// or https:// address"):
        target_of(wrong)
