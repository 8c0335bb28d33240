"""A difference inside the spread is noise; beyond it, it is told; where nothing is known of the spread, so is that."""

import math
import random

import pytest

from slipway.bench.noise import compare, t95


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


def test_the_interval_is_the_textbook_s():
    # By hand, on logarithms: ln 110 and ln 100, each +- ln 1.02: a spread of ln 1.02 * sqrt(2), 2 degrees of freedom.
    found = compare([110.0 * 1.02, 110.0 / 1.02], [100.0 * 1.02, 100.0 / 1.02], higher=True)

    half = 4.303 * math.log(1.02) * math.sqrt(2) * math.sqrt(1 / 2 + 1 / 2)
    assert found.percent == pytest.approx(10.0)
    assert found.half_percent == pytest.approx(110 * math.sinh(half), rel=1e-3)
    assert found.verdict == "noise"  # 9.5 % against 12.1 %, both as logarithms


def test_a_tenth_of_the_speed_is_no_noise_though_the_baseline_spreads():
    assert compare([140.0, 142.0], [1600.0, 1950.0], higher=True).verdict == "worse"


def test_counts_of_which_some_are_zero_are_compared_as_they_are():
    assert compare([0.0, 0.0, 0.0], [4.0, 5.0, 6.0], higher=False).verdict == "better"
    assert compare([0.0, 0.0], [0.0, 0.0], higher=False).verdict == "noise"


def test_quantiles_are_never_too_small():
    assert (t95(1.9), t95(30), t95(1000)) == (12.706, 2.042, 1.960)


def test_a_baseline_of_zero_has_no_percentage():
    assert compare([1.0, 1.0], [0.0, 0.0], higher=False).percent is None


def test_runs_without_a_difference_are_rarely_called_different():
    chance = random.Random(9)
    draws = [[chance.gauss(100, 2) for _ in range(6)] for _ in range(2000)]

    wrong = sum(compare(draw[:3], draw[3:], higher=True).verdict != "noise" for draw in draws)

    assert wrong / len(draws) < 0.06  # a 95 % interval
