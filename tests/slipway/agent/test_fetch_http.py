"""Reading bytes over HTTP and TLS, past the Hub's client: what is trusted, and how long a server asks to wait."""

import io
import shutil
import ssl
import subprocess
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from slipway.agent.fetch_http import Address, TransferError, copy, read, waiting_time
from slipway.agent.fetch_hub import library, tls_context

BODY = b"weights" * 100_000


class Sink(io.BytesIO):
    """What is written, and how often. piece: room for one read."""

    def __init__(self, piece=64 * 1024):
        super().__init__()
        self.piece, self.writes = piece, 0

    def write(self, data):
        self.writes += 1
        return super().write(data)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key", "-out", folder / "cert"]  # fmt: skip
    subprocess.run(words, check=True, capture_output=True)
    return folder


@pytest.fixture
def store(certificate):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert", certificate / "key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        yield f"https://localhost:{server.server_address[1]}/store?signature=secret"
        server.shutdown()


def test_a_store_with_a_certificate_that_is_trusted_is_read(store, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    library(5.0)
    sink = Sink()
    read(Address(store, {}, tls_context), "model", sink, 0, 5.0)
    assert sink.getvalue() == BODY


def test_records_of_tls_are_written_several_at_a_time(store, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    sink = Sink(1 << 20)
    read(Address(store, {}), "model", sink, 0, 5.0)
    assert sink.getvalue() == BODY
    assert sink.writes <= 4  # of 43 records


@pytest.mark.parametrize("length", [len(BODY), None])
def test_what_came_before_a_cut_is_in_the_sink(length):
    sink, source = Sink(1 << 20), Cut(length)
    with pytest.raises(TimeoutError):
        copy(source, "model", sink)
    assert sink.getvalue() == BODY[:1000]


class Cut:
    """An answer that ends in a fault after 1000 bytes."""

    def __init__(self, length):
        self.length, self.fp, self.given = length, self, False

    def readinto1(self, room):
        if self.given:
            raise TimeoutError
        room[:1000], self.given = BODY[:1000], True
        return 1000


def test_one_that_is_not_trusted_is_named_without_its_signature(store):
    with pytest.raises(
        TransferError, match=r"the certificate of https://localhost:[0-9]+ is not trusted here"
    ) as caught:
        read(Address(store, {}, tls_context), "model", Sink(), 0, 5.0)
    assert not caught.value.passing
    assert "secret" not in str(caught.value)


def test_a_server_says_how_long_to_wait_in_seconds_or_by_a_date():
    assert waiting_time("7") == 7
    assert 50 < waiting_time(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert waiting_time("") == waiting_time("soon") == 0
    assert waiting_time("999999") == 3600
