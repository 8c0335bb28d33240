"""A host as wanted has no changes; whatever differs is one change with the reason."""

import hashlib
from pathlib import Path

import pytest

from slipway.converge.compare import changes_on, next_release, release_text
from slipway.converge.request import agent_path, build_ids, state_request
from slipway.converge.wanted import wanted_on
from slipway.front import open_inventory, project_root
from slipway.plan.facts import ASSUMED

FACTS = type(ASSUMED)(**{**ASSUMED.__dict__, "known": True})
HOST = "@local"
RUNNING = {"state": "running", "pid": 7, "enabled": True, "masked": False, "reload_due": False, "detail": "",
           "since": 2.0, "restarts": 0, "limits": {}}  # fmt: skip


@pytest.fixture(scope="module")
def plan():
    opened = open_inventory(project_root() / "inventory.py", {"engine.kind": "simulator"})
    return opened.plan({HOST: FACTS})


@pytest.fixture
def converged(plan):
    """A host on which everything is as the plan wants it, in the state probe's words."""
    wanted = wanted_on(plan, HOST)
    request = state_request(plan, wanted)
    host = wanted.host
    files = {path: {"kind": "absent"} for path in request["files"]}
    for folder in wanted.folders:
        files[folder.path] = {"kind": "folder", "user": folder.user, "group": folder.user, "mode": folder.mode}
    for file in wanted.files:
        files[file.path] = {
            "kind": "file",
            "user": file.user,
            "group": file.user,
            "mode": file.mode,
            "text": file.text,
            "sha256": hashlib.sha256(file.text.encode()).hexdigest(),
            "changed": 1.0,
        }
    files[agent_path(host)] = {"kind": "file", "user": "root", "group": "root", "mode": "644", "sha256": ""}
    text = release_text(plan)
    files[f"{host.paths['deployment']}/current/plan.json"] = {"kind": "file", "text": text, "mode": "644"}
    files[f"{host.paths['deployment']}/current"] = {"kind": "link", "target": "releases/1"}
    configs = {wanted.manager.service(name): config for name, config in wanted.configs.items()}
    services = {name: {**RUNNING, "config": configs.get(name)} for name in request["services"]["names"]}
    return wanted, {
        "files": files,
        "folders": {path: {"kind": "folder", "problems": [], "since": 1.0} for path in request["folders"]},
        "builds": {f"{host.paths['engines']}/{name}": {"kind": "complete"} for name in build_ids(host)},
        "services": services,
        "ports": {},
        "users": {host.user: True},
        "disks": {},
        "listings": {path: [] for path in request.get("listings", [])},
        "live": {},
        "routers": {url: {one.serves_at: {} for one in plan.of("prefill", "decode")} for url in request["routers"]},
    }


def changes(plan, converged):
    wanted, state = converged
    return [f"{change.action} {change.subject}" for change in changes_on(plan, wanted, FACTS, state)]


def test_a_host_as_wanted_has_no_changes(plan, converged):
    assert changes(plan, converged) == []


def test_an_edited_environment_file_is_written_again(plan, converged):
    wanted, state = converged
    path = next(file.path for file in wanted.files if file.path.endswith("decode-0.env"))
    state["files"][path].update(text="EXTRA=1\n", sha256=hashlib.sha256(b"EXTRA=1\n").hexdigest())

    assert f"update {path}" in changes(plan, converged)


def test_a_process_that_runs_another_configuration_is_restarted(plan, converged):
    wanted, state = converged
    state["services"][wanted.manager.service("prefill-0")]["config"] = "other"

    assert changes(plan, converged) == ["restart instance prefill-0"]


def test_a_restart_that_failed_last_time_is_still_due(plan, converged):
    """Nothing on disk differs: the process alone tells."""
    wanted, state = converged
    state["services"][wanted.manager.service("decode-0")].update(state="failed", pid=0, config=None)

    assert changes(plan, converged) == ["start instance decode-0"]


def test_a_foreign_listener_is_refused_with_its_name(plan, converged):
    wanted, state = converged
    state["ports"]["30100"] = {"pid": 99, "command": "nginx"}

    refused = [change for change in changes_on(plan, wanted, FACTS, state) if change.action == "refuse"]

    assert [change.reason for change in refused] == [
        "port 30100 (http) is held by pid 99 (nginx): stop that process, or give decode-0 another port"
    ]


