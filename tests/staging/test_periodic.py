"""Periodic verification under systemd: a timer looks as the service's user, and a wrong answer shows in its metrics."""

from __future__ import annotations

from tests.staging.lab.commands import until
from tests.staging.site import Site

FOLDER = "/opt/slipway/deployments/staging/verify"
UNITS = "slipway-staging-verify.timer slipway-staging-verify.service"
EVERY = ("--data", "verify.every_s=2")
KNOWN = "/opt/slipway/checkpoints/*/*/known_answers.json"


def metric(site: Site, name: str) -> str:
    return site.sh("h1", f"sed -n 's/^{name}{{.*}} //p' {FOLDER}/verify.prom || true").strip()


def test_a_timer_looks_as_the_services_user_and_a_wrong_answer_shows_in_the_metric(site: Site) -> None:
    ran = site.deploy(*EVERY)
    assert ran.rc == 0, ran.out
    assert "h1 enable periodic verification" in ran.named
    assert until(lambda: metric(site, "slipway_verify_ok") == "1", 60, pause=0.5), site.sh(
        "h1", f"cat {FOLDER}/last.json; journalctl -q --no-pager -u slipway-staging-verify | tail -20"
    )
    assert site.sh("h1", f"stat -c '%U %a' {FOLDER}/verify.prom {FOLDER}/request.json").split() == [
        "slipway", "644", "slipway", "600",
    ]  # fmt: skip
    assert site.sh("h1", "systemctl is-enabled slipway-staging-verify.timer").strip() == "enabled"
    assert '"rung": "logs"' in site.sh("h1", f"cat {FOLDER}/last.json")  # it may read the journal
    assert site.dry(*EVERY).changes == []

    for host, unit in (("h1", "prefill-0"), ("h2", "decode-0")):
        site.sh(host, f"sed -i.was 's/391/402/' {KNOWN}; systemctl kill -s KILL slipway-staging-{unit}.service")
    assert until(lambda: metric(site, "slipway_verify_ok") == "0" and site.ask() == "402", 90, pause=0.5)
    before = site.pids()
    runs = float(metric(site, "slipway_verify_runs_total"))
    assert until(lambda: float(metric(site, "slipway_verify_runs_total")) > runs + 1, 60, pause=0.5)
    assert site.pids() == before  # it tells, and restarts nothing
    for host, unit in (("h1", "prefill-0"), ("h2", "decode-0")):
        restore = f"for file in {KNOWN}; do mv $file.was $file; done"
        site.sh(host, f"{restore}; systemctl kill -s KILL slipway-staging-{unit}.service")
    assert site.answers()

    off = site.deploy()
    assert off.rc == 0, off.out
    assert site.sh("h1", f"systemctl list-units --all --plain --no-legend {UNITS}").strip() == ""
    assert site.sh("h1", f"ls -d {FOLDER} /etc/systemd/system/*verify* 2>/dev/null || true") == ""
    assert site.dry().changes == []
    assert site.ask() == "391"
