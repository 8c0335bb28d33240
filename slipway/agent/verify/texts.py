"""What gives a broken engine away in a text, whatever was asked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

SCRIPTS = 3  # so many writing systems in an answer to an English question are no answer
REPEATS = 12
SHARE = 0.8  # of a text that must be the same thing again and again
LONGEST_PERIOD = 8  # words
RUN = re.compile(r"(.{1,20}?)\1{11,}", re.DOTALL)
# Writing systems that go together in one language count as one.
FAMILY = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "IDEOGRAPHIC": "CJK", "BOPOMOFO": "CJK", "FULLWIDTH": "CJK"}


def suspicion(text: str) -> str:
    """What is wrong with a text by itself; '' when nothing is."""
    if "\ufffd" in text:
        return "it holds U+FFFD, as a broken detokenizer gives"
    if len(text.strip()) >= 4 and set(text.strip()) == {"!"}:
        return "it is nothing but '!', as logits of NaN give"
    if repeats(text):
        return "it says the same thing again and again"
    found = scripts(text)
    if len(found) >= SCRIPTS:
        return f"it mixes {len(found)} writing systems ({', '.join(found)})"
    return ""


def repeats(text: str) -> bool:
    """Whether most of a text is one piece of it over and over."""
    words = text.split()
    if any(periodic(words, period) for period in range(1, LONGEST_PERIOD + 1)):
        return True
    match = max(RUN.finditer(text), key=lambda found: len(found[0]), default=None)
    return match is not None and bool(match[1].strip()) and len(match[0]) >= SHARE * len(text)


def periodic(words: Sequence[str], period: int) -> bool:
    """Whether the last of the words repeat with a period, often enough and over most of the text."""
    same = 0
    while same + period < len(words) and words[-1 - same] == words[-1 - same - period]:
        same += 1
    covered = same + period
    return covered >= REPEATS * period and covered >= SHARE * len(words)


def scripts(text: str) -> list[str]:
    """The writing systems that the letters of a text come from."""
    names = (unicodedata.name(char, "").partition(" ")[0] for char in text if char.isalpha())
    return sorted({FAMILY.get(name, name) for name in names if name})
