"""Rollbacks on real hosts that meet what should not be: a host that is down, a release that is not what it was."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.staging.crash import Scene, half, remains
from tests.staging.pairs import HOME, WORKERS, flag_of, read_until, served
from tests.staging.site import ANSWER, COLOURS, Site

ROLLBACK = "playbooks/rollback.py"
PACKAGES = "/usr/lib/python3/dist-packages"  # a .pth there is read by each python3 of the host


def current(site: Site) -> dict[str, str]:
    return {host: site.sh(host, f"readlink {HOME}/current").strip() for host in ("h1", "h2")}


def flags(site: Site) -> dict[str, str]:
    return {name: flag_of(site, name) for name in WORKERS}


def clean(site: Site) -> list[str]:
    return [line for host in ("h1", "h2") for line in (*remains(site, host), *half(site, host))]


@pytest.fixture
def two(pairs: Site) -> Iterator[Site]:
    """A release with 31 and a later one with 32, which is current."""
    for flag in (31, 32):
        ran = pairs.deploy("--data", f"decode.max_running_requests={flag}")
        assert ran.rc == 0, ran.out
    yield pairs
    assert clean(pairs) == []


@contextlib.contextmanager
def off(site: Site, host: str) -> Iterator[None]:
    """A host that has no power for a while."""
    site.lab[host].stop()
    try:
        yield
    finally:
        site.lab[host].start()


def test_a_host_that_is_down_ends_a_rollback_before_anything_changes(pairs: Site) -> None:
    before, pids = current(pairs), pairs.pid("router-0")
    with off(pairs, "h2"):
        ran = pairs.impatient().playbook("rollback")

    assert ran.rc != 0, ran.out
    assert "cannot reach h2; nothing was changed on any host" in ran.out
    number = before["h1"].rpartition("/")[2]
    assert f"h1: release {number} is current; running: decode-0, prefill-0, router-0" in ran.out
    assert f"h2: does not answer; release {number} has decode-1, prefill-1 there" in ran.out
    assert "When h2 answers again the same command goes on" in ran.out
    assert "Traceback" not in ran.out
    assert current(pairs) == before
    assert pairs.pid("router-0") == pids
    assert pairs.answers()
    assert clean(pairs) == []


@pytest.mark.full
@pytest.mark.parametrize("at", ["h1: stop decode-0", "h2: stop decode-1", "step 2 of "])
def test_a_host_that_goes_down_in_a_rollback_is_told_and_the_next_one_converges(two: Site, at: str) -> None:
    before = current(two)
    process = Scene("rollback", two.impatient(), (ROLLBACK,), serves=True).start()
    said = read_until(process, at)
    with off(two, "h2"):
        rest, _ = process.communicate(timeout=300)
        said = COLOURS.sub("", said + rest)
        assert process.returncode == 1, said
        assert "Traceback" not in said, said
        assert "could not be put back" in said, said
        assert "every host keeps its releases" in said, said
        assert "h2: DOES NOT ANSWER" in said, said
        assert "h1: decode-0 runs configuration" in said, said
        assert "this goes on from here:" in said, said
        assert two.answers(120), said  # what is left serves, or h1 sees to it by itself
    assert current(two) == before

    again = two.playbook("rollback", timeout=600)

    assert again.rc == 0, again.out
    assert [flag_of(two, name) for name in ("decode-0", "decode-1")] == ["31", "31"]
    assert served(two) == [ANSWER] * 6


# ---- what else may be in the way of a release


def refused(site: Site, ran_of: Site, *words: str, says: tuple[str, ...]) -> None:
    """A rollback that must change nothing and say why."""
    before, served_by = current(site), flags(site)
    ran = ran_of.playbook("rollback", *words)
    assert ran.rc != 0, ran.out
    for text in (*says, "nothing was changed"):
        assert text in ran.out, ran.out
    assert "Traceback" not in ran.out
    assert (current(site), flags(site)) == (before, served_by)
    assert clean(site) == []


def with_hosts(site: Site, folder: Path, **lines: str) -> Site:
    """The site with another inventory beside its group_vars."""
    text = site.inventory.read_text()
    for name, hosts in lines.items():
        start = text.index(f"\n{name} = ") + 1
        text = text.replace(text[start : text.index("\n", start)], f"{name} = {hosts}")
    (folder / "group_vars").symlink_to((site.folder / "group_vars").resolve())
    (folder / "inventory.py").write_text(text)
    return replace(site, folder=folder, inventory=folder / "inventory.py")


@pytest.mark.full
def test_an_unknown_release_is_refused_with_those_that_served(pairs: Site) -> None:
    refused(pairs, pairs, "--data", "release=999",
            says=("release=999: there is no such release; those that served are 1",))  # fmt: skip


@pytest.mark.full
def test_a_release_of_a_host_that_was_removed_or_renamed_is_refused(pairs: Site, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    removed = with_hosts(pairs, one, prefill='[("h1", _login)]', decode='[("h1", _login)]')
    refused(pairs, removed, "--data", "release=1",
            says=("release 1 was deployed on h1, h2", "the inventory has h1: h2 was removed or renamed"))  # fmt: skip
    beta = f'("beta", {{**_login, "ssh_hostname": "{pairs.lab["h2"].ip}"}})'
    renamed = with_hosts(pairs, other, prefill=f'[("h1", _login), {beta}]', decode=f'[("h1", _login), {beta}]')
    refused(pairs, renamed, "--data", "release=1",
            says=("the inventory has h1, beta: h2 was removed or renamed since",))  # fmt: skip


@pytest.mark.full
def test_a_release_whose_build_was_pruned_is_refused(pairs: Site) -> None:
    build = pairs.sh("h2", "ls -d /opt/slipway/engines/simulator-*").split()[0]
    pairs.sh("h2", f"mv {build} /opt/slipway/away")
    try:
        refused(pairs, pairs, "--data", "release=1",
                says=("release 1 cannot be put back, as it needs what is not there:",
                      f"h2: build {os.path.basename(build)}",
                      "a deploy with the configuration of that release brings it again"))  # fmt: skip
    finally:
        pairs.sh("h2", f"mv /opt/slipway/away {build}")


# ---- a deploy that writes a release


@contextlib.contextmanager
def full_disk(site: Site, host: str, folder: str) -> Iterator[None]:
    """A folder that has no room left, with what was in it."""
    mount = f"mount -t tmpfs -o size=16m,nr_inodes=0 none {folder}"
    site.sh(host, f"cp -a {folder} /root/kept && {mount} && cp -a /root/kept/. {folder}/")
    site.sh(host, f"head -c 64M /dev/zero > {folder}/ballast 2>/dev/null || true")
    try:
        yield
    finally:
        site.sh(host, f"umount {folder} && rm -rf /root/kept")


@pytest.mark.full
def test_a_full_disk_while_a_release_is_written_is_told_before_traffic_is_touched(pairs: Site) -> None:
    before, pids = current(pairs), {name: flag_of(pairs, name) for name in WORKERS}
    with full_disk(pairs, "h2", f"{HOME}/releases"):
        ran = pairs.deploy("--data", "decode.max_running_requests=33")

        assert ran.rc == 1, ran.out
        assert "h2: release" in ran.out
        assert "could not be written: No space left on device" in ran.out
        assert "free some space and run again; nothing that serves was touched" in ran.out
        assert "Traceback" not in ran.out
        assert (current(pairs), flags(pairs)) == (before, pids)
        assert pairs.answers()
    again = pairs.deploy("--data", "decode.max_running_requests=33")
    assert again.rc == 0, again.out
    assert flag_of(pairs, "decode-1") == "33"
    assert clean(pairs) == []


@pytest.mark.full
def test_a_clock_that_is_off_is_warned_of_and_releases_keep_their_order(pairs: Site) -> None:
    number = int(current(pairs)["h1"].rpartition("/")[2])
    skew = "import time as _time\n_now = _time.time\n_time.time = lambda: _now() - 7200\n"
    pairs.sh("h2", f"cat > {PACKAGES}/skew.py <<'END'\n{skew}END\necho 'import skew' > {PACKAGES}/skew.pth")
    try:
        ran = pairs.deploy("--data", "decode.max_running_requests=34")
    finally:
        pairs.sh("h2", f"rm {PACKAGES}/skew.*")
    assert ran.rc == 0, ran.out
    assert "warning: h2: its clock is 7" in ran.out
    assert "s behind this machine's" in ran.out
    assert "releases are ordered by number and are not affected" in ran.out
    after = {int(target.rpartition("/")[2]) for target in current(pairs).values()}
    assert len(after) == 1
    assert after.pop() > number
    assert clean(pairs) == []


@pytest.mark.full
def test_a_host_that_came_after_the_release_loses_what_runs_there(pairs: Site, tmp_path: Path) -> None:
    """The release had nothing on it.

    A deployment of one host listens on loopback; when it grows, all workers go over to the network together, the new
    host's with them: its decode would not reach a prefill that still listens on loopback.
    """
    small = with_hosts(pairs, tmp_path, prefill='[("h1", _login)]', decode='[("h1", _login)]')
    shrunk = small.deploy()
    assert shrunk.rc == 0, shrunk.out
    number = current(pairs)["h1"].rpartition("/")[2]
    grown = pairs.deploy()
    assert grown.rc == 0, grown.out
    assert "must not serve beside one another: reach loopback or network" in grown.out

    back = pairs.playbook("rollback", "--data", f"release={number}")

    assert back.rc == 0, back.out
    assert "h2: remove decode-1" in back.out
    assert pairs.answers()
    assert flag_of(pairs, "decode-1") == ""
    assert pairs.sh("h2", "systemctl list-units --no-legend 'slipway-staging-*'").strip() == ""

    anew = pairs.deploy()

    assert anew.rc == 0, anew.out
    assert "h2: start decode-1" in anew.out
    assert served(pairs) == [ANSWER] * 6
