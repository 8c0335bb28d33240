"""Claim 3 of the staging guide: the units, as a real systemd sees them."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from slipway.front import open_inventory
from slipway.plan.facts import ASSUMED
from slipway.services import manager_of
from tests.staging.lab.commands import until
from tests.staging.site import EXAMPLE, UNITS, Site

PROPERTIES = (
    "User", "Restart", "RestartUSec", "KillMode", "TimeoutStartUSec", "TimeoutStopUSec", "SuccessExitStatus",
    "WantedBy", "PartOf", "LimitMEMLOCK", "LimitNOFILE", "After",
)  # fmt: skip


def _shown(site: Site, instance: str) -> dict[str, str]:
    host, unit = UNITS[instance]
    lines = site.sh(host, f"systemctl show -p {','.join(PROPERTIES)} {unit}").splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("instance", UNITS)
def test_3_a_unit_is_clean_by_the_output_of_systemd_analyze_too(deployed: Site, instance: str) -> None:
    host, unit = UNITS[instance]
    said = deployed.sh(host, f"systemd-analyze verify --man=no /etc/systemd/system/{unit} 2>&1; echo rc $?")
    assert said.split() == ["rc", "0"]


def test_3_an_unknown_key_would_have_been_seen(deployed: Site) -> None:
    """Its exit code alone says nothing, so the test above reads what it prints."""
    script = (
        "sed s/KillMode/KilMode/ /etc/systemd/system/%s > /tmp/x.service; systemd-analyze verify /tmp/x.service 2>&1"
    )
    assert "Unknown key 'KilMode'" in deployed.sh("h2", script % UNITS["decode-0"][1])


@pytest.mark.parametrize("instance", UNITS)
def test_3_a_unit_is_exposed_at_most_3_0(deployed: Site, instance: str) -> None:
    host, unit = UNITS[instance]
    score = _exposure(deployed.sh(host, f"systemd-analyze security --no-pager {unit}"))
    print(f"{instance}: {score}")
    assert score <= 3.0


def test_3_a_worker_with_gpus_is_exposed_at_most_3_0_and_may_open_them(deployed: Site) -> None:
    text = _unit_with_gpus()
    script = "cat > /tmp/gpu.service; systemd-analyze security --no-pager --offline=yes /tmp/gpu.service"
    said = deployed.lab["h2"].enter("sh", "-ec", script, input=text).stdout
    print(f"worker with GPUs: {_exposure(said)}")
    assert _exposure(said) <= 3.0
    for device in ("char-nvidia ", "char-nvidia-uvm ", "char-infiniband_verbs "):
        assert f"DeviceAllow={device}rw" in text
    assert "PrivateDevices" not in re.sub("#.*", "", text)
    checked = deployed.sh("h2", "systemd-analyze verify --man=no /tmp/gpu.service 2>&1; rm /tmp/gpu.service")
    assert [line for line in checked.splitlines() if "gpu.service" in line and "not executable" not in line] == []


def _unit_with_gpus() -> str:
    plan = open_inventory(EXAMPLE, {}).plan(dict.fromkeys(("h1", "h2"), ASSUMED))
    instance = replace(plan.of("decode")[0], gpus=(0, 1))
    return manager_of(plan.host("h2"), plan.deployment).instance_files(instance)[0].text


def _exposure(said: str) -> float:
    return float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)[1])


def test_3_workers_and_router_run_as_a_user_of_their_own(deployed: Site) -> None:
    for instance, (host, _) in UNITS.items():
        assert deployed.sh(host, f"stat -c %U /proc/{deployed.pid(instance)}").strip() == "slipway"


def test_3_time_outs_follow_the_budget_and_a_kill_by_the_engine_itself_is_no_failure(deployed: Site) -> None:
    shown = _shown(deployed, "decode-0")
    assert shown["TimeoutStartUSec"] == "5min"  # start_budget_s: 300
    assert shown["TimeoutStopUSec"] == "45s"  # drain_s: 30, and 15 for what is left
    assert "KILL" in shown["SuccessExitStatus"]  # 0.5.13 ends so
    assert (shown["Restart"], shown["KillMode"]) == ("always", "mixed")
    assert "network-online.target" in shown["After"]
    assert shown["WantedBy"] == shown["PartOf"] == "slipway-staging.target"


def test_3_jit_caches_lie_below_the_build_and_can_be_written(deployed: Site) -> None:
    pid = deployed.pid("decode-0")
    env = dict(line.split("=", 1) for line in deployed.sh("h2", f"tr '\\0' '\\n' < /proc/{pid}/environ").splitlines())
    build = deployed.sh("h2", "cd /opt/slipway/engines; echo simulator-*").strip()
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "SGLANG_DG_CACHE_DIR"):
        assert env[name].startswith(f"/opt/slipway/deployments/staging/cache/{build}/")
    inside = f"nsenter -t {pid} -m --setuid $(id -u slipway) sh -c"
    deployed.sh(
        "h2", f"{inside} 'mkdir -p {env['TRITON_CACHE_DIR']} && touch {env['TMPDIR']}/x && rm {env['TMPDIR']}/x'"
    )
    assert "Read-only" in deployed.sh("h2", f"{inside} 'touch /opt/slipway/x' 2>&1 || true")


def test_3_what_the_kernel_did_not_grant_is_told_with_both_numbers(deployed: Site) -> None:
    assert _shown(deployed, "decode-0")["LimitMEMLOCK"] == "infinity"  # what systemd says
    limits = deployed.sh("h2", f"cat /proc/{deployed.pid('decode-0')}/limits")
    memlock, nofile = (re.search(rf"{name} +(\d+)", limits)[1] for name in ("Max locked memory", "Max open files"))
    line = (
        "warning: decode-0 on h2: the kernel did not grant its limits: "
        f"locked memory (bytes) {memlock}, asked infinity; open files {nofile}, asked 1048576 [limit-not-granted]"
    )
    assert line in deployed.first.out  # read back after the start
    assert line in deployed.dry().out


def test_3_no_process_of_an_instance_stays_when_its_unit_stops(site: Site) -> None:
    unit = UNITS["decode-0"][1]
    group = site.sh("h2", f"systemctl show -p ControlGroup --value {unit}").strip()
    site.sh("h2", f"kill -STOP {site.pid('decode-0')}; systemctl kill --signal=KILL {unit}; systemctl stop {unit}")
    assert site.sh("h2", f"cat /sys/fs/cgroup/unified{group}/cgroup.procs 2>/dev/null || true") == ""
    site.sh("h2", f"systemctl start {unit}")
    assert site.answers()
    site.healthy = True


def test_9_a_killed_worker_is_restarted_by_systemd_and_the_router_recovers(site: Site) -> None:
    before = site.pid("decode-0")
    site.sh("h2", f"kill -9 {before}")
    began = time.monotonic()
    assert until(lambda: site.pid("decode-0") not in (0, before), 30)
    assert site.answers(within=30)
    print(f"answers {time.monotonic() - began:.1f} s after the kill")
    assert site.sh("h2", f"systemctl show -p NRestarts --value {UNITS['decode-0'][1]}").strip() >= "1"
    site.healthy = True


def test_9_after_a_reboot_of_all_hosts_everything_serves_again_by_itself(site: Site) -> None:
    for host in ("h1", "h2"):
        site.lab[host].reboot()
    assert site.answers(within=60)
    ran = site.deploy()
    assert ran.rc == 0, ran.out
    assert ran.changes == []
    site.healthy = True
