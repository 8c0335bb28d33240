"""A build that several hosts have alike: downloaded by each of them, or once by the controller for all."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from slipway.builds.locks import normal
from slipway.builds.wheels import read_name
from tests.staging.lab import Lab
from tests.staging.site import ANSWER, EXAMPLE, Site

pytestmark = [pytest.mark.staging, pytest.mark.full]
ADDRESS, PORT = "10.77.0.1", 8765


class Index(ThreadingHTTPServer):
    """A package index of a folder of wheels, where the controller is; it counts what leaves it."""

    def __init__(self, lab: Lab, wheels: Path) -> None:
        self.wheels, self.sent = wheels, dict[str, int]()
        with lab.inside():
            super().__init__((ADDRESS, PORT), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def page(self, package: str) -> str:
        """Its wheels, each with its hash."""
        found = [path for path in self.wheels.glob("*.whl") if (read := read_name(path.name)) and read.name == package]
        rows = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(found)]
        return "".join(f'<a href="/files/{name}#sha256={digest}">{name}</a><br>' for name, digest in rows)


class Answer(SimpleHTTPRequestHandler):
    """GET /simple/NAME/ and /files/WHEEL."""

    server: Index

    def do_GET(self) -> None:
        kind, name = unquote(self.path).strip("/").split("/", 1)
        if kind == "simple":
            data, content = self.server.page(normal(name)).encode(), "text/html"
        else:
            data, content = (self.server.wheels / name).read_bytes(), "application/octet-stream"
            self.server.sent[name] = self.server.sent.get(name, 0) + len(data)
        self.send_response(200 if data else 404)
        self.send_header("Content-Type", content)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        """Nothing is said."""


@pytest.fixture
def two_routers(bare: Site) -> Iterator[tuple[Site, Index]]:
    """Both hosts have a router, so both have its build; packages come from the index."""
    inventory = bare.folder / "inventory.py"
    inventory.write_text(
        EXAMPLE.read_text().replace('router = [("h1", _login)]', 'router = [(n, _login) for n in ("h1", "h2")]')
    )
    (bare.folder / "group_vars").symlink_to(EXAMPLE.parent / "group_vars")
    index = Index(bare.lab, bare.wheelhouse)
    data = {"engine.wheelhouse": "null", "engine.index_url": f"http://{ADDRESS}:{PORT}/simple"}
    yield replace(bare, inventory=inventory, data=data), index
    index.shutdown()
    index.server_close()


def smg(index: Index) -> list[int]:
    """How often the router's own wheel, by far the largest, left the index."""
    return [sent // (index.wheels / name).stat().st_size for name, sent in index.sent.items() if name.startswith("smg")]


def test_hosts_alike_are_installed_from_one_download(two_routers: tuple[Site, Index]) -> None:
    site, index = two_routers
    ran = site.deploy()
    assert ran.rc == 0, ran.out
    each, sent = smg(index), sum(index.sent.values())
    assert each == [2]

    site.lab.reset(fresh=True)
    index.sent.clear()
    site.data["engine.download"] = "controller"
    ran = site.deploy()
    assert ran.rc == 0, ran.out
    assert smg(index) == [1]
    assert ran.out.count("downloading its wheels, once for all hosts") == 1
    assert site.ask() == ANSWER
    print(f"bytes from the index for two hosts: {sent} by the hosts, {sum(index.sent.values())} by the controller")

    site.lab.reset(fresh=True)  # other hosts with the same build: nothing is downloaded again
    index.sent.clear()
    ran = site.deploy()
    assert ran.rc == 0, ran.out
    assert sum(index.sent.values()) == 0
