"""The second set of blue-green: where it fits, what it is called, and who says that it does not fit."""

import pytest

from slipway.finding import Finding
from slipway.rollout import Policy, green_of, only_green, replaced_workers, step_lines, steps, with_green, with_room
from slipway.rollout.green import SUFFIX
from tests.slipway.plan.site import opened, planned
from tests.slipway.plan.test_layout import SPAN, SPANNING
from tests.slipway.rollout.test_order import SMALL, change, live, shape

PAIR = {"prefill": ["a"], "decode": ["b"], "router": ["a"]}
BLUE_GREEN = Policy("blue-green", 1, 60)


def second_set(folder, groups, settings, *names):
    """The plan of an inventory, and the second set of some of its workers."""
    found = opened(folder, groups, settings)
    plan = found.plan({})
    blues = [one for one in plan.instances if one.name in names]
    doubled = type(found)(**{**found.__dict__, "deployment": with_room(found.deployment, plan, blues)}).plan({})
    router = found.deployment.host(plan.of("router")[0].host).router
    return plan, green_of(plan, doubled, blues, router, 18000)


def test_it_takes_free_gpus_and_ports_under_names_that_no_plan_gives(tmp_path):
    plan, green = second_set(tmp_path, PAIR, {**SMALL, "worker": {"tp": 4}}, "prefill-0", "decode-0")

    found = {name: (one.name, one.host, one.gpus, dict(one.ports)) for name, one in green.workers.items()}
    assert found == {
        "prefill-0": ("prefill-0-green", "a", (4, 5, 6, 7), {"http": 30001, "bootstrap": 8999}),
        "decode-0": ("decode-0-green", "b", (4, 5, 6, 7), {"http": 30001}),
    }
    worker = green.workers["decode-0"]
    assert (worker.env["SLIPWAY_INSTANCE"], worker.env["SLIPWAY_URL"]) == (worker.name, worker.serves_at)
    assert worker.env["TMPDIR"].endswith(f"-decode-0{SUFFIX}")
    assert worker.env["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert [one.name for one in with_green(plan, green).instances][:3] == ["prefill-0", "decode-0", "router-0"]


def test_its_router_has_the_new_workers_and_those_that_stay(tmp_path):
    plan, green = second_set(tmp_path, PAIR, {**SMALL, "worker": {"tp": 4}}, "decode-0")

    words = " ".join(green.router.argv)
    assert "--prefill http://a:30000 8998 --decode http://b:30001 " in words
    assert "--port 18000 " in words
    assert "--prometheus-port 18001 " in words
    assert [one.name for one in only_green(plan, green).instances] == ["prefill-0", "decode-0-green", "router-0-green"]


@pytest.mark.parametrize(
    ("groups", "settings", "names", "words"),
    [
        (PAIR, SMALL, ("decode-0",), "there is no room for a second one beside it"),
        (SPAN, SPANNING, ("prefill-0", "prefill-0-rank1"), "spans several hosts"),
    ],
)
def test_where_there_is_no_room_is_a_finding_that_says_what_to_do(tmp_path, groups, settings, names, words):
    _, finding = second_set(tmp_path, groups, settings, *names)

    assert isinstance(finding, Finding)
    assert (finding.rule, finding.severity) == ("rollout-no-room", "error")
    assert words in finding.message
    assert "rolling or recreate" in finding.fix


def test_it_comes_before_what_is_replaced_all_at_once_without_an_outage_and_goes_after(tmp_path):
    plan, green = second_set(tmp_path, PAIR, {**SMALL, "worker": {"tp": 4}}, "prefill-0", "decode-0")
    changes = [change(plan, name, "restart") for name in ("prefill-0", "decode-0")]

    found = steps(plan, changes, live(plan), BLUE_GREEN, green)

    assert shape(found) == [
        ("green", ["prefill-0-green", "decode-0-green", "router-0-green"], ()),
        ("restart", ["prefill-0", "decode-0"], ()),
        ("remove", [], ()),
    ]
    assert found[2].names == ("prefill-0-green", "decode-0-green", "router-0-green")
    assert "verified through a router of their own" in step_lines(found, BLUE_GREEN)[1]


def test_what_a_dead_run_left_of_it_goes_first(tmp_path):
    from slipway.rollout import Live
    from tests.slipway.rollout.test_order import removal

    plan, green = second_set(tmp_path, PAIR, {**SMALL, "worker": {"tp": 4}}, "decode-0")
    left = Live("decode-0-green", "b", "decode", "http://b:30001")
    changes = [removal("decode-0-green", "b"), change(plan, "decode-0", "restart")]

    found = steps(plan, changes, [*live(plan), left], BLUE_GREEN, green)

    assert [step.kind for step in found] == ["remove", "green", "restart", "remove"]


def test_only_workers_that_serve_and_are_started_anew_are_stood_in_for(tmp_path):
    plan = planned(tmp_path, PAIR, SMALL)

    changes = [change(plan, "decode-0", "start"), change(plan, "router-0", "restart")]
    assert replaced_workers(plan, changes) == []
