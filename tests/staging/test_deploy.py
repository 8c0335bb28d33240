"""Claims 2, 6 and 7 of the staging guide: the whole deploy over SSH, again, and as a dry run."""

from __future__ import annotations

import time

from tests.staging.site import ANSWER, Site, differences


def test_2_the_example_deploys_over_ssh_with_a_key_and_sudo_and_answers(deployed: Site) -> None:
    assert deployed.first.rc == 0
    assert "[h1] start instance router-0" in deployed.first.out
    assert deployed.ask() == ANSWER
    assert deployed.sh("h1", "stat -c %U /opt/slipway /opt/slipway/deployments/staging/cache").split() == [
        "root",
        "slipway",
    ]
    login = deployed.lab["h1"].ssh("id -u; sudo -n id -u", user="deploy").stdout.split()
    assert login == ["1000", "0"]


def test_2_a_host_whose_key_is_not_known_is_not_deployed_to(deployed: Site, tmp_path) -> None:
    for name in ("ssh_config", "known_hosts"):
        text = (
            (deployed.lab.dir / name).read_text().replace(str(deployed.lab.known_hosts), str(tmp_path / "known_hosts"))
        )
        (tmp_path / name).write_text("".join(line + "\n" for line in text.splitlines() if not line.startswith("h2,")))
    ran = deployed.dry(env={"STAGEHOST_DIR": str(tmp_path)})
    assert ran.rc == 1
    assert "No host key for 10.77.0.12 found in known_hosts" in ran.out
    assert "cannot reach h2; nothing was changed on any host" in ran.out


def test_6_the_second_run_changes_nothing_and_keeps_every_process(deployed: Site) -> None:
    before, looks = deployed.pids(), {host: deployed.look(host) for host in ("h1", "h2")}
    began = time.monotonic()
    ran = deployed.deploy()
    print(f"second deploy: {time.monotonic() - began:.1f} s")
    assert ran.rc == 0, ran.out
    assert ran.changes == []
    assert "Success" not in ran.out.partition("--> Results")[0]
    assert deployed.pids() == before
    for host, look in looks.items():
        assert differences(look, deployed.look(host)) == []


def test_7_a_dry_run_of_a_fresh_host_touches_nothing_and_names_what_the_deploy_then_does(bare: Site) -> None:
    looks = {host: bare.look(host, "hash") for host in ("h1", "h2")}
    dry = bare.dry()
    assert dry.rc == 0, dry.out
    for host, look in looks.items():
        after = bare.look(host, "hash")
        assert differences(look, after) == []
        assert after["units"] == look["units"]
    assert "+ExecStart=" in dry.out  # the diff of a unit file
    real = bare.deploy()
    assert real.rc == 0, real.out
    assert real.changes == dry.changes
    for change in dry.named:
        if "release" not in change and "reload" not in change:
            assert f"[{change.replace(' ', '] ', 1)}" in real.out or change.split()[-1] in real.out
    assert bare.ask() == ANSWER


def test_10_a_jump_host_of_ssh_config_carries_the_whole_deploy(deployed: Site, tmp_path) -> None:
    config = (deployed.lab.dir / "ssh_config").read_text()
    jump = "Host h2\n  HostName 10.77.0.12\n  ProxyJump deploy@h1\n"
    (tmp_path / "ssh_config").write_text(jump + config)
    (tmp_path / "known_hosts").write_text((deployed.lab.dir / "known_hosts").read_text())
    before = deployed.pids()

    ran = deployed.deploy(env={"STAGEHOST_DIR": str(tmp_path)})

    assert ran.rc == 0, ran.out
    assert ran.changes == []
    assert deployed.pids() == before
    logins = deployed.sh("h2", "journalctl --no-pager -q -u ssh | grep Accepted | tail -1")
    assert "from 10.77.0.11" in logins  # h1, not the controller
