"""What is in the way of putting a release back is told before anything is changed, all of it, with what to do."""

import json

import pytest

from roles import releases
from roles.remote import RemoteError
from roles.run import RefusedError, Run
from slipway.converge.change import Change
from slipway.converge.compare import release_text
from slipway.converge.recorded import record_texts
from slipway.converge.wanted import wanted_on
from tests.slipway.plan.site import opened
from tests.slipway.rollout.test_order import SMALL

THREE = {"prefill": ["a"], "decode": ["b"], "router": ["a"], "spare": ["c"]}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A run on hosts a, b and c, and release 3 as it was made for a and b. `found` is what a comparison would find."""
    then = opened(tmp_path, {"prefill": ["a"], "decode": ["b"], "router": ["a"]}, SMALL).plan({})
    kept = {host.name: _record(then, host.name) for host in then.hosts}
    now = opened(tmp_path, THREE, SMALL)
    plan = now.plan({})
    found: list[Change] = []
    run = Run(plan, now, {}, {}, {}, dict.fromkeys("abc"))

    def ask(_run, host, **request):
        if request["number"] != 3 or host not in kept:
            raise RemoteError(f"{host}: there is no release {request['number']}; there are: 1, 2")
        return kept[host]

    monkeypatch.setattr(releases, "ask", ask)
    monkeypatch.setattr(releases, "refresh", lambda old: old.changes.update(a=found))
    return run, found, kept


def _record(plan, host):
    texts = record_texts(wanted_on(plan, host), release_text(plan), [{"question": "q", "answer": "a"}])
    record = json.loads(texts["files.json"])
    for row in record["files"]:
        row["text"] = texts[f"files/{row['name']}"]
    return {**record, "plan": texts["plan.json"], "known_answers": texts["known_answers.json"], "about": {}}


def test_a_host_that_came_later_has_nothing_to_run_in_it(site):
    run, _, _ = site

    old = releases.past(run, 3)

    assert [host.name for host in old.plan.hosts] == ["a", "b", "c"]
    assert old.plan.on("c") == ()
    assert (old.past, old.answers) == (3, [{"question": "q", "answer": "a"}])
    assert run.plan.on("c") == ()


def refused(run, *words):
    with pytest.raises(RefusedError) as error:
        releases.past(run, 3)
    for word in words:
        assert word in str(error.value)


def test_a_host_that_was_removed_or_renamed_is_named(site):
    run, _, _ = site
    del run.hosts["b"]
    run.hosts["beta"] = None

    refused(run, "release 3 was deployed on a, b", "the inventory has a, c, beta", "b was removed or renamed",
            "nothing was changed")  # fmt: skip


def test_a_host_that_lost_its_part_is_named(site):
    run, _, kept = site
    del kept["b"]

    refused(run, "release 3 is not whole on b", "nothing was changed")


def test_a_release_that_no_host_has_is_told_with_those_there_are(site):
    run, _, kept = site
    kept.clear()

    refused(run, "a: there is no release 3; there are: 1, 2")


def test_a_pruned_build_and_a_pruned_checkpoint_are_both_named(site):
    run, found, _ = site
    found += [
        Change("a", "engine", "install", "build sglang-0.5.18-abc", "the build is absent"),
        Change("a", "checkpoint", "create", "checkpoint /models/x", "it is absent"),
        Change("a", "worker", "update", "/etc/x", "its content differs"),
    ]

    refused(run, "a: build sglang-0.5.18-abc: the build is absent", "a: checkpoint /models/x: it is absent",
            "a deploy with the configuration of that release brings it again")  # fmt: skip


def test_a_port_that_somebody_else_took_is_named(site):
    run, found, _ = site
    found.append(Change("a", "host", "refuse", "prefill-0", "port 30000 (http) is held by pid 7 (nc)"))

    refused(run, "port 30000 (http) is held by pid 7 (nc)")


def test_a_plan_that_this_version_cannot_read_is_told_as_such(site):
    run, _, kept = site
    kept["a"] = {**kept["a"], "plan": '{"hosts": [{"name": "a"}], "instances": []}'}

    refused(run, "release 3 cannot be put back: it is no plan that this version can read", "HostPlan has no address")


def test_a_secret_that_is_no_longer_there_is_named(site):
    run, _, kept = site
    plan = json.loads(kept["a"]["plan"])
    plan["instances"][0]["secrets"] = {"HF_TOKEN": {"env": "NO_SUCH_VARIABLE"}}
    kept["a"] = {**kept["a"], "plan": json.dumps(plan)}

    refused(run, "release 3 cannot be put back", "NO_SUCH_VARIABLE is not set here")
