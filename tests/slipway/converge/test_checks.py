"""When periodic verification is set up, started anew, and taken away."""

from types import SimpleNamespace

from slipway.converge.change import Change
from slipway.converge.checks import check_changes

MANAGER = SimpleNamespace(check="x-verify.timer", check_names=("x-verify.service", "x-verify.timer"), folder="/units")
FILE = Change("h1", "verify", "update", "/units/x-verify.timer", "its content differs")


def due(every_s, service=None, listed=(), before=()):
    wanted = SimpleNamespace(manager=MANAGER, host=SimpleNamespace(name="h1", verify_every_s=every_s))
    found = {"state": "running", "enabled": True, "masked": False, **(service or {})}
    state = {"services": {"x-verify.timer": found}, "listings": {"/units": list(listed)}}
    return [f"{change.action}: {change.reason}" for change in check_changes(wanted, state, before)]


def test_off_by_default_and_nothing_there():
    assert due(0) == []


def test_switched_off_it_is_removed():
    assert due(0, listed=["x-verify.timer"]) == ["remove: verify.every_s is 0"]


def test_switched_on_it_is_started_and_then_left_alone():
    assert due(60, {"state": "absent", "enabled": False}) == ["enable: it is absent"]
    assert due(60, {"enabled": False}) == ["enable: it would not start at boot"]
    assert due(60) == []


def test_another_pace_starts_it_anew():
    assert due(60, before=[FILE]) == ["enable: its definition changes"]
