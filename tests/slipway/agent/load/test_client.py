"""The client against engines whose behaviour is known: counts and shapes are exact, times within generous bounds."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from tests.slipway.agent.load.conftest import load, load_command
from tests.slipway.agent.simulator.harness import ROOT


def test_every_request_is_sent_answered_and_counted_as_the_server_counts(engine):
    rc, cell = load(engine().port, "--streams", "6", "--prompts", "30", "--processes", "2")

    assert (rc, cell["status"], cell["reasons"]) == (0, "valid", [])
    assert (cell["completed"], cell["failed"], cell["max_concurrent_requests"]) == (30, 0, 6)
    assert (cell["total_input_tokens"], cell["total_output_tokens"]) == (30 * 64, 30 * 16)
    assert (cell["output_length_mismatches"], cell["input_length_mismatches"]) == (0, 0)
    assert cell["client"]["processes"] == 2


def test_times_are_those_of_the_timing_model(engine):
    """TTFT 46 ms, TPOT 10 ms by the model; a machine that is busy only adds to them."""
    _, cell = load(engine().port, "--streams", "2", "--prompts", "8")

    assert 46 <= cell["median_ttft_ms"] < 150
    assert 9 < cell["median_tpot_ms"] < 20
    assert 9 < cell["mean_itl_ms"] < 20
    assert cell["median_e2e_latency_ms"] > cell["median_ttft_ms"] + 140


def test_the_completions_endpoint_and_answers_that_are_not_streamed(engine):
    port = engine().port

    _, completions = load(port, "--streams", "2", "--prompts", "4", "--api", "completions")
    _, whole = load(port, "--streams", "2", "--prompts", "4", "--no-stream")

    assert (completions["status"], completions["total_output_tokens"]) == ("valid", 64)
    assert (whole["status"], whole["total_output_tokens"]) == ("valid", 64)


FAULTS = {
    "truncated-stream": "the connection was closed in the middle of the answer",
    "no-done": "the stream ended without [DONE]",
    "stream-error": "an error in the stream",
    "500-on-burst=2": "HTTP 500: Internal server error: CUDA error",
    "burst-loses=2": "the connection was closed without an answer",
    "queue-full=2": "HTTP 503: The request queue is full.",
    "stalls-mid-stream=5": "nothing was heard for 1 s",
    "crash-on-burst=2": "connection",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_voids_the_cell_with_its_reason(engine, fault):
    rc, cell = load(engine(fault).port, "--streams", "4", "--prompts", "8", "--silence", "1")

    assert (rc, cell["status"]) == (3, "void")
    assert cell["failed"] == sum(cell["failures"].values()) > 0
    assert any(FAULTS[fault] in reason for reason in cell["reasons"]), cell["reasons"]


WRONG = {
    "empty-output": "every answer is empty",
    "streaming-one-chunk": "came in one piece",
    "usage-wrong": "another length than the 16 tokens asked for",
}


@pytest.mark.parametrize("fault", WRONG)
def test_answers_of_a_wrong_shape_void_the_cell(engine, fault):
    _, cell = load(engine(fault).port, "--streams", "2", "--prompts", "4")

    assert (cell["status"], cell["failed"]) == ("void", 0)
    assert WRONG[fault] in cell["reasons"][0]


def test_an_engine_that_is_restarted_in_the_middle_voids_the_cell(engine):
    first = engine(decode_ms=100)
    command = load_command(first.port, "--streams", "4", "--prompts", "4000")
    client = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    while "POST /v1/chat" not in first.log:
        time.sleep(0.05)
    time.sleep(1)
    first.stop()
    cell = json.loads(client.communicate(timeout=30)[0])

    assert cell["status"] == "void"
    assert any("the connection" in reason for reason in cell["reasons"])
    assert any("cannot connect: Connection refused" in reason for reason in cell["reasons"])
    assert cell["failed"] < 400  # a void cell is not driven to its end


def test_a_duration_keeps_the_streams_full_and_tells_every_loss(engine, tmp_path):
    rows = tmp_path / "rows.jsonl"
    more = ("--streams", "8", "--duration", "2", "--rows", str(rows))

    rc, cell = load(engine("drops-every-nth=10").port, *more)

    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert (rc, len(lines)) == (3, cell["completed"] + cell["failed"])
    assert cell["failures"] == {"the connection was closed without an answer": cell["failed"]}
    assert cell["failed"] == sum(bool(line["error"]) for line in lines) >= len(lines) // 11
    assert cell["max_concurrent_requests"] == 8


def test_a_load_goes_on_until_a_file_is_there_and_every_request_is_answered(engine, tmp_path):
    end = tmp_path / "end"
    command = load_command(engine(decode_ms=20).port, "--streams", "2", "--duration", "600", "--until", str(end))
    client = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in client.stderr:  # what the profiler's load is waited for by
        if " requests, " in line:
            break
    assert client.poll() is None
    end.touch()
    cell = json.loads(client.communicate(timeout=60)[0])

    assert (client.returncode, cell["failed"]) == (0, 0)
    assert cell["completed"] > 0


def test_an_endpoint_that_is_not_there_is_said_in_a_line(engine):
    rc, cell = load(1, "--prompts", "1")

    assert rc == 2
    assert "does not answer" in cell["said"]
    assert "Traceback" not in cell["said"]
