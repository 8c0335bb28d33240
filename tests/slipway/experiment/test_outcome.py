"""The final table: each variant, each lever alone, aware of noise; and what is recommended."""

import pytest

from slipway.bench.folder import read_result
from slipway.experiment.model import Change, Experiment, Variant
from slipway.experiment.outcome import Outcome, recommendation, tables
from slipway.experiment.state import Standing, State
from tests.slipway.bench.results import cell, repeats, void, write


def variant(name, **levels):
    change = Change({f"worker.{lever}": level for lever, level in levels.items()})
    return Variant(name, levels, change, change)


@pytest.fixture
def outcome(tmp_path):
    """Of variants given as name=(levels, cells); baseline too."""

    def made(rows, standing=None, worth=1.0):
        variants = [variant(name, **levels) for name, (levels, _) in rows.items()]
        state = State("x", "", {one.name: (standing or {}).get(one.name, Standing()) for one in variants})
        results = {}
        for name, (_, cells) in rows.items():
            if cells:
                write(tmp_path, name, cells)
                results[name] = read_result(tmp_path, name)
        experiment = Experiment("x", "about", "", tuple(variants), 3, "interleaved", None, "output_throughput", worth)
        counted = {name: one for name, one in results.items() if state.variants[name].status == "ready"}
        return Outcome(experiment, state, counted)

    return made


def loads(output, *more_loads):
    """Three close runs of one load, or of several."""
    return [one for at, factor in enumerate((1, *more_loads)) for one in repeats(
        output * factor, output * factor * 1.004, output * factor * 0.996, concurrency=8 * 2**at)]  # fmt: skip


def text(outcome):
    return "\n".join(" | ".join(item.text for item in row) for table in tables(outcome) for row in table.rows)


def test_variants_are_ranked_and_the_best_is_recommended_with_what_it_sets(outcome):
    found = outcome(
        {"baseline": ({}, loads(400.0)), "slow": ({"a": "1"}, loads(300.0)), "quick": ({"b": "1"}, loads(440.0))}
    )

    assert [score.variant.name for score in found.ranked()] == ["quick", "slow"]
    assert recommendation(found)[:2] == [
        "Recommended: quick (+10.0 % ±1.0 output tok/s, over all loads).",
        "It sets worker.b.",
    ]
    assert "slow | 300.0 | 400.0 | -25.0 % ±0.7 | worse | worker.a" in text(found)


def test_a_difference_inside_the_noise_is_not_recommended(outcome):
    found = outcome({"baseline": ({}, repeats(400.0, 440.0, 360.0)), "a": ({"a": "1"}, repeats(410.0, 450.0, 370.0))})

    assert recommendation(found)[0].startswith("Keep the baseline")
    assert "noise" in text(found)


def test_a_sure_gain_that_is_not_worth_it_is_not_recommended(outcome):
    found = outcome({"baseline": ({}, loads(400.0)), "a": ({"a": "1"}, loads(408.0))}, worth=5.0)

    assert "by 5 % at least" in recommendation(found)[0]


def test_one_round_gives_no_recommendation(outcome):
    found = outcome({"baseline": ({}, [cell(400.0)]), "a": ({"a": "1"}, [cell(500.0)])})

    assert "with one round, no difference" in recommendation(found)[0]
    assert "not known (1 round)" in text(found)


def test_a_wrong_variant_is_never_ranked_though_it_was_quickest(outcome):
    wrong = {"a": Standing("wrong", "deploy: rung known-answers: 3 of 32 wrong")}
    found = outcome({"baseline": ({}, loads(400.0)), "a": ({"a": "1"}, loads(900.0))}, wrong)

    assert found.ranked() == []
    assert "a | wrong: deploy: rung known-answers: 3 of 32 wrong | worker.a" in text(found)
    assert not any("Recommended" in line for line in recommendation(found))


def test_a_round_with_a_void_load_does_not_count(outcome):
    cells = [*repeats(500.0, 502.0, 498.0), *repeats(800.0, 804.0, concurrency=16), void(16, 3)]
    found = outcome({"baseline": ({}, loads(400.0, 1.5)), "a": ({"a": "1"}, cells)})

    assert len(found.runs("a")) == 2
    assert len(found.runs("baseline")) == 3


def test_a_variant_without_a_whole_round_is_told_and_not_ranked(outcome):
    cells = [*repeats(500.0, 502.0), void(16, 1), void(16, 2)]
    found = outcome({"baseline": ({}, loads(400.0, 1.5)), "a": ({"a": "1"}, cells)})

    assert "a | void: no round in which every load counts | worker.a" in text(found)


def test_a_load_that_is_void_in_the_baseline_is_left_out_and_named(outcome):
    base = [*loads(400.0), void(16, 1), void(16, 2), void(16, 3)]
    found = outcome({"baseline": ({}, base), "a": ({"a": "1"}, loads(440.0, 2.0))})

    assert found.scores[0].difference.percent == pytest.approx(10.0)
    assert recommendation(found)[-1] == "Not compared, as it is void in every round of the baseline: 1024/128 C=16."


def test_a_matrix_tells_each_lever_alone(outcome):
    found = outcome({
        "baseline": ({}, loads(400.0)), "a": ({"a": "1"}, loads(440.0)), "b": ({"b": "1"}, loads(400.0 * 0.8)),
        "a_b": ({"a": "1", "b": "1"}, loads(440.0 * 0.8)),
    })  # fmt: skip

    effects = {effect.lever: effect for effect in found.effects}
    assert effects["a"].percent == pytest.approx(10.0, abs=0.1)
    assert effects["b"].percent == pytest.approx(-20.0, abs=0.1)
    assert (effects["a"].pairs, effects["b"].pairs) == (2, 2)
    assert effects["a"].half < found.scores[0].difference.half_percent  # two pairs say more than one
    assert "a | 1 | +10.0 %" in text(found)


def test_a_lever_without_the_baseline_s_own_level_is_held_against_its_first(outcome):
    found = outcome({
        "baseline": ({}, loads(100.0)),
        "a1_b1": ({"a": "1", "b": "1"}, loads(400.0)), "a2_b1": ({"a": "2", "b": "1"}, loads(440.0)),
        "a1_b2": ({"a": "1", "b": "2"}, loads(400.0)), "a2_b2": ({"a": "2", "b": "2"}, loads(440.0)),
    })  # fmt: skip

    assert [(effect.lever, effect.level, effect.pairs) for effect in found.effects] == [("a", "2", 2), ("b", "2", 2)]
    assert found.effects[0].percent == pytest.approx(10.0, abs=0.1)
    assert found.effects[1].verdict == "noise"


def test_levers_taken_together_have_no_effect_of_their_own(outcome):
    found = outcome({"baseline": ({}, loads(400.0)), "z": ({"a": "1", "b": "1"}, loads(440.0))})

    assert found.effects == []


def test_a_price_is_told_beside_the_recommendation(outcome):
    late = [{**one, "median_ttft_ms": 90.0, "p99_ttft_ms": 41.0} for one in loads(440.0)]
    found = outcome({"baseline": ({}, loads(400.0)), "a": ({"a": "1"}, late)})

    assert any("At a price: TTFT median +221.4 % at 1024/128 C=8" in line for line in recommendation(found))


def test_two_levers_that_help_alone_are_to_be_measured_together(outcome):
    rows = {"baseline": ({}, loads(400.0)), "a": ({"a": "1"}, loads(440.0)), "b": ({"b": "1"}, loads(420.0))}

    assert any("measure them together" in line for line in recommendation(outcome(rows)))
