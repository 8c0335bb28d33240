"""The driver against a world of plain values: order, resuming at every point, and what is never measured."""

import itertools

import pytest

from slipway.experiment.drive import Drive, Outcome, first_state, judged
from slipway.experiment.model import Change, Experiment, Variant
from slipway.experiment.planning import Planned
from slipway.experiment.state import Standing, StateError, fingerprint, from_text, schedule, to_text

WRONG = Outcome(False, ["    verification failed: router-0, rung known-answers: 3 of 32 wrong", "      a log line"])
HELD = Outcome(False, ["    error: demo is being changed by bob@desk pid 7 (deploy since now) (lock on gpu1)", "more"])
LOST = Outcome(
    False, ["    rollout stopped: the lock is lost: on gpu1 it is now held by bob@desk pid 7 (deploy since now)"]
)
BROKEN = Outcome(False, ["    rollout stopped: the connection to gpu1 broke (timed out)"])


class KilledError(Exception):
    """The driver dies here."""


class Hosts:
    """What a cluster and its files would do. faults: variant -> outcomes of its next deploys."""

    def __init__(self, faults=None, kill_at=None):
        self.faults = {name: list(outcomes) for name, outcomes in (faults or {}).items()}
        self.done, self.runs, self.kept, self.live, self.kill_at = [], {}, None, None, kill_at
        self.steps, self.said = 0, []

    def _step(self, what):
        self.steps += 1
        if self.steps == self.kill_at:
            raise KilledError
        self.done.append(what)

    def deploy(self, planned):
        name = planned.variant.name
        self._step(f"deploy {name}")
        faults = self.faults.get(name)
        outcome = faults.pop(0) if faults else Outcome(True)
        self.live = name if outcome.ok else None
        return outcome

    def measure(self, planned, label, number):
        assert self.live == planned.variant.name, "measured something else than what is deployed"
        self._step(f"measure {planned.variant.name} {number}")
        self.runs[label] = number
        return Outcome(True)

    def rounds(self, label):
        return self.runs.get(label, 0)

    def save(self, state):
        self.kept = to_text(state)

    def say(self, text):
        self.said.append(text)


def experiment(repeats=2, order="interleaved", names=("a", "b")):
    variants = [Variant("baseline", {}, Change(), Change())]
    variants += [Variant(name, {name: name}, Change({"k": name}), Change({"k": name})) for name in names]
    return Experiment("x", "about", "", tuple(variants), repeats, order, None, "output_throughput", 1)


def planned_of(one, refused=()):
    return [
        Planned(v, "inventory.py", {}, "no such flag [flag-unknown]" if v.name in refused else "") for v in one.variants
    ]


def driven(hosts, one=None, state=None, refused=()):
    one = one or experiment()
    planned = planned_of(one, refused)
    state = state or first_state(one, planned, "print")
    return Drive(one, planned, state, hosts).run(), state


def test_rounds_are_interleaved_back_and_forth_and_the_baseline_is_put_back():
    hosts = Hosts()

    well, state = driven(hosts)

    assert well
    assert [step for step in hosts.done if step.startswith("measure")] == [
        "measure baseline 1", "measure a 1", "measure b 1", "measure b 2", "measure a 2", "measure baseline 2",
    ]  # fmt: skip
    assert hosts.done[-1] == "deploy baseline"
    assert state.restored


def test_what_is_deployed_already_is_not_deployed_again():
    hosts = Hosts()

    driven(hosts)

    assert hosts.done.count("deploy b") == 1


def test_sequential_measures_one_after_the_other():
    assert schedule(experiment(order="sequential"), ["baseline", "a"]) == [
        ("baseline", 1), ("baseline", 2), ("a", 1), ("a", 2),
    ]  # fmt: skip


def test_a_refused_variant_is_not_deployed():
    hosts = Hosts()

    _, state = driven(hosts, refused=("a",))

    assert "deploy a" not in hosts.done
    assert state.variants["a"] == Standing("refused", "no such flag [flag-unknown]")


def test_a_wrong_variant_is_never_measured_and_not_tried_again():
    hosts = Hosts({"a": [WRONG]})

    well, state = driven(hosts)

    assert well
    assert hosts.done.count("deploy a") == 1
    assert not any(step.startswith("measure a") for step in hosts.done)
    assert state.variants["a"].status == "wrong"
    assert "known-answers" in state.variants["a"].why
    assert hosts.live == "baseline"


