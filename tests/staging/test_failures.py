"""Claim 9 of the staging guide: what breaks in the middle, and what the next run makes of it."""

from __future__ import annotations

from tests.staging.site import ANSWER, Site

ENV = "/opt/slipway/deployments/staging/services/decode-0.env"


def test_9_a_host_that_cannot_be_reached_ends_the_run_before_anything_changes_on_the_other(site: Site) -> None:
    before = site.pids()
    look = site.look("h1")
    site.lab["h2"].cable(False)
    try:
        ran = site.deploy("--data", "worker.max_running_requests=5", timeout=120)
    finally:
        site.lab["h2"].cable(True)
    assert ran.rc == 1, ran.out
    assert "cannot reach h2; nothing was changed on any host" in ran.out
    assert "Traceback" not in ran.out
    assert site.look("h1")["disk"] == look["disk"]
    assert site.answers()
    assert site.pids() == before
    site.healthy = True


def test_9_a_cable_cut_in_the_middle_of_a_deploy_is_told_and_the_next_run_converges(bare: Site) -> None:
    process = bare.impatient().start()
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if "Starting operation: Engine" in line:
            bare.lab["h2"].cable(False)
            break
    rest, _ = process.communicate(timeout=300)
    bare.lab["h2"].cable(True)
    said = "".join(lines) + rest
    assert process.returncode == 1, said
    assert "h2" in said
    assert "Traceback" not in said, said
    assert "the connection to h2 broke" in said, said
    assert "nothing that serves was touched" in said or "start instance" not in said.partition("Rollout")[2]

    again = bare.deploy()

    assert again.rc == 0, again.out
    assert bare.ask() == ANSWER
    assert bare.dry().changes == []


def test_9_limit_changes_only_what_it_names_and_says_what_it_leaves(site: Site) -> None:
    for host, instance in (("h1", "prefill-0"), ("h2", "decode-0")):
        site.sh(host, f"chmod 600 /opt/slipway/deployments/staging/services/{instance}.env")
    ran = site.deploy("--limit", "h1")
    assert ran.rc == 0, ran.out
    assert [row["host"] for row in ran.changes] == ["h1"]
    assert "h2 is outside --limit: 1 change(s) there are left" in ran.out
    assert site.dry().named == [f"h2 update {ENV}"]
    assert site.deploy().rc == 0
    site.healthy = True
