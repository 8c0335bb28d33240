"""Waiving findings by id, with a reason."""

from slipway.finding import Finding
from slipway.plan.waivers import apply_waivers

REASON = "measured on our own hosts"
ERROR = Finding("backend-forbidden", "error", "prefill-0", "does not work")


def test_a_waived_error_becomes_a_note_with_the_reason():
    (found,) = apply_waivers([ERROR], {"backend-forbidden": REASON}, ())

    assert found.severity == "note"
    assert found.message == f"does not work (waived: {REASON})"


def test_others_stay():
    other = Finding("memory-tight", "warning", "decode-0", "tight")

    assert apply_waivers([ERROR, other], {"backend-forbidden": REASON}, ())[1] == other


def test_an_unknown_id_is_an_error_that_names_the_nearest():
    (unknown, found) = apply_waivers([ERROR], {"backend-forbiden": REASON}, {"memory-tight"})

    assert (unknown.severity, unknown.rule) == ("error", "waive-unknown")
    assert unknown.fix == "did you mean backend-forbidden?"
    assert found == ERROR


def test_a_known_id_that_found_nothing_is_fine():
    assert apply_waivers([], {"memory-tight": REASON}, {"memory-tight"}) == ()


def test_what_leaves_the_plan_incomplete_cannot_be_waived():
    lacking = Finding("placement.gpus-short", "error", "gpu1", "0 GPUs free")
    (found,) = apply_waivers([lacking], {"placement.gpus-short": REASON}, ())

    assert found.severity == "error"
    assert "cannot be waived" in found.message
