"""How the ladder is climbed: limits, leniency, and where it ends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from slipway.agent.verify.climbing import climb
from slipway.agent.verify.reasons import RungError
from slipway.agent.verify.texts import suspicion

from .cluster import KNOWN, Cluster, agent
from .conftest import NewCluster
from .scripted import Script, completion, serving


def holds(_subject: dict[str, Any]) -> str:
    return "fine"


def fails(_subject: dict[str, Any]) -> str:
    raise RungError("for a reason")


def hangs(subject: dict[str, Any]) -> str:
    subject["doing"] = "GET http://x/y"
    time.sleep(60)
    return "late"


RUNGS = {"a": holds, "b": fails, "c": holds, "d": hangs, "e": lambda subject: subject["absent"]}


def climbed(*names: str, **more: Any) -> list[tuple[str, bool, str]]:
    rows = list(climb({"name": "x", **more}, names, RUNGS))
    return [(row["rung"], row["ok"], row["detail"]) for row in rows]


def test_the_first_rung_that_fails_ends_the_climb() -> None:
    assert climbed("a", "b", "c") == [("a", True, "fine"), ("b", False, "for a reason")]


def test_a_lenient_rung_warns_and_is_climbed_past() -> None:
    rows = list(climb({"name": "x", "lenient": ["b"]}, ["b", "c"], RUNGS))
    assert [(row["ok"], row.get("warning", False)) for row in rows] == [(True, True), (True, False)]


def test_a_rung_that_hangs_is_given_up_at_its_limit() -> None:
    (row,) = climbed("d", "a", limits_s={"d": 0.2})
    assert row == ("d", False, "not done within 0.2 s, waiting for GET http://x/y")


def test_whatever_goes_wrong_is_a_reason() -> None:
    ((_, ok, detail),) = climbed("e")
    assert (ok, detail) == (False, "an answer of another shape than expected (KeyError: 'absent')")


def test_other_instances_go_on(pair: Cluster) -> None:
    subjects = [pair.worker_subject(one) for one in pair.wait().workers]
    subjects[0]["ports"] = {"http": 9}
    rows = agent({"subjects": subjects})
    assert [(row["subject"], row["ok"]) for row in rows if row["rung"] == "ports"] == [
        ("prefill-0", False), ("decode-0", True),
    ]  # fmt: skip
    assert rows[-1]["rung"] == "metrics"


def test_broken_texts_and_sound_ones() -> None:
    broken = ["!!!!!!!!", "\ufffdthe", "the " * 30, "ab" * 30, "yes no " * 20, "иногда 模型 δεν then"]
    sound = ["391", "", "No!", "The capital of France is Paris.", "1 2 3 4 5 6 7 8 9 10", "ha ha ha", "東京 is Tokyo",
             "Yes!!!", "naïve Ωmega", "a" * 8]  # fmt: skip
    assert [text for text in broken if not suspicion(text)] == []
    assert [text for text in sound if suspicion(text)] == []


def test_a_reference_run_proves_that_disaggregated_equals_aggregated(new_cluster: NewCluster, tmp_path: Path) -> None:
    reference = {"path": str(tmp_path / "references/agg.json"), "label": "agg", "save": False, "tolerance": 0.1}
    alone, wrong = new_cluster(), new_cluster()
    alone.worker("unified")
    wrong.worker("unified", "wrong-answer")
    subject = alone.wait().alone_subject(rungs=["reference"], reference=reference)
    assert "no reference agg" in agent({"subjects": [subject]})[0]["detail"]
    (row,) = agent({"subjects": [{**subject, "reference": {**reference, "save": True}}]})
    assert row["detail"] == "6 answers saved as reference agg"
    (row,) = agent({"subjects": [subject]})
    assert (row["ok"], row["detail"]) == (True, "6 answers equal the reference's")
    (row,) = agent({"subjects": [wrong.wait().alone_subject(rungs=["reference"], reference=reference)]})
    assert not row["ok"]
    assert "-> '402'; the reference has '391'" in row["detail"]


def test_logprobs_are_compared_within_a_tolerance(tmp_path: Path) -> None:
    reference = {"path": str(tmp_path / "agg.json"), "label": "agg", "save": True, "tolerance": 0.1}
    subject = {"name": "r", "timeout_s": 5, "model": "tiny", "known_answers": KNOWN[:1], "rungs": ["reference"]}

    def script(logprob: float) -> Script:
        answer = completion("391")
        answer[1]["choices"][0]["logprobs"] = {"content": [{"token": "391", "logprob": logprob}]}
        return lambda path, body, headers: answer if body["logprobs"] else (400, "logprobs must be asked for")

    for logprob, save, ok, words in (
        (-0.5, True, True, "5 answers saved"),
        (-0.55, False, True, "5 answers equal the reference's, logprobs of 5 tokens within 0.0500"),
        (-0.65, False, False, "a logprob differs by 0.150; allowed is 0.1"),
    ):
        with serving(script(logprob)) as url:
            (row,) = agent({"subjects": [{**subject, "url": url, "reference": {**reference, "save": save}}]})
        assert (row["ok"], words in row["detail"]) == (ok, True), row


def test_an_accuracy_gate(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.worker("unified")
    rows = [{**row, "match": "exact"} for row in KNOWN] + [
        {"question": "What is 2*2?", "expect": "5", "match": "number"}
    ]
    gate = {"rows": rows, "threshold": 0.6, "max_tokens": 32, "at_once": 2}
    subject = cluster.wait().alone_subject(rungs=["accuracy"], accuracy=gate)
    assert agent({"subjects": [subject]})[0]["detail"] == "2 of 3 right (66.7%); must be 60.0%"
    (row,) = agent({"subjects": [{**subject, "accuracy": {**gate, "threshold": 0.7}}]})
    assert (row["ok"], row["detail"]) == (False, "2 of 3 right (66.7%); must be 70.0%")
