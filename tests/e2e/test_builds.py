"""Builds on the hosts, looked at and pruned by the playbook and by a deploy."""

import json

from tests.e2e.conftest import QUESTION

BUILDS = ("-y", "playbooks/builds.py")


def stray(site, name):
    """A complete build that no release knows."""
    path = site.root / "engines" / name
    path.mkdir()
    patches = [{"id": "pr-7", "why": "as a test", "sha256": "0", "state": "applied"}]
    (path / "build.json").write_text(json.dumps({"id": name, "patches": patches, "host": "here"}))
    (path / "complete").write_text("{}")
    return path


def listed(ran):
    """State and patches of each build, by its id."""
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("@local: ")]
    assert rows[0][1:4] == ["BUILD", "STATE", "PATCHES"]
    return {row[1]: row[2:4] for row in rows[1:]}


def test_the_playbook_lists_what_is_built_with_its_patches(site):
    path = stray(site, "sglang-0.0.1-stray")

    ran = site.run(*BUILDS)

    (path / "complete").unlink()
    half = site.run(*BUILDS)
    assert ran.rc == 0, ran.out
    known = listed(ran)
    assert known["sglang-0.0.1-stray"] == ["complete", "pr-7"]
    assert {name.partition("-")[0] for name in known} == {"router", "sglang", "simulator", "supervisor"}
    assert listed(half)["sglang-0.0.1-stray"][0] == "INCOMPLETE"


def test_what_no_release_refers_to_is_named_and_then_removed(site):
    path = stray(site, "sglang-0.0.2-stray")
    before = {one.name for one in (site.root / "engines").iterdir() if "stray" not in one.name}

    named = site.run(*BUILDS, env={"SLIPWAY_BUILDS": "dry"})
    assert named.rc == 0, named.out
    assert "would remove the unused build sglang-0.0.2-stray" in named.out
    assert path.exists()
    assert "remove the unused build router" not in named.out

    gone = site.run(*BUILDS, env={"SLIPWAY_BUILDS": "remove"})
    assert gone.rc == 0, gone.out
    assert {one.name for one in (site.root / "engines").iterdir()} == before
    wrong = site.run(*BUILDS, env={"SLIPWAY_BUILDS": "all"})
    assert wrong.rc == 1
    assert "SLIPWAY_BUILDS is all; must be one of list, dry, remove" in wrong.out


def test_a_deploy_keeps_as_many_unused_builds_as_it_is_told(site):
    paths = [stray(site, f"sglang-0.0.{number}-stray") for number in (3, 4)]

    assert site.deploy().rc == 0
    assert all(path.exists() for path in paths)
    ran = site.deploy(host__builds_kept=1)
    assert ran.rc == 0, ran.out
    assert sum(path.exists() for path in paths) == 1
    assert "removed the unused build sglang-0.0.3-stray" in ran.out
    site.deploy(host__builds_kept=0)
    assert not any(path.exists() for path in paths)


def test_a_build_that_fails_leaves_what_serves_and_no_build(site):
    before, built = site.pids(), {one.name for one in (site.root / "engines").iterdir()}
    nowhere = {"engine__index_url": "http://127.0.0.1:1/simple", "engine__find_links": str(site.root)}

    ran = site.deploy(**nowhere)

    assert ran.rc != 0, ran.out
    assert "ended with 1: error: " in ran.out
    assert "Traceback" not in ran.out
    complete = {path.parent.name for path in (site.root / "engines").glob("*/complete")}
    assert complete <= built
    assert site.pids() == before
    assert site.answer(QUESTION) == "391"
    assert site.deploy().rc == 0
