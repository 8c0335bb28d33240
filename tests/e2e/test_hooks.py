"""The operator's own programs around a deploy."""

import json
from pathlib import Path

import pytest

from tests.e2e.site import CHECKOUT


@pytest.fixture
def beside(site, tmp_path):
    """The site's inventory in a folder of its own, with a place for hooks."""
    (tmp_path / "inventory.py").write_text((CHECKOUT / "inventory.py").read_text())
    (tmp_path / "group_vars").symlink_to(CHECKOUT / "group_vars")
    (tmp_path / "hooks").mkdir()
    (site.root / "deployments" / site.name / "services" / "decode-0.env").chmod(0o600)  # something to put right
    return tmp_path


def hook(folder: Path, name: str, script: str) -> None:
    path = folder / "hooks" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def deploy(site, folder: Path, *words: str, **more: object):
    here, there = str(CHECKOUT / "inventory.py"), str(folder / "inventory.py")
    command = site.command("-y", *words, "deploy.py", **more)
    return site.run_command([there if word == here else word for word in command])


def test_a_failing_hook_stops_before_anything_changed_and_others_see_plan_and_result(site, beside):
    before = site.pids()
    told = beside / "told"
    hook(beside, "pre-deploy", "echo the change window is closed; exit 3")

    refused = deploy(site, beside)

    assert refused.rc == 1, refused.out
    assert "the change window is closed" in refused.out
    assert f"{beside}/hooks/pre-deploy ended with 3; nothing was changed" in refused.out
    assert "Traceback" not in refused.out
    assert site.pids() == before

    looked = deploy(site, beside, "--dry")
    assert looked.rc == 0, looked.out
    assert "change window" not in looked.out

    hook(beside, "pre-deploy", "sleep 1000")
    late = deploy(site, beside, **{"rollout.hook_timeout_s": 1})
    assert late.rc == 1, late.out
    assert "did not end within 1 s (rollout.hook_timeout_s) and was killed; nothing was changed" in late.out

    (beside / "hooks" / "pre-deploy").chmod(0o644)
    plain = deploy(site, beside)
    assert plain.rc == 1, plain.out
    assert "pre-deploy is no executable file; chmod +x it" in plain.out

    hook(beside, "pre-deploy", f"cat > {told}.pre; sleep 1000 &")
    hook(beside, "post-deploy", f"cat > {told}.post; exit 1")
    done = deploy(site, beside)
    assert done.rc == 0, done.out
    pre, post = (json.loads(Path(f"{told}.{when}").read_text()) for when in ("pre", "post"))
    assert (pre["hook"], pre["deployment"], pre["run"]["what"]) == ("pre-deploy", site.name, "deploy")
    assert [row["name"] for row in pre["plan"]["instances"]] == ["prefill-0", "decode-0", "router-0"]
    assert [row["subject"].rpartition("/")[2] for row in pre["changes"]] == ["decode-0.env"]
    assert "result" not in pre
    assert (post["hook"], post["result"]) == ("post-deploy", "ok")
    assert "post-deploy ended with 1; the deploy itself is over (ok)" in done.out
