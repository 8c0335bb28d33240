"""Old and new workers that must not meet are not rolled one by one."""

import pytest

from slipway.plan.model import to_json
from slipway.rollout import Policy, apart, left_behind, step_lines, steps
from slipway.rollout.mixing import _table
from slipway.rules import known_ids
from tests.slipway.plan.site import planned
from tests.slipway.rollout.test_order import FOUR, SMALL, change, live, shape


def plans(folder, before, after):
    folders = folder / "before", folder / "after"
    for place in folders:
        place.mkdir()
    one, other = (planned(place, FOUR, {**SMALL, **more}) for place, more in zip(folders, (before, after), strict=True))
    return one, other, apart(to_json(one), to_json(other))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"worker": {"tp": 8, "page_size": 32}}, {"worker": {"tp": 8, "page_size": 64}},
         "page_size 32 or 64 (page-size-differs)"),
        ({}, {"worker": {"tp": 8, "kv_cache_dtype": "fp8_e4m3"}},
         "kv_cache_dtype fp8_e4m3 or unset (kv-dtype-differs)"),
        ({}, {"engine": {"version": "0.5.23"}}, "release 0.5.18 or 0.5.23 (engine-release-differs)"),
        ({}, {"model": {**SMALL["model"], "host_path": "/models/other"}}, "(checkpoint-differs)"),
        ({}, {"worker": {"tp": 8, "env": {"SGLANG_DSV4_KV_LAYOUT": "x"}}},
         "SGLANG_DSV4_KV_LAYOUT unset or x (kv-layout-differs)"),
    ],
)  # fmt: skip
def test_what_must_agree_within_a_pair_keeps_old_and_new_apart(tmp_path, before, after, reason):
    _, _, reasons = plans(tmp_path, before, after)

    assert any(reason in one for one in reasons), reasons


def test_a_deployment_of_one_host_that_grows_leaves_loopback_at_once(tmp_path):
    """A decode of another host never reaches a prefill that still listens on loopback."""
    _, plan, _ = plans(tmp_path, {}, {})
    record = to_json(plan)
    alone = {**record, "hosts": [{**host, "address": "127.0.0.1"} for host in record["hosts"]]}

    assert any(one.startswith("reach loopback or network (") for one in apart(alone, record)), apart(alone, record)
    assert apart(alone, alone) == apart(record, record) == ()


def test_what_each_may_have_for_itself_does_not(tmp_path):
    more = {"worker": {"tp": 8, "max_running_requests": 7, "env": {"A": "b"}}}

    assert plans(tmp_path, {}, more)[2] == ()


def test_they_go_together_in_one_announced_outage_with_the_reason(tmp_path):
    _, plan, reasons = plans(tmp_path, {}, {"worker": {"tp": 8, "page_size": 64}})
    policy = Policy("rolling", 1, 60, reasons)
    changes = [change(plan, one.name, "restart") for one in plan.of("prefill", "decode")]

    found = steps(plan, changes, live(plan), policy)

    assert shape(found) == [("restart", ["prefill-0", "prefill-1", "decode-0", "decode-1"], ("prefill", "decode"))]
    assert "must not serve beside one another: page_size" in step_lines(found, policy)[1]


def test_one_that_is_down_or_new_does_not_come_up_among_those_that_it_must_not_meet(tmp_path):
    _, plan, reasons = plans(tmp_path, {}, {"worker": {"tp": 8, "page_size": 64}})
    actions = {"prefill-0": "restart", "prefill-1": "start", "decode-0": "restart", "decode-1": "start"}
    changes = [change(plan, name, action) for name, action in actions.items()]

    found = steps(plan, changes, live(plan, "prefill-1", "decode-1"), Policy("rolling", 1, 60, reasons))

    assert shape(found) == [("restart", ["prefill-0", "decode-0", "prefill-1", "decode-1"], ("prefill", "decode"))]
    assert {one.name for one in found[0].leaving} == {"prefill-0", "decode-0"}


def test_every_reason_is_a_rule_that_is_there():
    table = _table()
    named = {*table["settings"].values(), *table["environment"].values(), table["release"], table["checkpoint"],
             table["reach"]}  # fmt: skip

    assert named <= known_ids()


def test_a_host_that_left_the_inventory_is_warned_of_with_what_still_runs_there(tmp_path):
    before, _, _ = plans(tmp_path, {}, {})
    (tmp_path / "fewer").mkdir()
    fewer = planned(tmp_path / "fewer", {"prefill": ["a", "b"], "decode": ["c"], "router": ["a"]}, SMALL)

    (found,) = left_behind(to_json(before), fewer)

    assert (found.rule, found.severity, found.subject) == ("host-left-behind", "warning", "d")
    assert "the current release runs decode-1 there" in found.message
    assert list(left_behind(to_json(fewer), before)) == []
    assert list(left_behind({}, before)) == []
