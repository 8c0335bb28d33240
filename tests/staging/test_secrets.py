"""Claim 7 of the staging guide: a secret reaches its process and nobody else."""

from __future__ import annotations

import json

from tests.staging.site import UNITS, Site

SECRET = "hf_never-to-be-seen-4711"
OVERRIDE = ("--data", 'decode.secret_env={"HF_TOKEN": {"env": "TEST_HF_TOKEN"}}')


def test_7_a_secret_is_in_the_process_and_nowhere_that_others_look(site: Site) -> None:
    env = {"TEST_HF_TOKEN": SECRET}
    dry = site.dry("--diff", *OVERRIDE, env=env)
    ran = site.deploy("--diff", *OVERRIDE, env=env)
    assert ran.rc == 0, ran.out
    assert SECRET not in dry.out
    assert SECRET not in ran.out
    assert SECRET not in json.dumps(ran.changes)
    pid = site.pid("decode-0")
    assert f"HF_TOKEN={SECRET}" in site.sh("h2", f"tr '\\0' '\\n' < /proc/{pid}/environ")
    assert SECRET not in site.sh("h2", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert SECRET not in site.sh("h2", f"systemctl show {UNITS['decode-0'][1]}; journalctl --no-pager -q | cat")
    holders = site.sh("h2", f"grep -rl {SECRET} /opt /etc /var 2>/dev/null || true").split()
    modes = [site.sh("h2", f"stat -c '%a %U' {path}").split() for path in holders if "/journal/" not in path]
    assert modes == [["600", "root"]], holders
    again = site.deploy(*OVERRIDE, env=env)
    assert again.changes == []
    assert site.pid("decode-0") == pid


def test_7_another_secret_restarts_just_the_one_worker(site: Site) -> None:
    assert site.deploy(*OVERRIDE, env={"TEST_HF_TOKEN": SECRET}).rc == 0
    before = site.pids()

    ran = site.deploy(*OVERRIDE, env={"TEST_HF_TOKEN": SECRET + "2"})

    assert ran.rc == 0, ran.out
    after = site.pids()
    assert after["decode-0"] != before["decode-0"]
    assert (after["prefill-0"], after["router-0"]) == (before["prefill-0"], before["router-0"])


def test_7_a_secret_that_is_not_there_is_refused_by_name(site: Site) -> None:
    ran = site.deploy(*OVERRIDE)

    assert ran.rc == 1
    assert "TEST_HF_TOKEN" in ran.out
    assert "Traceback" not in ran.out
    site.healthy = True
