"""How far an experiment has come, and what is next. The results themselves say which rounds are measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from slipway.experiment.model import BASELINE, Experiment

FORMAT = 1
Status = Literal["ready", "refused", "wrong", "failed"]


class StateError(Exception):
    """A state file that does not belong to the experiment as it is written now."""


@dataclass
class Standing:
    """One variant. why: the finding, the rung or the error that keeps it out; '' while it is ready."""

    status: Status = "ready"
    why: str = ""


@dataclass
class State:
    """What the state file holds. fingerprint: of all that decides what is measured. restored: the baseline is back."""

    experiment: str
    fingerprint: str
    variants: dict[str, Standing] = field(default_factory=dict)
    restored: bool = False

    def ready(self, experiment: Experiment) -> list[str]:
        """Variants that are measured, in the experiment's order."""
        return [one.name for one in experiment.variants if self.variants[one.name].status == "ready"]


@dataclass(frozen=True)
class Step:
    """What is next: measure a variant for the n-th time (round counts from 1), or put the baseline back."""

    kind: Literal["measure", "restore", "done", "stop"]
    variant: str = BASELINE
    round: int = 0


def fingerprint(experiment: Experiment, data: Mapping[str, Any]) -> str:
    """Equal for experiments whose results may stand beside one another. Repeats may grow, wording may change."""
    rows = [[one.name, dict(one.change.data), one.change.patches, one.change.inventory] for one in experiment.variants]
    text = json.dumps([rows, experiment.inventory, experiment.sweep, dict(data)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def to_text(state: State) -> str:
    """The state file."""
    return json.dumps({"format": FORMAT, **asdict(state)}, indent=1) + "\n"


def from_text(text: str, experiment: Experiment, print_of: str) -> State:
    """Read it back. Raises StateError when it is of another experiment."""
    try:
        data = json.loads(text)
        variants = {name: Standing(row["status"], row["why"]) for name, row in data["variants"].items()}
        found = State(data["experiment"], data["fingerprint"], variants, bool(data["restored"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"cannot be read ({type(error).__name__}: {error})") from None
    if found.fingerprint != print_of or set(variants) != {one.name for one in experiment.variants}:
        raise StateError("belongs to other variants than experiments/NAME.yml and --data say now".replace(
            "NAME", experiment.name))  # fmt: skip
    return found


def schedule(experiment: Experiment, names: list[str]) -> list[tuple[str, int]]:
    """(variant, round) in the order in which they are measured.

    interleaved: every second round runs backwards, so that a drift over time does not favour who comes first.
    """
    rounds = range(1, experiment.repeats + 1)
    if experiment.order == "sequential":
        return [(name, number) for name in names for number in rounds]
    return [(name, number) for number in rounds for name in (names if number % 2 else names[::-1])]


def next_step(experiment: Experiment, state: State, measured: Mapping[str, int]) -> Step:
    """What to do. measured: rounds of each variant that came to their end."""
    if state.variants[BASELINE].status != "ready":
        return Step("stop")
    for name, number in schedule(experiment, state.ready(experiment)):
        if measured.get(name, 0) < number:
            return Step("measure", name, number)
    return Step("done") if state.restored else Step("restore")
