"""The shape of an experiment: variants, what each changes, and how they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BASELINE = "baseline"
ROLES = ("prefill", "decode", "unified")  # what `worker` stands for


@dataclass(frozen=True)
class Change:
    """What differs from group_vars. data: dotted key path -> value, as from --data. patches: beside those configured.

    inventory: another one, '' for the experiment's.
    """

    data: Mapping[str, Any] = field(default_factory=dict)
    patches: tuple[str, ...] = ()
    inventory: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """What it touches, as provenance and reports name it."""
        data = dict.fromkeys(self._as_written(key) for key in self.data)
        return (*data, *(["engine.patches"] * bool(self.patches)), *(["inventory"] * bool(self.inventory)))

    def _as_written(self, key: str) -> str:
        """worker.KEY for what is set alike for every role."""
        role, _, rest = key.partition(".")
        values = [self.data.get(f"{one}.{rest}", self) for one in ROLES]
        alike = role in ROLES and all(value == values[0] for value in values)
        return f"worker.{rest}" if alike else key

    @property
    def empty(self) -> bool:
        """Whether it changes nothing."""
        return not self.keys

    def over(self, other: Change) -> Change:
        """This change after `other`."""
        patches = (*other.patches, *(patch for patch in self.patches if patch not in other.patches))
        return Change({**other.data, **self.data}, patches, self.inventory or other.inventory)


@dataclass(frozen=True)
class Variant:
    """One thing to measure. levels: lever -> level; a lever that is not there is as in the baseline.

    change: all that differs from group_vars, the baseline's own included. own: without the baseline's.
    """

    name: str
    levels: Mapping[str, str]
    change: Change
    own: Change
    about: str = ""


@dataclass(frozen=True)
class Experiment:
    """All of experiments/NAME.yml. variants: the baseline first. inventory: '' where none is named."""

    name: str
    about: str
    inventory: str
    variants: tuple[Variant, ...]
    repeats: int
    order: str
    sweep: str | None
    metric: str
    worth_percent: float

    @property
    def baseline(self) -> Variant:
        """What all others are compared with, and what is put back."""
        return self.variants[0]

    def variant(self, name: str) -> Variant:
        """The variant `name`; KeyError when there is none."""
        return next(one for one in self.variants if one.name == name)

    def label(self, variant: str) -> str:
        """Under which label a variant's results lie."""
        return f"{self.name}.{variant}"
