"""Claim 8 of the staging guide: drift has an exit code, and the example for CI is run as it stands."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import yaml

from tests.staging.conftest import REPOSITORY
from tests.staging.lab.commands import Done
from tests.staging.site import EXAMPLE, Site

ENV = "/opt/slipway/deployments/staging/services/decode-0.env"


def test_8_drift_is_0_on_converged_hosts(deployed: Site) -> None:
    done = deployed.drift()
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].endswith("examples/staging/inventory.py: converged")
    answer = deployed.drift("--json")
    assert json.loads(answer.stdout) == {"exit": 0, "changes": []}


def test_8_drift_is_2_with_pending_changes_listed_and_as_json(site: Site) -> None:
    site.sh("h2", f"sed -i s/LANG=.*/LANG=tlh/ {ENV}")
    done = site.drift()
    assert done.returncode == 2
    assert f"[h2] update {ENV}: its content differs" in done.stdout
    assert "    -LANG=tlh" in done.stdout
    answer = site.drift("--json")
    assert answer.returncode == 2
    (change,) = json.loads(answer.stdout)["changes"]
    assert (change["host"], change["action"], change["subject"]) == ("h2", "update", ENV)
    assert '+LANG="C.UTF-8"' in change["diff"]
    assert site.drift("--limit", "h1").returncode == 0  # the change is on the other host
    assert site.deploy().rc == 0
    site.healthy = True


def test_8_an_unknown_limit_is_an_error_for_drift_and_for_the_deploy(deployed: Site) -> None:
    done = deployed.drift("--limit", "h3")
    assert done.returncode == 1
    assert "--limit h3: no such host or group; must be one of h1, h2, router, prefill, decode" in done.stdout
    ran = deployed.deploy("--limit", "h3")
    assert ran.rc == 1
    assert "--limit h3: no such host or group" in ran.out


def test_8_drift_is_1_when_a_host_cannot_be_asked_or_the_inventory_is_wrong(site: Site, tmp_path: Path) -> None:
    site.lab["h2"].cable(plugged=False)
    try:
        done = site.drift("--json")
    finally:
        site.lab["h2"].cable(plugged=True)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert (answer["exit"], answer["changes"]) == (1, [])
    assert "cannot reach h2; nothing was changed on any host" in answer["error"]
    assert "Traceback" not in done.stdout
    missing = site.drift("--data", "engine.kind=nothing")
    assert missing.returncode == 1
    assert 'engine.kind: got "nothing"; must be one of sglang, simulator' in missing.stdout
    site.healthy = True


def test_8_a_change_that_cannot_be_made_is_1_and_says_why(site: Site) -> None:
    site.sh(
        "h2",
        "systemctl stop slipway-staging-decode-0; systemd-run --quiet --unit=squatter python3 -m http.server 30100",
    )
    site.sh("h2", "until ss -Hltn sport = 30100 | grep -q .; do sleep 0.1; done")
    done = site.drift("--json")
    assert done.returncode == 1
    assert [row["action"] for row in json.loads(done.stdout)["changes"]].count("refuse") == 1
    site.sh("h2", "systemctl stop squatter; systemctl start slipway-staging-decode-0")
    assert site.answers()
    site.healthy = True


def _ci(site: Site, folder: Path) -> Done:
    options = " ".join(["--data", f"engine.wheelhouse={site.wheelhouse}", "--data", "service.restart_delay_s=1"])
    env = site.lab.environment | {
        "SLIPWAY_OPTIONS": options,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    script = REPOSITORY / "examples/ci/staging.sh"
    return site.lab.ctl("sh", script, EXAMPLE, folder, check=False, env=env, cwd=REPOSITORY)


def test_8_the_script_for_ci_checks_plans_and_tells_drift_and_keeps_the_plan(site: Site, tmp_path: Path) -> None:
    done = _ci(site, tmp_path / "artefacts")
    assert done.returncode == 0, done.stdout
    assert "the hosts are as planned" in done.stdout
    plan = json.loads((tmp_path / "artefacts/plan.json").read_text())
    assert [row["name"] for row in plan["instances"]] == ["prefill-0", "decode-0", "router-0"]
    assert "decode-0" in (tmp_path / "artefacts/plan.txt").read_text()
    site.sh("h2", f"chmod 600 {ENV}")
    done = _ci(site, tmp_path / "again")
    assert done.returncode == 2
    assert "changes are pending" in done.stdout
    assert json.loads((tmp_path / "again/drift.json").read_text())["changes"][0]["subject"] == ENV
    site.sh("h2", f"chmod 644 {ENV}")
    site.healthy = True


def test_8_the_workflow_runs_that_script_and_keeps_its_artefacts() -> None:
    workflow = yaml.safe_load((REPOSITORY / "examples/ci/github-actions.yml").read_text())
    (job,) = workflow["jobs"].values()
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert 'examples/ci/staging.sh "$INVENTORY" artefacts' in commands
    assert any("upload-artifact" in step.get("uses", "") for step in job["steps"])
    assert workflow["permissions"] == {"contents": "read"}
