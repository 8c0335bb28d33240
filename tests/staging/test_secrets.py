"""Claim 7 of the staging guide: a secret reaches the process that needs it, and is to be seen nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.staging.lab.commands import run
from tests.staging.site import REPOSITORY, Site

CORE = "hf-Geheim-4711"  # what is looked for: a file may quote the rest
SECRET, OTHER = f"{CORE}-$(id)", "hf-Anders-0815"
NAME = "decode.secret_env.HF_TOKEN"
FILE = "/opt/slipway/deployments/staging/services/decode-0.secret"
# Notes every command line that any process has, as long as /run/watch is there.
WATCH = """
touch /run/watch
systemd-run --quiet --unit=watch sh -c '
    while [ -e /run/watch ]; do cat /proc/[0-9]*/cmdline 2>/dev/null; done > /run/seen'
"""


@pytest.fixture
def secret(site: Site) -> Iterator[Site]:
    site.data = {**site.data, f"{NAME}.env": "STAGING_TOKEN"}
    site.sh("h2", WATCH)
    yield site
    site.data = {key: value for key, value in site.data.items() if not key.startswith(NAME)}


def test_7_a_secret_reaches_its_process_and_nothing_else(secret: Site, tmp_path: Path) -> None:
    dry = secret.dry("--diff", env={"STAGING_TOKEN": SECRET})
    assert f"h2 create {FILE}" in dry.named
    ran = secret.deploy("-vvv", "--debug", env={"STAGING_TOKEN": SECRET})
    assert ran.rc == 0, ran.out[-3000:]
    pid = secret.pid("decode-0")
    assert f"HF_TOKEN={SECRET}" in secret.sh("h2", f"tr '\\0' '\\n' < /proc/{pid}/environ").splitlines()
    assert secret.sh("h2", f"stat -c '%U %a' {FILE}").strip() == "root 600"
    _seen_nowhere(secret, [dry.out, ran.out, json.dumps([dry.changes, ran.changes])])
    _a_changed_secret_is_a_restart(secret)
    _a_secret_no_longer_wanted_goes(secret)


def _seen_nowhere(site: Site, printed: list[str]) -> None:
    assert [text for text in printed if CORE in text] == []
    site.sh("h2", "rm /run/watch; systemctl stop watch || true; test -s /run/seen")
    assert CORE not in site.sh("h2", "tr '\\0' ' ' < /run/seen")
    found = site.sh("h2", f"journalctl --sync; grep -rlF -e '{CORE}' /opt /etc /var /tmp /home /root || true")
    assert found.split() == [FILE]
    assert site.sh("h1", f"grep -rlF '{CORE}' /opt /etc /var/log /tmp /home /root || true") == ""
    assert run("grep", "-rlF", CORE, site.folder, check=False).stdout == ""
    assert run("git", "grep", "-lF", CORE, "--", ":!tests", cwd=REPOSITORY, check=False).stdout == ""


def _a_changed_secret_is_a_restart(site: Site) -> None:
    same = site.dry(env={"STAGING_TOKEN": SECRET})
    assert same.changes == []
    before = site.pids()
    other = site.dry("--diff", env={"STAGING_TOKEN": OTHER})
    assert other.named == [f"h2 update {FILE}", "h2 restart instance decode-0"]
    assert [row["diff"] for row in other.changes] == ["", ""]
    assert CORE not in other.out
    assert OTHER not in other.out
    assert site.deploy(env={"STAGING_TOKEN": OTHER}).changes == other.changes
    assert {name for name, pid in site.pids().items() if pid != before[name]} == {"decode-0"}
    forgotten = site.dry()
    assert forgotten.rc == 1
    assert "secret_env.HF_TOKEN: the environment variable STAGING_TOKEN is not set here; export it" in forgotten.out
    assert "nothing was changed" in forgotten.out


def _a_secret_no_longer_wanted_goes(site: Site) -> None:
    site.data = {key: value for key, value in site.data.items() if not key.startswith(NAME)}
    ran = site.deploy()
    assert ran.rc == 0, ran.out
    assert f"h2 remove {FILE}" in ran.named
    assert site.sh("h2", f"ls {FILE} 2>/dev/null || true") == ""
    assert site.dry().changes == []
    site.healthy = True


def test_7_a_secret_written_where_a_place_is_expected_is_not_printed(deployed: Site) -> None:
    done = deployed.drift("--data", f"{NAME}={OTHER}")
    assert done.returncode == 1
    assert f"{NAME}: got a value that is not shown; must be a mapping" in done.stdout
    assert OTHER not in done.stdout


@pytest.mark.full
def test_7_an_api_key_is_asked_for_by_services_whose_units_do_not_hold_it(site: Site) -> None:
    keys = {"worker.api_key.env": "STAGING_TOKEN", "router.api_key.env": "STAGING_TOKEN"}
    without, site.data = site.data, {**site.data, **keys}
    for host in ("h1", "h2"):
        site.sh(host, WATCH)
    ran = site.deploy("-vvv", "--debug", env={"STAGING_TOKEN": SECRET})
    site.data = without

    assert ran.rc == 0, ran.out[-3000:]
    assert CORE not in ran.out
    assert "api key" in site.ask().lower()
    for host, sealed in (("h1", {"prefill-0.secret", "router-0.secret"}), ("h2", {"decode-0.secret"})):
        site.sh(host, "rm /run/watch; systemctl stop watch || true; test -s /run/seen")
        assert CORE not in site.sh(host, "tr '\\0' ' ' < /run/seen")
        found = site.sh(host, f"journalctl --sync; grep -rlF -e '{CORE}' /opt /etc /var /tmp /home /root || true")
        assert {path.rpartition("/")[2] for path in found.split()} == sealed
