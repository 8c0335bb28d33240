"""The staging hosts are what they claim to be, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.staging.conftest import REPOSITORY
from tests.staging.lab import Lab, places, remains
from tests.staging.lab.commands import identity, run, until

FETCH = "python3 -c \"import urllib.request as u; print(u.urlopen('http://{}:8000/', timeout=3).status)\""
SERVE = "systemd-run --quiet --unit=web python3 -m http.server --directory /usr/share/misc 8000"


def _said(lab: Lab, name: str, command: str) -> list[str]:
    """The words that a command prints on a host, however it ends."""
    return lab[name].ssh(command, check=False).stdout.split()


def _serve(lab: Lab, name: str) -> None:
    """Something on port 8000 that another host can fetch."""
    lab[name].ssh(SERVE)
    assert until(lambda: _said(lab, name, "ss -Hltn sport = 8000") != [], 20)


def test_a_host_runs_a_real_systemd_as_pid_1(lab: Lab) -> None:
    asked = "cat /proc/1/comm; systemctl --version; systemctl is-system-running; hostname"
    said = lab["h1"].ssh(asked).stdout
    assert said.split()[0] == "systemd"
    assert int(re.search(r"^systemd (\d+)", said, re.M)[1]) >= 252
    assert said.split()[-2:] == ["running", "h1"], lab["h1"].ssh("systemctl --failed").stdout


def test_a_host_has_what_an_air_gapped_engine_needs(lab: Lab) -> None:
    needs = "python3 -m venv --without-pip /tmp/v && ldconfig -p && getent group deploy && python3 --version"
    said = lab["h1"].ssh(needs).stdout
    for library in ("libibverbs.so.1", "libnuma.so.1", "libcurl.so.4"):
        assert library in said
    assert said.splitlines()[-1].startswith("Python 3.11.")


def test_deploy_logs_in_by_key_and_may_sudo(lab: Lab) -> None:
    assert lab["h1"].ssh("id -un; sudo -n id -un", user="deploy").stdout.split() == ["deploy", "root"]


def test_a_host_with_another_key_is_refused(hosts: Lab, tmp_path: Path) -> None:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key")
    another = (tmp_path / "key").read_text()
    hosts["h1"].enter("tee", "/etc/ssh/ssh_host_ed25519_key", input=another)
    hosts["h1"].enter("systemctl", "restart", "ssh")
    refused = hosts["h1"].ssh("true", check=False)
    assert refused.returncode == 255
    assert "HOST IDENTIFICATION HAS CHANGED" in refused.stdout


def test_the_hosts_reach_one_another_and_the_controller_but_nothing_else(hosts: Lab) -> None:
    _serve(hosts, "h1")
    assert hosts["h2"].ssh(FETCH.format("h1")).stdout.strip() == "200"
    with hosts.inside():
        assert urllib.request.urlopen(f"http://{hosts['h1'].ip}:8000/", timeout=5).status == 200
    assert hosts["h1"].ssh("ip route").stdout.split()[0] == "10.77.0.0/24"
    assert "default" not in hosts["h1"].ssh("ip route").stdout
    assert "10.77.0." not in run("ip", "-4", "addr").stdout  # the machine itself has no part in it


def test_a_pulled_cable_cuts_the_network_until_it_is_plugged_in(hosts: Lab) -> None:
    _serve(hosts, "h1")
    hosts["h1"].cable(plugged=False)
    try:
        assert hosts["h2"].ssh(FETCH.format("h1"), check=False).returncode != 0
    finally:
        hosts["h1"].cable(plugged=True)
    assert until(lambda: hosts["h2"].ssh(FETCH.format("h1"), check=False).returncode == 0, 20)


def test_reset_forgets_all_that_a_test_did(hosts: Lab) -> None:
    hosts["h1"].ssh("touch /etc/mark /home/deploy/mark && rm /usr/bin/git && systemctl mask ssh.socket")
    hosts.reset()
    assert hosts["h1"].ssh("ls /etc/mark /home/deploy/mark", check=False).stdout.count("No such file") == 2
    assert _said(hosts, "h1", "command -v git; systemctl is-enabled ssh.socket") == [
        "/usr/bin/git",
        "disabled",
    ]


def test_a_reboot_keeps_the_disk_and_starts_what_is_enabled(hosts: Lab) -> None:
    unit = "[Service]\\nExecStart=sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n"
    hosts["h1"].ssh(f"printf '{unit}' > /etc/systemd/system/nap.service && systemctl enable nap")
    hosts["h1"].ssh("touch /run/mark /tmp/mark /etc/mark")
    before = hosts["h1"].pid1
    assert _said(hosts, "h1", "systemctl is-active nap") == ["inactive"]
    hosts["h1"].reboot()
    assert hosts["h1"].pid1 != before
    assert _said(hosts, "h1", "systemctl is-active nap") == ["active"]
    assert _said(hosts, "h1", "ls /run/mark /tmp/mark /etc/mark 2>&-") == ["/etc/mark"]


def test_hosts_come_back_to_the_newest_snapshot(fresh_lab: Lab) -> None:
    for mark in ("first", "second"):
        fresh_lab["h1"].ssh(f"touch /etc/{mark}.mark")
        fresh_lab["h1"].snapshot()
    fresh_lab["h1"].ssh("rm /etc/*.mark")
    fresh_lab["h1"].reset()
    assert fresh_lab["h1"].ssh("cd /etc; ls *.mark").stdout.split() == ["first.mark", "second.mark"]
    fresh_lab["h1"].rollback()
    assert fresh_lab["h1"].ssh("cd /etc; ls *.mark").stdout.split() == ["first.mark"]


def test_a_memory_limit_is_real(lab: Lab) -> None:
    limited = "systemd-run --quiet --wait --pipe -p MemoryMax={} python3 -c 'bytearray(64 << 20)'"
    assert lab["h1"].ssh(limited.format("32M"), check=False).returncode != 0
    assert lab["h1"].ssh(limited.format("256M"), check=False).returncode == 0


def test_a_reused_process_number_is_not_taken_for_the_host(hosts: Lab) -> None:
    (hosts["h1"].dir / "init.pid").write_text(identity(os.getpid()))
    with pytest.raises(RuntimeError, match="h1 is off"):
        hosts["h1"].enter("systemctl", "poweroff")


UP = """
from tests.staging.lab import Lab
lab = Lab({'h1': '10.77.0.11'}, prefix='%s').up()
print('up', flush=True)
input()
"""


@pytest.fixture
def victim(staging_machine: None) -> tuple[Lab, subprocess.Popen[str]]:
    """A lab of another process, which the test will kill."""
    prefix, pipe = f"stgkill{os.getpid()}", subprocess.PIPE
    command = [sys.executable, "-c", UP % prefix]
    process = subprocess.Popen(command, cwd=REPOSITORY, text=True, stdin=pipe, stdout=pipe)
    assert process.stdout.readline() == "up\n"
    return Lab({"h1": "10.77.0.11"}, prefix=prefix), process


def test_nothing_is_left_after_down_nor_after_a_kill(victim: tuple[Lab, subprocess.Popen[str]]) -> None:
    lab, process = victim
    assert len(remains.processes(lab.prefix)) > 3
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert until(lambda: not remains.processes(lab.prefix), 20), remains.processes(lab.prefix)
    assert lab.leftovers(timeout=0) != []  # files, pins and groups, which only a sweep can remove
    remains.sweep()
    assert lab.leftovers() == []


BUILD = "from tests.staging.lab import base\nprint(base.build())"


def test_a_killed_build_leaves_no_base_and_no_mount(staging_machine: None, tmp_path: Path) -> None:
    env = {**os.environ, "SLIPWAY_CACHE": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", BUILD], cwd=REPOSITORY, env=env, start_new_session=True)
    assert until(lambda: list(tmp_path.glob("staging/*.building/*")), 60)
    time.sleep(0.5)
    process.kill()
    process.wait()
    assert until(lambda: not _running(str(tmp_path)), 20), _running(str(tmp_path))
    assert {p.suffix for p in tmp_path.glob("staging/*") if p.is_dir()} == {".building", ".tmp"}
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def _running(word: str) -> list[str]:
    """Command lines with this word in them."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if word in line]


def test_the_files_of_the_lab_are_outside_the_source_tree() -> None:
    assert not places.staging().is_relative_to(REPOSITORY)


def _pytest_without_namespaces(**environment: str) -> subprocess.CompletedProcess[str]:
    """Our own tests, on a machine that refuses namespaces."""
    command = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all", sys.executable, "-m", "pytest")
    tests = (Path(__file__), "-k", "systemd_as_pid_1 or may_sudo", "-p", "no:cacheprovider")
    env = {k: v for k, v in os.environ.items() if k != "CI"} | environment
    return run(*command, *tests, check=False, cwd=REPOSITORY, env=env)


def test_where_hosts_cannot_run_the_tests_skip_with_one_loud_line(staging_machine: None) -> None:
    done = _pytest_without_namespaces()
    assert done.returncode == 0, done.stdout
    (line,) = re.findall("^SKIPPED.*", done.stdout, re.M)
    assert line.startswith("SKIPPED [2]")
    assert "STAGING NOT TESTED: staging hosts need new namespaces" in line


def test_in_ci_that_is_a_failure(staging_machine: None) -> None:
    done = _pytest_without_namespaces(CI="true")
    assert done.returncode == 1
    assert "CI=true and staging hosts need new namespaces" in done.stdout
