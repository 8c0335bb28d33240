"""Which steps a rollout is made of, from the plan, what is due and what runs."""

import pytest

from slipway.converge.change import Change
from slipway.rollout import Live, Policy, due_instances, step_lines, steps
from tests.slipway.plan.site import instance, model, planned
from tests.slipway.plan.test_layout import SPAN, SPANNING

ROLLING = Policy("rolling", 1, 60)
FOUR = {"prefill": ["a", "b"], "decode": ["c", "d"], "router": ["a"]}
SMALL = {"hardware": "8xB200", "engine": {"version": "0.5.18"}, "model": model("deepseek-r1-fp4"), "worker": {"tp": 8}}


def change(plan, name, action):
    one = instance(plan, name)
    return Change(one.host, "rollout", action, f"instance {name}", "because", data=one)


def removal(name, host):
    return Change(host, "rollout", "remove", f"instance {name}", "the plan no longer has it", data=name)


def live(plan, *left_out):
    return [Live(one.name, one.host, one.role, one.serves_at) for one in plan.instances if one.name not in left_out]


def all_due(plan, action="restart"):
    return [change(plan, one.name, action) for one in plan.instances]


def shape(found):
    return [(step.kind, [one.name for one in step.instances], step.outage) for step in found]


def test_a_restart_of_one_rank_takes_the_others_along(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)
    changes = [change(plan, "prefill-0-rank1", "restart")]

    assert due_instances(plan, changes)["prefill-0"].action == "restart"
    found = steps(plan, changes, live(plan), ROLLING)
    assert shape(found) == [("restart", ["prefill-0", "prefill-0-rank1"], ("prefill",))]
    assert {one.name for one in found[0].leaving} == {"prefill-0", "prefill-0-rank1"}


def test_a_rank_that_is_down_brings_the_running_one_down_first(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)
    due = due_instances(plan, [change(plan, "decode-0", "start")])

    assert (due["decode-0"].action, due["decode-0-rank1"].action) == ("start", "restart")


def test_what_is_down_starts_at_once(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)

    assert shape(steps(plan, all_due(plan, "start"), [], ROLLING)) == [
        ("start", ["prefill-0", "prefill-1", "decode-0", "decode-1", "router-0"], ())
    ]


def test_one_of_a_role_at_a_time_prefill_first_and_the_router_last(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)

    found = steps(plan, all_due(plan), live(plan), ROLLING)

    assert shape(found) == [
        ("restart", ["prefill-0"], ()),
        ("restart", ["prefill-1"], ()),
        ("restart", ["decode-0"], ()),
        ("restart", ["decode-1"], ()),
        ("router", ["router-0"], ("router",)),
    ]
    assert [one.url for one in found[0].leaving] == ["http://a:30000"]


def test_only_whose_inputs_changed_is_touched(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)

    assert shape(steps(plan, [change(plan, "decode-1", "restart")], live(plan), ROLLING)) == [
        ("restart", ["decode-1"], ())
    ]


def test_those_without_a_second_go_together_and_their_outage_is_announced(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)

    found = steps(plan, all_due(plan), live(plan), ROLLING)

    assert shape(found)[0] == (
        "restart", ["prefill-0", "prefill-0-rank1", "decode-0", "decode-0-rank1"], ("prefill", "decode"),
    )  # fmt: skip
    assert "OUTAGE: no other prefill and no other decode serves" in "\n".join(step_lines(found, ROLLING))


@pytest.mark.parametrize(("skew", "groups"), [(1, 4), (2, 2), (3, 2), (9, 2)])
def test_a_stated_skew_takes_several_but_never_all_of_a_role(tmp_path, skew, groups):
    plan = planned(tmp_path, {"prefill": list("abcd"), "decode": ["e"], "router": ["e"]}, {
        **SMALL, "worker": {"tp": 4}, "decode": {"tp": 4}})  # fmt: skip
    changes = [change(plan, one.name, "restart") for one in plan.of("prefill")]

    found = steps(plan, changes, live(plan), Policy("rolling", skew, 60))

    assert len(found) == groups
    assert [one for step in found for one in step.outage] == []


def test_recreate_takes_everything_at_once(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)
    changes = [change(plan, one.name, "restart") for one in plan.of("prefill", "decode")]

    found = steps(plan, changes, live(plan), Policy("recreate", 1, 60))

    assert shape(found) == [("restart", ["prefill-0", "prefill-1", "decode-0", "decode-1"], ("prefill", "decode"))]


def test_a_worker_that_is_down_does_not_count_as_a_second(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)
    changes = [change(plan, "decode-0", "start"), change(plan, "decode-1", "restart")]

    found = steps(plan, changes, live(plan, "decode-0"), ROLLING)

    assert shape(found) == [("start", ["decode-0"], ()), ("restart", ["decode-1"], ())]


