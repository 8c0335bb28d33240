"""Which model family a class or model type belongs to, as the engine's hooks tell them apart."""

from __future__ import annotations

from functools import cache

from slipway.knowledge import tables

OTHER = "other"
_FILE = "families.yml"


def family_of(model_class: str) -> str:
    """Return the family of a Hugging Face class, a model type or a family name; 'other' for an unknown one."""
    plain = _plain(model_class)
    return next((family for family, starts in _table() if plain.startswith(starts)), OTHER)


def _plain(text: str) -> str:
    """Reduce a name to what matters: letters and digits, in lower case."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


@cache
def _table() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Read the families with their patterns; a family's own name is a pattern too."""
    found = []
    for row in tables.rows(_FILE, "families"):
        tables.check_keys(_FILE, str(row.get("family")), row, frozenset({"family", "patterns", "confidence", "source"}))
        found.append((str(row["family"]), tuple(_plain(str(item)) for item in row["patterns"])))
    return (*found, *((family, (_plain(family),)) for family, _ in found))
