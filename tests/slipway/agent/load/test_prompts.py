"""Prompts: fresh for every seed and request, and of the length that was asked for."""

import json
from pathlib import Path

from slipway.agent.load.prompts import HEAD_WORDS, PLAIN, Calibration, Prompts, even, vocabulary_of

ROOT = Path(__file__).resolve().parents[4]


def test_equal_seeds_give_equal_prompts_and_others_share_no_beginning():
    one, same, other = Prompts(PLAIN, "a", 200), Prompts(PLAIN, "a", 200), Prompts(PLAIN, "b", 200)
    drawn = [one.prompt(index) for index in range(500)]

    assert [same.prompt(index) for index in range(500)] == drawn
    heads = {" ".join(prompt.split()[:8]) for prompt in drawn} | {other.prompt(index)[:31] for index in range(500)}
    assert len(heads) == 1000


def test_a_prompt_has_its_number_of_words_whatever_that_is():
    for words in (1, HEAD_WORDS, HEAD_WORDS + 1, 5000, 70_000):
        assert len(Prompts(PLAIN, "seed", words).prompt(3).split()) == words


def test_plain_words_are_of_three_letters():
    assert all(len(word) == 3 for word in PLAIN)
    assert len(set(PLAIN)) == len(PLAIN) >= 128


def test_words_come_from_the_tokenizer_where_there_is_a_rich_one(tmp_path):
    words = [f"{a}{b}{c}x" for a in "abcdef" for b in "aeiou" for c in "mnprst"]
    vocabulary = {f"\u0120{word}": number for number, word in enumerate(words)} | {"!": 999, "\u0120Upper": 1000}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": {"vocab": vocabulary}}))

    assert vocabulary_of(str(file)) == sorted(words)
    assert vocabulary_of(str(ROOT / "models/tiny/tokenizer.json")) == PLAIN  # 400 entries: too few to draw from
    assert vocabulary_of(None) == vocabulary_of(str(tmp_path / "absent.json")) == PLAIN


def test_calibration_finds_the_number_of_words_behind_a_template():
    calibration = Calibration()
    for _ in range(4):
        words = calibration.words_for(1024)
        calibration.learn(words, 11 + round(1.31 * words))

    assert 11 + round(1.31 * calibration.words_for(1024)) == 1024


def counting(cost, template: int = 5):
    """A server that counts `cost` tokens for a word."""
    asked: list[str] = []

    def count(prompt: str) -> int:
        asked.append(prompt)
        return template + sum(cost(word) for word in prompt.split())

    return count, asked


def test_a_vocabulary_of_whole_words_is_known_by_two_questions():
    count, asked = counting(lambda _: 1)

    assert even(PLAIN, count) == PLAIN
    assert len(asked) == 2


def test_where_words_make_unequal_tokens_those_are_kept_that_are_alike():
    """As with the tiny model, whose vocabulary has 400 entries."""
    count, _ = counting(lambda word: 1 + (word[0] in "abcdef"))

    words = even(PLAIN, count)

    costs = {count(word) for word in words[1:]}
    assert len(costs) == 1
    assert len(words) > 60
    drawn = Prompts(words, "seed", 50)
    assert len({count(drawn.prompt(index)) for index in range(20)}) == 1


def test_words_of_a_tokenizer_that_the_server_counts_otherwise_are_not_used():
    count, _ = counting(len)

    assert even([f"word{'s' * (number % 5)}" for number in range(500)], count) == PLAIN


def test_a_server_that_counts_nothing_gets_the_words_as_they_are():
    assert even(["one", "two", "three"], lambda _: None) == ["one", "two", "three"]