def test_a_worker_that_no_router_sends_to_does_not_count_as_a_second_either(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)
    left_out = Live("decode-0", "c", "decode", "http://c:30000", routed=False)

    found = steps(plan, [change(plan, "decode-1", "restart")], [*live(plan, "decode-0"), left_out], ROLLING)

    assert shape(found) == [("restart", ["decode-1"], ("decode",))]


def test_a_new_worker_serves_before_the_one_it_replaces_elsewhere_goes(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)
    before = [*live(plan, "decode-1"), Live("decode-2", "e", "decode", "http://e:30000")]

    found = steps(plan, [removal("decode-2", "e"), change(plan, "decode-1", "start")], before, ROLLING)

    assert shape(found) == [("start", ["decode-1"], ()), ("remove", [], ())]


def test_room_is_made_first_for_what_comes_to_the_same_gpus(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)
    before = [*live(plan, "decode-1"), Live("decode-9", "d", "decode", "http://d:31000")]

    found = steps(plan, [removal("decode-9", "d"), change(plan, "decode-1", "start")], before, ROLLING)

    assert shape(found) == [("remove", [], ()), ("start", ["decode-1"], ())]


def test_a_moved_worker_that_has_no_second_starts_before_the_old_one_goes(tmp_path):
    plan = planned(tmp_path, {"prefill": ["a"], "decode": ["c"], "router": ["a"]}, SMALL)
    before = [*live(plan, "decode-0"), Live("decode-0", "b", "decode", "http://b:30000")]

    found = steps(plan, [removal("decode-0", "b"), change(plan, "decode-0", "start")], before, ROLLING)

    assert shape(found) == [("start", ["decode-0"], ()), ("remove", [], ())]


def test_the_last_of_a_role_that_goes_is_an_outage(tmp_path):
    plan = planned(tmp_path, {"prefill": ["a"], "decode": ["c"], "router": ["a"]}, SMALL)
    before = [*live(plan, "decode-0"), Live("decode-9", "c", "decode", "http://c:31000")]

    found = steps(plan, [removal("decode-9", "c"), change(plan, "decode-0", "start")], before, ROLLING)

    assert shape(found) == [("remove", [], ("decode",)), ("start", ["decode-0"], ())]


def test_a_router_of_another_mode_is_restarted_before_the_workers_of_the_old_one_go(tmp_path):
    plan = planned(tmp_path, {"unified": ["c"], "router": ["a"]}, SMALL)
    before = [Live("prefill-0", "a", "prefill", "http://a:30000"), Live("decode-0", "b", "decode", "http://b:30000"),
              Live("router-0", "a", "router", "http://127.0.0.1:8000")]  # fmt: skip
    changes = [removal("prefill-0", "a"), removal("decode-0", "b"), change(plan, "unified-0", "start"),
               change(plan, "router-0", "restart")]  # fmt: skip

    found = steps(plan, changes, before, ROLLING)

    assert [(step.kind, step.names, step.outage) for step in found] == [
        ("start", ("unified-0",), ()),
        ("router", ("router-0",), ("router",)),
        ("remove", ("prefill-0",), ()),
        ("remove", ("decode-0",), ()),
    ]


def test_what_was_left_over_without_a_process_is_removed_too(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)

    found = steps(plan, [removal("decode-7", "c")], live(plan), ROLLING)

    assert [(step.kind, step.names, step.outage) for step in found] == [("remove", ("decode-7",), ())]


def test_a_router_that_lacks_a_worker_is_given_it(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)
    joins = [Change("a", "rollout", "update", "workers of router-0", "it lacks decode-1",
                    data=instance(plan, "router-0"))]  # fmt: skip

    assert [step.kind for step in steps(plan, joins, live(plan), ROLLING)] == ["join"]
    with_restart = steps(plan, [*joins, change(plan, "decode-1", "restart")], live(plan), ROLLING)
    assert [step.kind for step in with_restart] == ["restart"]


def test_other_changes_make_no_step(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)
    record = Change("a", "rollout", "create", "release 2", "it differs", data=(2, ""))

    assert steps(plan, [record], live(plan), ROLLING) == ()
    assert step_lines((), ROLLING) == []


def test_the_steps_are_shown_with_places_limits_and_outages(tmp_path):
    plan = planned(tmp_path, FOUR, SMALL)
    lines = step_lines(steps(plan, all_due(plan), live(plan), ROLLING), ROLLING)

    assert lines[0] == "rollout in 5 steps, strategy rolling:"
    assert lines[1].startswith("  1. prefill-0 on a: drain, restart, worker rungs, back into the routers")
    assert "running requests have 60 s" in lines[1]
    assert lines[-2] == "     OUTAGE: no other router serves while this step lasts"