def test_a_variant_that_turns_wrong_in_a_later_round_is_wrong():
    hosts = Hosts({"a": [Outcome(True), WRONG]})

    _, state = driven(hosts, experiment(repeats=3))

    assert state.variants["a"].status == "wrong"


def test_a_connection_that_breaks_is_tried_once_more_and_then_given_up():
    once, twice = Hosts({"a": [BROKEN]}), Hosts({"a": [BROKEN, BROKEN]})

    assert driven(once)[1].variants["a"].status == "ready"
    assert driven(twice)[1].variants["a"] == Standing("failed", "deploy: " + BROKEN.lines[0].strip())
    assert twice.live == "baseline"


@pytest.mark.parametrize("outcome", [HELD, LOST])
@pytest.mark.parametrize("at", ["baseline", "a"])
def test_a_deployment_that_somebody_else_changes_stops_it_without_a_verdict_and_the_next_run_goes_on(outcome, at):
    hosts = Hosts({at: [outcome]})

    well, state = driven(hosts)

    assert not well
    assert {standing.status for standing in state.variants.values()} == {"ready"}
    assert any(text.startswith("stopped: ") and "bob@desk pid 7 (deploy since now)" in text for text in hosts.said)
    assert hosts.done[-1] == f"deploy {at}"
    assert driven(hosts, state=state)[0]
    assert set(hosts.runs.values()) == {2}
    assert hosts.live == "baseline"


def test_without_a_baseline_nothing_is_measured():
    hosts = Hosts({"baseline": [WRONG, WRONG]})

    well, _ = driven(hosts)

    assert not well
    assert not any(step.startswith("measure") for step in hosts.done)


def test_a_baseline_that_cannot_be_put_back_is_told_by_the_result():
    hosts = Hosts({"baseline": [Outcome(True), Outcome(True), BROKEN, BROKEN]})

    well, state = driven(hosts)

    assert not well
    assert not state.restored


def test_killed_at_any_step_the_next_run_goes_on_and_measures_nothing_twice():
    whole = Hosts()
    driven(whole)
    for kill_at in range(1, whole.steps + 1):
        one, hosts = experiment(), Hosts(kill_at=kill_at)
        with pytest.raises(KilledError):
            driven(hosts, one)
        hosts.kill_at = None
        state = from_text(hosts.kept, one, "print") if hosts.kept else None

        well, state = driven(hosts, one, state)

        measured = [step for step in hosts.done if step.startswith("measure")]
        assert well, kill_at
        assert len(measured) == len(set(measured)) == 6, kill_at
        assert hosts.live == "baseline"
        assert state.restored


def test_more_repeats_go_on_from_those_that_there_are():
    hosts = Hosts()
    _, state = driven(hosts)
    hosts.done.clear()

    driven(hosts, experiment(repeats=3), state)

    measured = [step for step in hosts.done if step.startswith("measure")]
    assert sorted(measured) == ["measure a 3", "measure b 3", "measure baseline 3"]
    assert hosts.done[-1] == "deploy baseline"


def test_a_state_of_other_variants_is_refused():
    one = experiment()
    text = to_text(first_state(one, planned_of(one), fingerprint(one, {})))
    other = experiment(names=("a", "c"))

    assert from_text(text, one, fingerprint(one, {})).experiment == "x"
    with pytest.raises(StateError, match="other variants"):
        from_text(text, other, fingerprint(other, {}))
    with pytest.raises(StateError, match="cannot be read"):
        from_text(text[:40], one, fingerprint(one, {}))


def test_the_fingerprint_is_of_what_decides_results():
    prints = {
        fingerprint(one, data)
        for one, data in itertools.product((experiment(), experiment(repeats=9)), ({}, {"engine.kind": "simulator"}))
    }

    assert len(prints) == 2  # more repeats are the same experiment, other overrides are another


@pytest.mark.parametrize(
    ("lines", "status", "why"),
    [
        (WRONG.lines, "wrong", "router-0, rung known-answers: 3 of 32 wrong"),
        (["error: decode-0: no such flag [flag-x]", "    hint: x"], "refused", "decode-0: no such flag [flag-x]"),
        (
            ["    rollout stopped: gone", "    no release", "[h] Error: executed 0 commands", "--> pyinfra error: x"],
            "failed",
            "rollout stopped: gone",
        ),
        ([], "failed", "it said nothing"),
    ],
)  # fmt: skip
def test_the_reason_of_a_failed_step_is_found(lines, status, why):
    assert judged(lines) == (status, why)
