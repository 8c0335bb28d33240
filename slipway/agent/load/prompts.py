"""Prompts of a wanted length that no cache has seen: random words, another draw for every seed and request.

Without a tokenizer: words of three letters, one token each in the vocabularies that models have. With a tokenizer.json
at hand: words that are one entry of it. How many tokens a word makes is asked of the server, and words are drawn from
those that make equally many, so that equal numbers of words are equal numbers of tokens. The first word is always the
same one, as the template's text before it can change what it counts for; prompts differ from the second on, and prefix
caches go by that. Only the head of each prompt is drawn word by word; the rest is a slice of one long draw, so that a
prompt of thousands of tokens costs microseconds.
"""

from __future__ import annotations

import bisect
import json
import random
import re
from collections.abc import Callable
from typing import Any

PLAIN = """
act add age ago aid aim air all and any arm art ask bad bag bar bed big bit box boy bus but buy can cap car cat cup
cut day did die dog dry due ear eat egg end eye far few fit fix fly for fun gas get gun guy had has hat her him his
hit hot how ice ill its job key kid law lay led leg let lie log lot low man map may men met mix net new nor not now
odd off oil old one our out own pay per pop put ran raw red rid row run sad saw say sea see set she sir sit six sky
son sun tax tea ten the tie tip top toy try two use via war was way web who why win yes yet you
""".split()  # noqa: SIM905
WORDS_AT_MOST = 20000
SAMPLE_WORDS, LEAST_WORDS = 64, 16
HEAD_WORDS = 12
DRAWN = 65536


class Prompts:
    """Prompts of one cell. words: how many of them a prompt has."""

    def __init__(self, vocabulary: list[str], seed: str, words: int) -> None:
        self._seed, self._words = seed, words
        self._first, self._vocabulary = vocabulary[0], vocabulary[1:] or vocabulary
        drawn = random.Random(seed).choices(self._vocabulary, k=max(DRAWN, 2 * words))  # noqa: S311 - prompts, no secrets
        self._text = " ".join(drawn)
        self._starts = starts_of(drawn)

    def prompt(self, index: int) -> str:
        """Prompt number `index`; the same for the same seed and index, and unlike every other."""
        own = random.Random(f"{self._seed}/{index}")  # noqa: S311
        head = [self._first, *own.choices(self._vocabulary, k=min(HEAD_WORDS, self._words) - 1)]
        rest = self._words - len(head)
        if rest <= 0:
            return " ".join(head)
        first = own.randrange(len(self._starts) - rest)
        end = self._starts[first + rest] - 1
        return " ".join(head) + " " + self._text[self._starts[first] : end]


def starts_of(words: list[str]) -> list[int]:
    """Where each word begins in their joined text, and where one after the last would."""
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    return [*starts, at]


def vocabulary_of(tokenizer: str | None) -> list[str]:
    """Words to draw from. tokenizer: path of a tokenizer.json, if there is one. Raises ValueError."""
    try:
        with open(tokenizer or "", encoding="utf-8") as file:
            words = whole_words(json.load(file))
    except OSError:
        return PLAIN
    return words if len(words) >= len(PLAIN) else PLAIN


def whole_words(tokenizer: Any) -> list[str]:
    """Lower-case words that are one entry of the vocabulary when a space stands before them."""
    vocabulary = tokenizer.get("model", {}).get("vocab", {}) if isinstance(tokenizer, dict) else {}
    entries = list(vocabulary) if isinstance(vocabulary, dict) else [row[0] for row in vocabulary]
    found = (re.fullmatch("[\u0120\u2581]([a-z]{3,10})", entry) for entry in entries)
    words = sorted({match[1] for match in found if match})
    return words if len(words) <= WORDS_AT_MOST else words[:: len(words) // WORDS_AT_MOST + 1]


Count = Callable[[str], int | None]


def even(vocabulary: list[str], count: Count) -> list[str]:
    """Words that make equally many tokens each. count: tokens of a prompt, template included; None: nobody counts.

    A model's vocabulary has all of them as one token, which two questions show; else each plain word is asked for.
    """
    for words in (vocabulary, PLAIN):
        some = random.Random(len(words)).sample(words, k=min(len(words), 2 * SAMPLE_WORDS))  # noqa: S311
        half, whole = count(" ".join(some[: len(some) // 2])), count(" ".join(some))
        if half is None or whole is None or whole - half == len(some) - len(some) // 2:
            return words
    return alike(PLAIN, count)


def alike(words: list[str], count: Count) -> list[str]:
    """Of the words, those that make the commonest number of tokens; all where these would be too few to draw from."""
    first = words[0]
    base = count(first) or 0
    costs: dict[int, list[str]] = {}
    for word in words[1:]:
        tokens = (count(f"{first} {word} {word}") or 0) - base
        costs.setdefault(tokens, []).append(word)
    most = max(costs.values(), key=len)
    return [first, *most] if len(most) >= LEAST_WORDS else words


class Calibration:
    """Which number of words gives a number of tokens, learnt from what the server counted."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def learn(self, words: int, tokens: int) -> None:
        """A prompt of so many words counted for so many tokens, template included."""
        self._known[words] = tokens

    def words_for(self, tokens: int) -> int:
        """The best guess so far, 1 at least."""
        if not self._known:
            return max(1, tokens)
        exact = [words for words, counted in self._known.items() if counted == tokens]
        if exact:
            return exact[0]
        points = sorted(self._known.items())
        (x0, y0), (x1, y1) = nearest(points, tokens) if len(points) > 1 else (points[0], points[0])
        slope = (y1 - y0) / (x1 - x0) if x1 != x0 and y1 != y0 else 1.0
        return max(1, round(x0 + (tokens - y0) / slope))


def nearest(points: list[tuple[int, int]], tokens: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two known points to go by."""
    at = bisect.bisect_left([counted for _, counted in points], tokens)
    at = min(max(at, 1), len(points) - 1)
    return points[at - 1], points[at]
