"""Rows of rules: what they say, and what is refused in them."""

from typing import Any

import pytest

from slipway.rules.conditions import as_number, broken, holds
from slipway.rules.table import RuleError, read_row

ROW: dict[str, Any] = {
    "id": "a-rule",
    "severity": "error",
    "title": "A title",
    "when": {"role": "decode"},
    "require": {"tp": {"max": 4}},
    "message": "tp is {tp}",
    "fix": "set tp to 4",
    "source": "here",
    "confidence": "source",
}


def look(facts: dict[str, Any]) -> Any:
    return facts.get


def test_a_row_says_in_words_what_it_checks():
    rule = read_row("x.yml[0]", {**ROW, "span": "0.5.14..0.5.20"})
    said = "every worker, where `role` is `decode` (SGLang 0.5.14 up to, not including, 0.5.20)"
    assert rule.checks == f"{said}: must hold: `tp` is at most `4`"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"severity": "bad"}, "severity"),
        ({"confidence": "sure"}, "confidence"),
        ({"fix": ""}, "'fix'"),
        ({"forbid": {"tp": 1}}, "one of equal, require, forbid"),
        ({"extra": 1}, "'extra'"),
        ({"when": {"colour": "red"}}, "'colour'"),
        ({"when": {"given.port": 1}}, "'given.port'"),
        ({"message": "{same.tp}"}, "'same.tp'"),
        ({"require": {"tp": {"most": 4}}}, "most"),
    ],
)
def test_a_malformed_row_is_named_with_its_file_and_place(change, complaint):
    with pytest.raises(RuleError, match=r"slipway/rules/x\.yml\[3\].*" + complaint):
        read_row("x.yml[3]", {**ROW, **change})


@pytest.mark.parametrize(
    ("tests", "facts", "answer"),
    [
        ({"a": "X"}, {"a": "x"}, True),
        ({"a": ["x", "y"]}, {"a": "z"}, False),
        ({"a": "x"}, {}, None),
        ({"a": "x", "b": 1}, {"b": 2}, False),
        ({"a": True}, {"a": "true"}, True),
        ({"a": "sm_120"}, {"a": ("sm_121", "sm_120")}, True),
        ({"a": {"set": False}}, {}, True),
        ({"a": {"set": True}}, {}, False),
        ({"a": {"not": "x"}}, {}, None),
        ({"a": {"not": ["x"]}}, {"a": "y"}, True),
        ({"a": {"min": 2, "max": "b"}}, {"a": "3", "b": 4}, True),
        ({"a": {"min": "b"}}, {"a": 3}, None),
        ({"a": {"multiple_of": 64}}, {"a": 100}, False),
        ({"a": {"multiple_of": 0}}, {"a": 100}, False),
        ({"a": {"max": 3}}, {"a": [1]}, None),
    ],
)
def test_tests_answer_yes_no_or_unknown(tests, facts, answer):
    assert holds(tests, look(facts)) is answer
    assert broken(tests, look(facts)) is (answer is False)


@pytest.mark.parametrize("value", [True, None, "nan", "inf", "x", [], {}, float("inf")])
def test_what_is_no_number_is_none(value):
    assert as_number(value) is None
