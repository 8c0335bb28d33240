"""A difference inside the spread is noise; beyond it, it is told; where nothing is known of the spread, so is that."""

import random

import pytest

from slipway.bench.noise import compare, interval, t95


def test_a_difference_inside_the_spread_is_noise():
    found = compare([101.0, 97.0, 103.0], [99.0, 102.0, 98.0], higher=True)

    assert found.verdict == "noise"
    assert found.half > abs(found.delta)


@pytest.mark.parametrize(("higher", "verdict"), [(True, "better"), (False, "worse"), (None, "differs")])
def test_a_difference_beyond_the_spread_has_a_direction(higher, verdict):
    assert compare([110.0, 111.0, 112.0], [99.0, 100.0, 101.0], higher).verdict == verdict


def test_one_run_a_side_says_nothing():
    found = compare([200.0], [100.0], higher=True)

    assert (found.verdict, found.half, found.percent) == ("unknown", None, 100.0)


def test_one_run_takes_the_spread_of_the_other_side():
    assert compare([104.0], [100.0, 101.0, 99.0], higher=True).verdict == "noise"
    assert compare([120.0], [100.0, 101.0, 99.0], higher=True).verdict == "better"


def test_a_spread_that_the_reader_names_is_used_where_there_are_no_repeats():
    assert compare([99.0], [100.0], higher=True, spread=0.01).verdict == "noise"
    assert compare([95.0], [100.0], higher=True, spread=0.01).verdict == "worse"


def test_welch_s_interval_is_the_textbook_s():
    # By hand: variances 13.469 and 3.009; error sqrt((13.469 + 3.009) / 4) = 2.0297; 4.28 degrees of freedom.
    found = compare([27.5, 21.0, 19.0, 23.6], [17.9, 16.0, 15.1, 18.9], higher=True)

    assert found.delta == pytest.approx(5.8)
    assert found.half == pytest.approx(t95(4) * 2.0297, rel=1e-3)


def test_quantiles_are_never_too_small():
    assert (t95(1.9), t95(30), t95(1000)) == (12.706, 2.042, 1.960)


def test_a_baseline_of_zero_has_no_percentage():
    assert compare([1.0, 1.0], [0.0, 0.0], higher=False).percent is None


def test_runs_without_a_difference_are_rarely_called_different():
    chance = random.Random(9)
    draws = [[chance.gauss(100, 2) for _ in range(6)] for _ in range(2000)]

    wrong = sum(compare(draw[:3], draw[3:], higher=True).verdict != "noise" for draw in draws)

    assert wrong / len(draws) < 0.06  # a 95 % interval


def test_a_single_run_has_no_interval():
    assert interval([5.0]) is None
    assert interval([5.0, 5.0]) == 0.0
