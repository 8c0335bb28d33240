"""Claims 4 and 5 of the staging guide: without a network, everything comes from the controller, or a clear list."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cache import cache_folder
from tests.staging.conftest import REPOSITORY
from tests.staging.lab.commands import run, until
from tests.staging.site import ANSWER, EXAMPLE, Site, differences, fill_wheelhouse

ROOT = "/opt/slipway"


def test_4_a_missing_system_library_is_named_with_the_command_before_anything_changes(bare: Site) -> None:
    bare.sh("h2", "apt-get purge -qq -y libnuma1 libcurl4 >/dev/null 2>&1; ldconfig")
    looks = {host: bare.look(host) for host in ("h1", "h2")}
    bare.data["engine.kind"] = "sglang"
    ran = bare.deploy()
    assert ran.rc == 1
    assert (
        "error: h2: system libraries are missing: libnuma.so.1, libcurl.so.4 (the host has no default route" in ran.out
    )
    assert "hint: sudo apt-get install libnuma1 libcurl4" in ran.out
    assert "nothing was changed" in ran.out
    for host, look in looks.items():
        assert differences(look, bare.look(host)) == []


def test_4_packages_are_installed_where_that_was_asked_for_and_a_failure_names_them(bare: Site) -> None:
    bare.sh("h2", "apt-get purge -qq -y libnuma1 >/dev/null 2>&1; ldconfig")
    bare.data.update({"engine.kind": "sglang", "host.packages": "install", "engine.wheelhouse": "null"})
    assert "h2 install package libnuma1" in bare.dry().named
    ran = bare.deploy()
    assert ran.rc == 1
    assert "install it by hand: apt-get install libnuma1" in ran.out
    assert bare.sh("h2", "ls /etc/systemd/system/slipway* 2>/dev/null || true") == ""


def test_4_what_was_set_is_read_back(bare: Site) -> None:
    """useradd says that all is well and does nothing; so the deploy must not go on."""
    bare.sh("h2", "ln -sf /bin/true /usr/sbin/useradd")
    ran = bare.deploy()
    assert ran.rc == 1
    assert re.search(r"\[h2\] .*slipway", ran.out)
    assert "nothing that serves was touched" in ran.out or "No hosts remaining" in ran.out
    assert bare.sh("h1", "systemctl list-units --no-legend 'slipway*'") == ""


def test_5_hosts_without_a_way_out_get_everything_from_the_controller(deployed: Site) -> None:
    for host in ("h1", "h2"):
        assert deployed.sh(host, "ip route show default") == ""
    assert "wheels of router" in deployed.first.out
    assert deployed.ask() == ANSWER


def test_5_wheels_are_gone_once_the_build_is_complete_and_no_part_stays(deployed: Site) -> None:
    left = deployed.sh("h1", "ls /opt/slipway/uploads; ls /opt/slipway/wheelhouse 2>/dev/null || true")
    assert left == ""


def test_5_wheels_travel_once_in_parts_by_content_and_a_broken_upload_goes_on(bare: Site) -> None:
    first = bare.start()
    uploads = f"ls {ROOT}/uploads 2>/dev/null | grep -vc part || true"
    assert until(lambda: int(bare.sh("h1", uploads) or 0) >= 2, 120, pause=0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    kept = bare.sh("h1", f"cd {ROOT}/uploads; sha256sum $(ls | grep -v part)").splitlines()
    assert len(kept) >= 2
    assert all(line.split()[0] == line.split()[1] for line in kept)  # a part's name is its hash
    before = _received(bare)
    ran = bare.deploy()
    assert ran.rc == 0, ran.out
    total = sum(path.stat().st_size for path in bare.wheelhouse.glob("*.whl"))
    assert _received(bare) - before < total - (len(kept) - 1) * 16 * 1024 * 1024
    assert "wheels of router-1.13.0" in ran.out
    assert bare.ask() == ANSWER
    left = bare.sh("h1", f"ls {ROOT}/uploads {ROOT}/wheelhouse; find /tmp /home -name '*.whl' -o -name 'pyinfra*'")
    assert [line for line in left.splitlines() if line and not line.endswith(":")] == []


def _received(site: Site) -> int:
    return int(site.sh("h1", "cat /sys/class/net/eth0/statistics/rx_bytes"))


def test_5_a_wheelhouse_that_lacks_something_is_refused_before_anything_connects(
    deployed: Site, tmp_path: Path
) -> None:
    for path in deployed.wheelhouse.glob("*.whl"):
        if not path.name.startswith(("protobuf", "smg")):
            (tmp_path / path.name).symlink_to(path)
    command = (sys.executable, "-m", "slipway.cli", "check", "--data", f"engine.wheelhouse={tmp_path}", EXAMPLE)
    done = run(*command, check=False, cwd=REPOSITORY)
    assert done.returncode == 1
    assert (
        f"error: h1: engine.wheelhouse {tmp_path} lacks protobuf==7.36.2, smg==1.13.0, which router-1.13.0"
        in done.stdout
    )
    assert f"slipway wheelhouse INVENTORY --into {tmp_path}" in done.stdout


@pytest.mark.engine
@pytest.mark.full
def test_5_the_real_engine_on_the_cpu_is_deployed_without_a_network_and_answers(bare: Site) -> None:
    """Half a minute of download the first time (0.9 GB, kept), then a build of 2.5 GB on each host."""
    bare.data["engine.kind"] = "sglang"
    lock = (REPOSITORY / "slipway/builds/sglang-0.5.13-cpu.txt").stat().st_size
    folder = cache_folder() / f"wheelhouse-cpu-{lock}"
    bare.wheelhouse = fill_wheelhouse(folder, "--data", "engine.kind=sglang")
    began = time.monotonic()
    ran = bare.deploy(timeout=900)
    print(f"the real engine, air-gapped: {time.monotonic() - began:.0f} s")
    assert ran.rc == 0, ran.out
    assert bare.ask(timeout=60) == ANSWER
    again = bare.deploy()
    assert again.rc == 0, again.out
    assert again.changes == []
