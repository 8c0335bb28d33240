"""A configuration error as an object with parts, formatted in one place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ConfigError:
    """One thing wrong with the configuration.

    file, line: where it was written (line 0: the file as a whole). path: dotted key path, '' for the file.
    found: what is there. allowed: what must be there. hint: the fix, one sentence.
    """

    file: str
    line: int
    path: str
    found: str
    allowed: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        subject = f" {self.path}:" if self.path else ""
        text = f"{place}:{subject} got {self.found}; must be {self.allowed}"
        return f"{text}\n    hint: {self.hint}" if self.hint else text


class InvalidConfigError(Exception):
    """Raised once per run with every error found, so that one edit can mend them all."""

    def __init__(self, errors: Iterable[ConfigError]) -> None:
        self.errors = tuple(dict.fromkeys(errors))
        super().__init__("\n".join(str(error) for error in self.errors))


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word closest to `word`, or '' when nothing is close."""
    matches = difflib.get_close_matches(str(word), [str(k) for k in known], n=1, cutoff=0.6)
    return matches[0] if matches else ""
