"""Sets of known answers: read, refused with file and place, and chosen for a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.agent.verify.matching import matches
from slipway.verify.sets import AnswerSetError, accuracy_rows, built_in, chosen_rows, read_set

TINY = Path(__file__).parents[3] / "models/tiny"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_built_in_arithmetic_set_has_the_product_that_proved_the_origin_campaign() -> None:
    (row,) = [row for one in built_in() if one.name == "arithmetic" for row in one.rows if "17*23" in row["question"]]
    assert (row["expect"], row["match"]) == ("391", "number")


def test_the_tiny_model_knows_every_built_in_answer() -> None:
    known = {row["question"]: row["answer"] for row in json.loads((TINY / "known_answers.json").read_text())}
    assert all(known[row["question"]] == row["expect"] for one in built_in() for row in one.rows)


def test_a_checkpoint_that_brings_its_own_is_asked_those() -> None:
    rows = chosen_rows(None, TINY, [], ["local--tiny"], simulated=False)
    assert len(rows) == 32
    assert rows[0]["expect"]


def test_other_checkpoints_get_the_sets_for_them_else_arithmetic(tmp_path: Path) -> None:
    write(tmp_path / "mine.yml", "set: mine\nmodels: ['*DeepSeek*']\nanswers:\n  - {question: q, expect: e}\n")
    special = chosen_rows(None, None, [tmp_path], ["deepseek-ai--deepseek-v4-flash"], simulated=False)
    assert [row["question"] for row in special] == ["q"]
    general = chosen_rows(None, None, [tmp_path], ["meta--llama"], simulated=False)
    assert "What is 17*23? Answer with the number only." in [row["question"] for row in general]


def test_sets_are_named_or_are_files_and_each_question_comes_once(tmp_path: Path) -> None:
    write(tmp_path / "more.json", json.dumps([{"question": "q", "answer": "e"}, {"question": "q", "answer": "f"}]))
    rows = chosen_rows(["arithmetic", str(tmp_path / "more.json"), "arithmetic"], None, [tmp_path], [], simulated=False)
    assert [row["expect"] for row in rows if row["question"] == "q"] == ["e"]
    assert len(rows) == 5
    with pytest.raises(AnswerSetError, match=r"no set arithmetics; must be one of arithmetic, or a file"):
        chosen_rows(["arithmetics"], None, [tmp_path], [], simulated=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("answers: 3", "must hold a list `answers`"),
        ("- {expect: e}", "answer 1: has no question"),
        ("- {question: q, expect: e}\n- {question: q}", "answer 2: has no expect"),
        ("- {question: q, expect: e, match: fuzzy}", "match is 'fuzzy'; must be one of exact, number, regex, contains"),
        ("- {question: q, expect: '(', match: regex}", "is no regular expression"),
        ("- {question: q, expect: many, match: number}", "match is number, and 'many' holds none"),
        ("- {question: q, expects: e}", "unknown key expects"),
        ("[", "is neither YAML nor JSON"),
    ],
)
def test_a_set_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(AnswerSetError) as refused:
        read_set(write(tmp_path / "bad.yml", text))
    assert words in str(refused.value)
    assert str(tmp_path / "bad.yml") in str(refused.value)


def test_a_gsm8k_file(tmp_path: Path) -> None:
    lines = [{"question": f"q{n}", "answer": f"so it is\n#### {n},000"} for n in range(1, 5)]
    path = write(tmp_path / "set.jsonl", "\n".join(json.dumps(line) for line in lines))
    rows = accuracy_rows(path, 3, "{question} Think.")
    assert [(row["question"], row["expect"]) for row in rows] == [
        ("q1 Think.", "1,000"), ("q2 Think.", "2,000"), ("q3 Think.", "3,000"),
    ]  # fmt: skip
    with pytest.raises(AnswerSetError, match=r"set.jsonl:2: the answer 'none' holds no number"):
        accuracy_rows(write(path, lines_of("5", "none")), 9, "{question}")
    with pytest.raises(AnswerSetError, match="cannot be read: No such file"):
        accuracy_rows(tmp_path / "absent", 9, "{question}")


def lines_of(*answers: str) -> str:
    return "\n".join(json.dumps({"question": "q", "answer": f"#### {answer}"}) for answer in answers)


@pytest.mark.parametrize(
    ("said", "expect", "match", "first", "right"),
    [
        (" 391\n", "391", "exact", False, True),
        ("391.", "391", "exact", False, False),
        ("17*23 is 391.", "391", "number", False, True),
        ("17*23 = 340 + 51 = 1,391", "1391", "number", False, True),
        ("391. Next: 17*24 = 408", "391", "number", True, True),
        ("391. Next: 17*24 = 408", "391", "number", False, False),
        ("many words\n#### 18", "18", "number", False, True),
        ("no digits", "391", "number", False, False),
        ("It is Paris.", "paris", "contains", False, True),
        ("It is Lyon.", "paris", "contains", False, False),
        ("abc-42", r"^abc-\d+$", "regex", False, True),
        ("abc-x", r"^abc-\d+$", "regex", False, False),
        ("<think>12 or 13</think> 12", "12", "exact", False, True),
    ],
)
def test_matching(said: str, expect: str, match: str, first: bool, right: bool) -> None:
    assert matches(said, {"expect": expect, "match": match}, first) is right
