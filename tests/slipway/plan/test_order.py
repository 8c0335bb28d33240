"""Ranks of one worker start and restart together."""

from slipway.converge.change import Change
from slipway.converge.order import batches, due_instances
from tests.slipway.plan.site import instance, planned
from tests.slipway.plan.test_layout import SPAN, SPANNING


def change(plan, name, action):
    one = instance(plan, name)
    return Change(one.host, "rollout", action, f"instance {name}", "because", data=one)


def names(found):
    return [[one.name for one in batch] for batch in found]


def test_a_restart_of_one_rank_takes_the_others_along(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)
    due = due_instances(plan, [change(plan, "prefill-0-rank1", "restart")])

    assert due["prefill-0"].action == "restart"
    assert due["prefill-0"].host == "a"
    assert names(batches(plan, due)) == [["prefill-0", "prefill-0-rank1"]]


def test_a_rank_that_is_down_brings_the_running_one_down_first(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)
    due = due_instances(plan, [change(plan, "decode-0", "start")])

    assert (due["decode-0"].action, due["decode-0-rank1"].action) == ("start", "restart")


def test_what_is_down_starts_at_once_and_what_serves_one_after_the_other(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)
    down = [change(plan, one.name, "start") for one in plan.instances]
    assert names(batches(plan, due_instances(plan, down))) == [[one.name for one in plan.instances]]

    serving = [change(plan, one.name, "restart") for one in plan.instances]
    assert names(batches(plan, due_instances(plan, serving))) == [
        ["prefill-0", "prefill-0-rank1"],
        ["decode-0", "decode-0-rank1"],
        ["router-0"],
    ]


def test_other_changes_start_nothing(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)

    assert due_instances(plan, [Change("a", "rollout", "remove", "instance old", "gone", data="old")]) == {}
