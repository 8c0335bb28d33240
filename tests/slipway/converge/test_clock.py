"""A clock that is off is told, with which way and by how much."""

import pytest

from slipway.converge.clock import clock_findings


@pytest.mark.parametrize("clock", [1000.0, 1004.0, 970.5, 1033.0])
def test_a_clock_that_is_about_right_is_not_mentioned(clock):
    assert list(clock_findings("a", clock, 1000.0, 1004.0)) == []


@pytest.mark.parametrize(("clock", "words"), [(4604.0, "3600 s ahead of"), (400.0, "600 s behind")])
def test_one_that_is_off_is_a_warning(clock, words):
    (found,) = clock_findings("a", clock, 1000.0, 1004.0)

    assert (found.rule, found.severity, found.subject) == ("clock-skew", "warning", "a")
    assert words in found.message
