"""A router whose certificate signs itself: not trusted until it is named, and then deployed to and changed as any."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.site import Site

pytestmark = pytest.mark.full  # four deploys; tests/slipway/agent/simulator/test_router.py shows the core
REQUEST = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=slipway-test"]


@pytest.fixture
def encrypted(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("t")  # short: sockets lie below it
    subprocess.run(
        [*REQUEST, "-keyout", tmp_path / "tls.key", "-out", tmp_path / "tls.crt"], check=True, capture_output=True
    )
    flags = {"tls_cert_path": str(tmp_path / "tls.crt"), "tls_key_path": str(tmp_path / "tls.key")}
    site = Site("tls", tmp_path / "r", 21650, {"engine.kind": "simulator", "router.server_args": flags})
    yield site, str(tmp_path / "tls.crt")
    assert site.destroy().rc == 0


def test_a_certificate_that_signs_itself_is_named_and_the_deployment_proven_and_changed(encrypted):
    site, certificate = encrypted
    strange = site.deploy()
    assert strange.rc == 1, strange.out[-2000:]
    assert "its certificate is not trusted here (self-signed certificate); name the certificate" in strange.out
    assert "verify.ca_file" in strange.out

    site.data["verify.ca_file"] = certificate
    proven = site.deploy()
    assert proven.rc == 0, proven.out
    assert f"curl -s https://127.0.0.1:{site.ports['router.port']}" in proven.out
    before = site.pids()

    changed = site.deploy(decode__env={"SOME": "change"})
    assert changed.rc == 0, changed.out
    assert {name for name, pid in site.pids().items() if pid != before[name]} == {"decode-0"}

    site.hit(": start decode-0", **{"rollout.confirm_s": 10, "decode.env": {"NEVER": "proven"}})
    assert site.put_back() == ["ok"]
    again = site.run("-y", "playbooks/verify.py", **{"decode.env": {"SOME": "change"}})
    assert again.rc == 0, again.out
    assert b"NEVER=" not in Path(f"/proc/{site.pids()['decode-0']}/environ").read_bytes()
