"""Goes through an experiment step by step. What touches the world is given; what is decided is decided here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slipway.experiment.model import BASELINE, Experiment
from slipway.experiment.planning import Planned
from slipway.experiment.state import Standing, State, Status, Step, next_step

TRIES = 2  # of a step that fails for a reason which is not the variant's own, such as a connection that broke
_REASONS: tuple[tuple[Status, re.Pattern[str]], ...] = (
    ("wrong", re.compile(r"verification failed: (.+)")),
    ("refused", re.compile(r"^\s*error: (.+\[[a-z0-9-]+\])")),
)
# Somebody else is at work on the deployment, or took it from us: nothing that a variant could do about it.
_HELD = re.compile(r"(\S+ is being changed by .+|the lock is lost: .+)")
# pyinfra's own last words, which tell that something failed and not what; and words that do tell.
_CARRIER = re.compile(r"\s*(-->|\[[^]]+\] (Error: executed|Success|No changes))")
_TELLING = re.compile(r"stopped:|failed|[Ee]rror|did not|cannot|refuse|must be")


@dataclass(frozen=True)
class Outcome:
    """How a step ended. lines: the end of what it printed."""

    ok: bool
    lines: Sequence[str] = ()


class HeldError(Exception):
    """The deployment is somebody else's now; who has it."""


class World(Protocol):
    """What an experiment does to hosts and files."""

    def deploy(self, planned: Planned) -> Outcome:
        """Deploy and verify a variant."""

    def measure(self, planned: Planned, label: str, number: int) -> Outcome:
        """Sweep it, so that the label has `number` rounds; a round that was begun goes on."""

    def rounds(self, label: str) -> int:
        """Rounds of a label that came to their end."""

    def save(self, state: State) -> None:
        """Keep the state, whole or not at all."""

    def say(self, text: str) -> None:
        """Tell the user."""


def first_state(experiment: Experiment, planned: Sequence[Planned], print_of: str) -> State:
    """Before anything is measured: what the plan refuses is refused."""
    variants = {one.variant.name: Standing("refused", one.refused) if one.refused else Standing() for one in planned}
    return State(experiment.name, print_of, variants)


class Drive:
    """One run of the driver; another one goes on where it ended, at whatever point that was."""

    def __init__(self, experiment: Experiment, planned: Sequence[Planned], state: State, world: World) -> None:
        self._experiment, self._state, self._world = experiment, state, world
        self._planned = {one.variant.name: one for one in planned}
        self._deployed: str | None = None  # nobody knows what a killed run left behind
        self._tries: Counter[tuple[str, str]] = Counter()

    def run(self) -> bool:
        """Until the baseline is back; whether it is, and everything that could be measured was."""
        return self._ours_or_stopped(self._go)

    def restore(self) -> bool:
        """Put the baseline back, verified."""
        return self._ours_or_stopped(self._restore)

    def _ours_or_stopped(self, go: Callable[[], bool]) -> bool:
        try:
            return go()
        except HeldError as held:
            self._world.say(f"stopped: {held}")
            self._world.say("nothing that is measured is lost, no variant counts as failed; the same command goes on")
            return False

    def _go(self) -> bool:
        while True:
            step = next_step(self._experiment, self._state, self._measured())
            if step.kind == "measure":
                self._measure(step)
            elif step.kind == "restore":
                if not self._restore():
                    return False
            else:
                return step.kind == "done" or self._stopped()

    def _restore(self) -> bool:
        self._world.say("putting the baseline back")
        well = any(self._deploy(self._planned[BASELINE]).ok for _ in range(TRIES))
        self._deployed = BASELINE if well else None
        self._state.restored = well
        self._world.save(self._state)
        self._world.say("the baseline is back, verified" if well else "THE BASELINE COULD NOT BE PUT BACK, see above")
        return well

    def _deploy(self, planned: Planned) -> Outcome:
        return _ours(self._world.deploy(planned))

    def _measured(self) -> dict[str, int]:
        return {name: self._world.rounds(self._experiment.label(name)) for name in self._planned}

    def _stopped(self) -> bool:
        why = self._state.variants[BASELINE]
        self._world.say(f"the baseline is {why.status}: {why.why}; without it there is nothing to compare with")
        return False

    def _measure(self, step: Step) -> None:
        """Deploy the variant unless it is what runs, then sweep it."""
        planned, name = self._planned[step.variant], step.variant
        self._state.restored = False
        self._world.save(self._state)
        self._world.say(f"round {step.round} of {self._experiment.repeats}: {name}")
        if self._deployed != name:
            self._deployed = None
            outcome = self._deploy(planned)
            if not outcome.ok:
                self._failed(name, "deploy", outcome)
                return
            self._deployed = name
        label = self._experiment.label(name)
        outcome = _ours(self._world.measure(planned, label, step.round))
        if not outcome.ok or self._world.rounds(label) < step.round:
            self._deployed = None  # deployed and verified again before the next try
            self._failed(name, "sweep", outcome)

    def _failed(self, name: str, what: str, outcome: Outcome) -> None:
        status, why = judged(outcome.lines)
        self._tries[name, what] += 1
        if status == "failed" and self._tries[name, what] < TRIES:
            self._world.say(f"{name}: the {what} failed ({why}); once more")
            return
        self._state.variants[name] = Standing(status, f"{what}: {why}")
        self._world.save(self._state)
        self._world.say(f"{name} is {status}, and not measured further: {why}")


def _ours(outcome: Outcome) -> Outcome:
    """As it is. Raises HeldError when the step did not have the deployment to itself."""
    held = None if outcome.ok else next((found for line in outcome.lines if (found := _HELD.search(line))), None)
    if held:
        raise HeldError(held[1].strip())
    return outcome


def judged(lines: Sequence[str]) -> tuple[Status, str]:
    """Whether a step failed for what the variant is (wrong answers, a refused plan), or for another reason."""
    for status, pattern in _REASONS:
        for line in lines:
            match = pattern.search(line)
            if match:
                return status, match[1].strip()
    said = [line.strip() for line in lines if line.strip() and not _CARRIER.match(line)]
    told = [line for line in said if _TELLING.search(line)]
    return "failed", (told or said or ["it said nothing"])[-1][:300]
