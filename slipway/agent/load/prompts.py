"""Prompts of a wanted length that no cache has seen: random words, another draw for every seed and request.

Without a tokenizer: words of three letters, one token each in the vocabularies that models have, and a number of
them that is calibrated by what the server counts. With a tokenizer.json at hand: words that are one entry of it.
Only the head of each prompt is drawn word by word; the rest is a slice of one long draw, so that a prompt of
thousands of tokens costs microseconds. Two prompts differ from the first word on, which is what prefix caches go by.
"""

from __future__ import annotations

import bisect
import json
import random
import re
from typing import Any

PLAIN = """
act add age ago aid aim air all and any arm art ask bad bag bar bed big bit box boy bus but buy can cap car cat cup
cut day did die dog dry due ear eat egg end eye far few fit fix fly for fun gas get gun guy had has hat her him his
hit hot how ice ill its job key kid law lay led leg let lie log lot low man map may men met mix net new nor not now
odd off oil old one our out own pay per pop put ran raw red rid row run sad saw say sea see set she sir sit six sky
son sun tax tea ten the tie tip top toy try two use via war was way web who why win yes yet you
""".split()  # noqa: SIM905
WORDS_AT_MOST = 20000
HEAD_WORDS = 12
DRAWN = 65536


class Prompts:
    """Prompts of one cell. words: how many of them a prompt has."""

    def __init__(self, vocabulary: list[str], seed: str, words: int) -> None:
        self._seed, self._words = seed, words
        self._vocabulary = vocabulary
        drawn = random.Random(seed).choices(vocabulary, k=max(DRAWN, 2 * words))  # noqa: S311 - prompts, no secrets
        self._text = " ".join(drawn)
        self._starts = starts_of(drawn)

    def prompt(self, index: int) -> str:
        """Prompt number `index`; the same for the same seed and index, and unlike every other."""
        own = random.Random(f"{self._seed}/{index}")  # noqa: S311
        head = own.choices(self._vocabulary, k=min(HEAD_WORDS, self._words))
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
