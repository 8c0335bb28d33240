"""Typed reading of JSON documents that nobody has checked.

A wrong type becomes a finding, never an exception.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from slipway.finding import Finding

T = TypeVar("T")

# Larger than any real count or size (10**15 bytes is a petabyte); keeps later arithmetic finite.
LARGEST = 10**15


def shown(value: object) -> str:
    """A value for a message: short, ASCII, and never an error itself."""
    if isinstance(value, int) and value.bit_length() > 64:
        return "an integer of more than 64 bits"
    text = ascii(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def printable(text: str) -> str:
    """The text without characters that no terminal or file can encode (lone surrogates)."""
    return text.encode("utf-8", "replace").decode("utf-8")


def parse_json(name: str, text: str | bytes, findings: list[Finding]) -> dict[str, Any]:
    """The JSON object of a file; an empty one and a finding when it is none."""
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        document = json.loads(decoded)
    except (ValueError, RecursionError) as error:
        findings.append(_unreadable(name, f"is not JSON: {ascii(str(error))[:120]}"))
        return {}
    if not isinstance(document, dict):
        findings.append(_unreadable(name, f"holds {shown(document)}; it must hold an object"))
        return {}
    return document


def _unreadable(name: str, message: str) -> Finding:
    fix = f"fetch {name} again, or restore it from the model's repository"
    return Finding("checkpoint-file-unreadable", "error", name, message, fix)


class Fields:
    """One object of a JSON document. Each getter takes aliases; the first one present and not null counts."""

    def __init__(self, document: Mapping[str, Any], file: str, findings: list[Finding], path: str = "") -> None:
        self._document = document
        self.file = file
        self.path = path
        self.findings = findings

    def has(self, name: str) -> bool:
        """Whether the key is there and not null."""
        return self._document.get(name) is not None

    def keys(self) -> tuple[str, ...]:
        return tuple(self._document)

    def raw(self, name: str) -> Any:
        return self._document.get(name)

    def integer(self, *names: str, default: int = 0) -> int:
        """A whole number from -1 (which some formats use for `whole row`) to LARGEST."""
        name, value = self._first(names)
        if value is None:
            return default
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= LARGEST:
            return self._wrong(name, value, "a whole number", default)
        return value

    def number(self, *names: str, default: float = 0.0) -> float:
        """A finite number."""
        name, value = self._first(names)
        if value is None:
            return default
        usable = isinstance(value, int | float) and not isinstance(value, bool)
        if not usable or abs(value) > LARGEST or not math.isfinite(value):
            return self._wrong(name, value, "a finite number", default)
        return float(value)

    def text(self, *names: str, default: str = "") -> str:
        name, value = self._first(names)
        if value is None:
            return default
        return printable(value) if isinstance(value, str) else self._wrong(name, value, "a text", default)

    def flag(self, name: str, default: bool = False) -> bool:
        _, value = self._first((name,))
        if value is None:
            return default
        return value if isinstance(value, bool) else self._wrong(name, value, "true or false", default)

    def strings(self, *names: str) -> tuple[str, ...]:
        """A list of texts; a single text counts as a list of one."""
        name, value = self._first(names)
        if value is None:
            return ()
        if isinstance(value, str):
            return (printable(value),)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return self._wrong(name, value, "a list of texts", ())
        return tuple(printable(item) for item in value)

    def integers(self, *names: str) -> tuple[int, ...]:
        """A list of whole numbers; a single one counts as a list of one."""
        name, value = self._first(names)
        items = [value] if isinstance(value, int) else value
        if items is None:
            return ()
        good = isinstance(items, list) and all(_is_count(item) for item in items)
        return tuple(items) if good else self._wrong(name, value, "a list of whole numbers", ())

    def section(self, *names: str) -> Fields:
        """A nested object; an empty one when it is absent."""
        name, value = self._first(names)
        if value is not None and not isinstance(value, dict):
            value = self._wrong(name, value, "an object", {})
        return Fields(value or {}, self.file, self.findings, f"{self.path}{name}.")

    def _first(self, names: tuple[str, ...]) -> tuple[str, Any]:
        found = next((name for name in names if self._document.get(name) is not None), names[0])
        return found, self._document.get(found)

    def _wrong(self, name: str, value: object, allowed: str, default: T) -> T:
        message = f"{printable(self.path + name)}: got {shown(value)}; must be {allowed}"
        fix = f"correct the key in {self.file}, or fetch the file again; it is read as {shown(default)}"
        finding = Finding("checkpoint-field-type", "warning", self.file, message, fix)
        if finding not in self.findings:
            self.findings.append(finding)
        return default


def _is_count(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and -1 <= item <= LARGEST