def test_our_own_listener_is_no_stranger(plan, converged):
    _, state = converged
    state["ports"]["30100"] = {"pid": 9, "command": "x", "deployment": plan.deployment, "instance": "decode-0"}

    assert changes(plan, converged) == []


@pytest.mark.parametrize(("names", "number"), [([], 1), (["1", "2"], 3), (["9", "10", "x"], 11)])
def test_releases_are_numbered_upwards(names, number):
    assert next_release(names) == number


def test_the_project_s_own_inventory_needs_no_file_of_this_machine(plan):
    assert str(Path.home()) not in release_text(plan)


def test_a_disk_without_room_for_the_builds_is_refused_before_anything_changes(plan, converged):
    wanted, state = converged
    router = next(build for build in wanted.host.builds if build.kind == "router")
    state["builds"][f"{wanted.host.paths['engines']}/{router.id}"] = {"kind": "absent"}
    state["disks"] = {"/opt/slipway": 400_000_000}

    refused = [change.reason for change in changes_on(plan, wanted, FACTS, state) if change.action == "refuse"]

    assert refused == [
        "/opt/slipway has 0.4 GB free; the builds to be installed need 1.0 GB: free some, or set `root:`"
    ]


def test_a_disk_without_room_for_the_checkpoint_is_refused_with_both_sizes(plan, converged):
    """It is not there yet, and its upload lies beside it until it is unpacked."""
    wanted, state = converged
    state["folders"][wanted.host.checkpoint.path] = {"kind": "absent", "problems": []}
    size = sum(size for size, _ in wanted.host.checkpoint.files.entries.values())
    state["disks"] = {"/opt/slipway": size}

    (refused,) = [change.reason for change in changes_on(plan, wanted, FACTS, state) if change.action == "refuse"]

    told = f"{size / 1e9:.1f} GB free; the checkpoint needs {2 * size / 1e9:.1f} GB: free some, or set `root:`"
    assert refused == f"/opt/slipway has {told}"


def test_a_full_disk_does_not_stop_what_installs_nothing(plan, converged):
    _, state = converged
    state["disks"] = {"/opt/slipway": 0}

    assert changes(plan, converged) == []


def router_of(state):
    return next(iter(state["routers"].values()))


def test_a_router_that_lacks_a_worker_is_told_and_not_restarted(plan, converged):
    _, state = converged
    url = router_of(state).popitem()[0]

    found = changes(plan, converged)
    assert found == ["update workers of router-0"]
    router_of(state)["http://10.0.0.9:1"] = {}
    reason = next(iter(changes_on(plan, converged[0], FACTS, state))).reason
    assert reason == f"it does not send to {url}; it sends to http://10.0.0.9:1"


def test_a_silent_router_is_not_judged_by_its_list(plan, converged):
    converged[1]["routers"] = dict.fromkeys(converged[1]["routers"])

    assert changes(plan, converged) == []


def test_a_worker_that_moves_changes_the_file_of_the_router_and_not_its_process(plan, converged):
    wanted, state = converged
    path = next(file.path for file in wanted.files if file.path.endswith(("router-0.run", "router-0.service")))
    text = state["files"][path]["text"].replace("http://127.0.0.1:30100", "http://127.0.0.1:30999")
    state["files"][path].update(text=text, sha256=hashlib.sha256(text.encode()).hexdigest())

    found = changes(plan, converged)
    assert f"update {path}" in found
    assert "restart instance router-0" not in found


def test_any_other_edit_of_what_the_router_read_restarts_it(plan, converged):
    wanted, state = converged
    path = next(file.path for file in wanted.files if file.path.endswith(("router-0.run", "router-0.service")))
    text = state["files"][path]["text"] + "# edited\n"
    state["files"][path].update(text=text, sha256=hashlib.sha256(text.encode()).hexdigest())

    assert "restart instance router-0" in changes(plan, converged)


def test_unit_and_environment_say_the_same_configuration():
    opened = open_inventory(project_root() / "examples/staging/inventory.py", {})
    wanted = wanted_on(opened.plan(dict.fromkeys(("h1", "h2"), ASSUMED)), "h1")
    texts = {file.path: file.text for file in wanted.files}
    for name, config in wanted.configs.items():
        assert f"\nEnvironment=SLIPWAY_UNIT={config}\n" in texts[f"/etc/systemd/system/{wanted.manager.service(name)}"]
        assert f'\nSLIPWAY_CONFIG="{config}"\n' in texts[wanted.manager.environment_path(name)]
