"""From rows to a record: the arithmetic, and what voids or explains a cell."""

import math

import pytest

from slipway.agent.load.clocks import told
from slipway.agent.load.figures import judged, percentile, record

WORKERS = [{"cpu_s": 1.0, "waited_s": 0.0, "seconds": 10.0}]


def row(index, start=0.0, end=1.0, ttft=0.1, **more) -> dict:
    base = {
        "index": index, "start": start, "end": end, "error": "", "ttft": ttft, "chunks": 10, "finish": "length",
        "characters": 40, "input_asked": 100, "output_asked": 10, "input": 100, "output": 10, "cached": None,
    }  # fmt: skip
    return {**base, **more}


def cell(rows, workers=WORKERS, slo=None, streamed=True, gaps=None) -> dict:
    gaps = {100_000: 90} if gaps is None else gaps
    counted = record({"start": 0.0, "rows": rows, "gaps": gaps, "per_second": {0: 50, 1: 50}, "workers": workers}, slo)
    return {**counted, **judged(counted, streamed)}


def test_throughput_counts_the_servers_tokens_over_the_time_from_the_first_start_to_the_last_end():
    found = cell([row(0, 0.0, 2.0), row(1, 1.0, 4.0)])

    assert (found["duration"], found["completed"]) == (4.0, 2)
    assert (found["request_throughput"], found["output_throughput"], found["input_throughput"]) == (0.5, 5.0, 50.0)
    assert found["total_throughput"] == 55.0
    assert (found["max_concurrent_requests"], found["concurrency"]) == (2, 5 / 4)
    assert (found["status"], found["reasons"]) == ("valid", [])


def test_tpot_is_a_requests_time_after_its_first_token_over_the_tokens_that_follow():
    found = cell([row(0, end=1.0, ttft=0.1), row(1, end=1.9, ttft=0.1)])

    assert math.isclose(found["mean_tpot_ms"], (100 + 200) / 2)
    assert math.isclose(found["tok_s_per_user"]["median"], 1000 / 150)
    assert math.isclose(found["mean_itl_ms"], 100)


def test_percentiles_interpolate_as_numpy_does():
    values = [(float(value), 1) for value in (1, 2, 3, 4)]

    assert percentile(values, 50) == 2.5
    assert math.isclose(percentile(values, 90), 3.7)
    assert percentile([(5.0, 99), (10.0, 1)], 50) == 5.0


def test_a_failed_request_voids_the_cell_and_says_why():
    found = cell([row(0), row(1, error="HTTP 503: busy"), row(2, error="HTTP 503: busy")])

    assert (found["status"], found["failed"], found["completed"]) == ("void", 2, 1)
    assert found["reasons"] == ["2 of 3 requests failed: HTTP 503: busy"]


def test_goodput_counts_what_kept_every_limit():
    rows = [row(0), row(1, ttft=0.5), row(2, end=3.0)]

    found = cell(rows, slo={"ttft_ms": 200, "tpot_ms": 150, "e2e_ms": None})["goodput"]

    assert (found["requests"], found["slo"]) == (1, {"ttft_ms": 200, "tpot_ms": 150})
    assert cell(rows)["goodput"] is None


VOID = {
    "answers of another length": ([row(n, output=7) for n in range(10)], "another length"),
    "empty answers": ([row(n, output=0, chunks=0, ttft=None) for n in range(3)], "every answer is empty"),
    "answers in one piece": ([row(n, chunks=1) for n in range(10)], "in one piece"),
    "prompts of another length": ([row(n, input=150) for n in range(10)], "150.0 tokens on average"),
    "nothing": ([], "no request was sent"),
}


@pytest.mark.parametrize("case", VOID)
def test_results_of_a_wrong_shape_are_void(case):
    rows, reason = VOID[case]
    found = cell(rows, gaps={})

    assert found["status"] == "void"
    assert reason in found["reasons"][0]


def test_what_was_not_measured_is_none_and_never_nought():
    found = cell([], gaps={})

    assert {found[key] for key in ("output_throughput", "median_ttft_ms", "p99_itl_ms", "mean_tpot_ms")} == {None}


NOTES = {
    "a straggler": ([*(row(n) for n in range(9)), row(9, end=9.0)], "1 straggler(s): the slowest request took 9.00 s"),
    "few lengths off": ([*(row(n) for n in range(199)), row(199, output=9)], "1 of 200 output lengths differ"),
    "no usage": ([row(n, input=None, output=None) for n in range(3)], "3 answers came without usage"),
    "a warm cache": ([row(n, cached=90) for n in range(3)], "90.0% of the prompt tokens came from the prefix cache"),
}


@pytest.mark.parametrize("case", NOTES)
def test_what_must_not_go_unseen_is_noted(case):
    rows, text = NOTES[case]
    found = cell(rows)

    assert found["status"] == "valid"
    assert any(text in note for note in found["notes"]), found["notes"]


def test_a_straggler_is_not_averaged_away():
    found = cell([*(row(n) for n in range(9)), row(9, end=9.0)])["stragglers"]

    assert found == {"count": 1, "slowest_s": 9.0, "median_s": 1.0, "alone_s": 8.0}


@pytest.mark.parametrize(("used", "bound"), [(0.5, False), (9.5, True)])
def test_a_client_that_used_a_whole_core_is_marked(used, bound):
    found = cell([row(0)], workers=[{"cpu_s": used, "waited_s": 0.0, "seconds": 10.0}])

    assert found["client"]["bound"] is bound
    assert any("client-bound" in note for note in found["notes"]) is bound


def test_a_jump_of_the_wall_clock_is_noted_and_a_sleep_voids():
    assert told(steady=10.0, wall=10.1, boot=10.0) == {"notes": [], "reasons": []}
    assert "-3600.0 s" in told(steady=10.0, wall=-3590.0, boot=10.0)["notes"][0]
    assert "slept for 300.0 s" in told(steady=10.0, wall=310.0, boot=310.0)["reasons"][0]
    assert told(steady=10.0, wall=310.0, boot=310.0)["notes"] == []
