"""Which layer classes a list of module patterns means: globs, `re:` expressions, plain module names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import lru_cache

from slipway.checkpoint.scheme import LAYER_CLASSES, LayerClass
from slipway.checkpoint.tables import table

_NUMBER = re.compile(r"(?<=\.)(\d{1,9})(?=\.|$|\*|\\)")
# Expressions from a file are only tried on short names, and long or nested ones not at all: no file may hang
# a plan.
_LONGEST = 200
_COSTLY = re.compile(r"[+*}]\)?[+*{]|\)[+*{]")


def coverage(patterns: Iterable[str], counts: Mapping[LayerClass, int]) -> dict[LayerClass, float]:
    """Per layer class, the share of its layers that the patterns cover, from 0 to 1.

    A class is covered in a layer when at least half of its example modules, in one naming style, match.
    Patterns that name single layers are collected per style; a pattern with a wildcard for the layer covers
    all of them. counts: how many layers have the class; without it any single layer counts as all.
    """
    hits: dict[tuple[LayerClass, int, str], set[str]] = defaultdict(set)
    for pattern in patterns:
        layer, general = _generalise(pattern)
        for layer_class, style, probe in _matches(general):
            hits[layer_class, style, probe].add(layer)
    return {name: max(_style_shares(hits, name, counts.get(name, 0)), default=0.0) for name in LAYER_CLASSES}


def within(patterns: Iterable[str], layers: int) -> list[str]:
    """The patterns that may mean one of the main layers: extra prediction layers are numbered after them."""
    named = [(pattern, _generalise(pattern)[0]) for pattern in patterns]
    return [pattern for pattern, layer in named if layer == "*" or layers <= 0 or int(layer) < layers]


def _generalise(pattern: str) -> tuple[str, str]:
    """The layer that a pattern names (`*` for any) and the pattern with every number replaced by 0."""
    numbers = _NUMBER.findall(pattern)
    return numbers[0] if numbers else "*", _NUMBER.sub("0", pattern)


def _style_shares(hits: dict[tuple[LayerClass, int, str], set[str]], name: LayerClass, layers: int) -> list[float]:
    shares = []
    for style, probes in enumerate(table("quantization")["probes"][name]):
        covered = [_share(hits.get((name, style, probe), set()), layers) for probe in probes]
        upper_half = sorted(covered, reverse=True)[: (len(covered) + 1) // 2]
        shares.append(min(upper_half, default=0.0))
    return shares


def _share(layers_hit: set[str], layers: int) -> float:
    if "*" in layers_hit:
        return 1.0
    return min(len(layers_hit) / layers, 1.0) if layers > 0 else float(bool(layers_hit))


@lru_cache(maxsize=4096)
def _matches(pattern: str) -> tuple[tuple[LayerClass, int, str], ...]:
    found: list[tuple[LayerClass, int, str]] = []
    matcher = _matcher(pattern)
    for layer_class in LAYER_CLASSES:
        for style, probes in enumerate(table("quantization")["probes"][layer_class]):
            found += [(layer_class, style, probe) for probe in probes if matcher is not None and matcher.search(probe)]
    return tuple(found)


def _matcher(pattern: str) -> re.Pattern[str] | None:
    """An expression that finds the pattern in a module name; None when the pattern cannot be used."""
    if len(pattern) > _LONGEST or not pattern:
        return None
    if pattern.startswith("re:"):
        return _compiled(pattern[3:])
    if any(mark in pattern for mark in "*?["):
        return _compiled(f"{translate(pattern)}|{translate(pattern + '.*')}")
    # a plain name means the module, what is inside it, and (as the engines compare) a part of the dotted path
    return _compiled(rf"(^|\.){re.escape(pattern)}(\.|$)")


def _compiled(expression: str) -> re.Pattern[str] | None:
    simple = expression.replace(".*", "").replace("(?>", "(?:")
    if _COSTLY.search(simple) and not expression.startswith("(?s:"):
        return None
    try:
        return re.compile(expression if expression.startswith(("(?s:", "(^")) else f"^(?:{expression})")
    except (re.error, OverflowError, RecursionError):
        return None
