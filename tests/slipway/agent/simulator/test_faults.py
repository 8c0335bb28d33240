"""Each fault shows to a client what its row in the table promises."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from slipway.agent.simulator.faults import FAULTS, FaultError, parse_faults

from .conftest import Start
from .harness import QUESTION, SENTENCE, SENTENCE_ANSWER, Reply, Simulator, ask, chat, chat_body
from .test_generation import contents

LONG = "x" * 400


def test_the_table_has_unique_names_and_sources() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
    assert all(fault.does and fault.source for fault in FAULTS)


def test_unknown_faults_and_values_are_refused() -> None:
    for text in ("no-such-fault", "garbage=3", "hang-after=x"):
        with pytest.raises(FaultError):
            parse_faults(text)


@pytest.mark.parametrize("name", ["dies-at-start", "dies-loading", "oom-kv", "jit-failure"])
def test_deaths_at_start_are_exit_1_and_say_why(start: Start, name: str) -> None:
    words = {"dies-at-start": "sgl_kernel", "dies-loading": "OutOfMemoryError", "oom-kv": "Not enough memory"}
    simulator = start(faults=name, ready=False)
    assert simulator.process.wait(timeout=5) == 1
    assert words.get(name, "nvcc: not found") in simulator.log


@pytest.mark.parametrize(
    ("name", "last"), [("never-listens", "KV Cache is allocated"), ("nccl-hang", "torch distributed begin.")]
)
def test_a_start_that_hangs_keeps_the_port_closed(start: Start, name: str, last: str) -> None:
    simulator = start(faults=name, ready=False)
    simulator.wait_log(last)
    assert (simulator.health(), simulator.process.poll()) == (0, None)


@pytest.mark.parametrize("name", ["stuck-503", "warmup-fails"])
def test_health_stays_503(start: Start, name: str) -> None:
    simulator = start(faults=name, ready=False)
    simulator.wait_log("warmup error" if name == "warmup-fails" else "fired up")
    assert (simulator.health(), simulator.process.poll()) == (503, None)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("wrong-answer", "402"),
        ("nan", "!!!!" * 8),
        ("repetition", " the" * 8),
        ("empty-output", ""),
        ("replacement-chars", "\ufffd391"),
    ],
)
def test_wrong_texts(start: Start, fault: str, text: str) -> None:
    assert chat(start(faults=fault).port, max_tokens=8).text == text


def test_garbage_only_where_it_is_asked_for(start: Start) -> None:
    for fault in ("long-prompt-garbage=64", "second-page-garbage"):
        port = start(faults=fault).port
        assert chat(port).text == "391"
        assert not chat(port, LONG).text.isascii()
    assert not chat(start(faults="garbage").port).text.isascii()


def test_non_utf8_bytes_reach_the_client(start: Start) -> None:
    body = chat(start(faults="non-utf8").port).body
    with pytest.raises(UnicodeDecodeError):
        body.decode()


def test_nondeterministic_and_crossed_answers(start: Start) -> None:
    port = start(faults="nondeterministic").port
    assert chat(port).text != chat(port).text
    port = start(faults="crossed-answers").port
    chat(port, SENTENCE)
    assert chat(port, QUESTION).text == SENTENCE_ANSWER


def test_busy_garbage_only_under_load(start: Start) -> None:
    simulator = start(faults="busy-garbage=3", SLIPWAY_SIM_TIMING=SLOW)
    assert any(reply.text != "391" for reply in burst(simulator, 8))
    assert chat(simulator.port).text == "391"


def test_false_reports(start: Start) -> None:
    names = "usage-wrong,finish-reason-wrong,wrong-model-name,server-info-differs,metrics-missing,loads-500"
    port = start("--tp", "2", "--enable-metrics", faults=names + ",accepts-over-limit,ignores-stop").port
    reply = chat(port, stop=["9"]).json
    assert (reply["usage"]["completion_tokens"], reply["model"]) == (11, "not-the-model")
    assert (reply["choices"][0]["finish_reason"], reply["choices"][0]["message"]["content"]) == ("length", "391")
    assert ask(port, "/v1/models").json["data"][0]["id"] == "not-the-model"
    assert ask(port, "/server_info").json["tp_size"] == 4
    assert [ask(port, path).status for path in ("/metrics", "/v1/loads")] == [404, 500]
    assert chat(port, "x" * 9000, max_tokens=2).status == 200


def test_stream_without_done(start: Start) -> None:
    events = chat(start(faults="no-done").port, SENTENCE, stream=True).events
    assert ("".join(contents(events)), events[-1] == "[DONE]") == (SENTENCE_ANSWER, False)


def test_truncated_stream_is_cut_before_its_end(start: Start) -> None:
    with pytest.raises(http.client.IncompleteRead) as cut:
        chat(start(faults="truncated-stream").port, SENTENCE, stream=True)
    assert b"The " in cut.value.partial
    assert b'finish_reason":"stop' not in cut.value.partial


def test_stream_with_an_error_event(start: Start) -> None:
    events = chat(start(faults="stream-error").port, stream=True).events
    assert [event["error"]["code"] for event in events if "error" in event] == [500]


def test_streaming_one_chunk(start: Start) -> None:
    events = chat(start(faults="streaming-one-chunk").port, SENTENCE, stream=True).events
    assert contents(events) == [SENTENCE_ANSWER]


def test_a_slow_start_opens_its_port_late(start: Start) -> None:
    started = time.monotonic()
    start(faults="slow-start=0.6")
    assert time.monotonic() - started > 0.6


def test_slowness(start: Start) -> None:
    port = start(faults="slow-first-token=0.4,slow-tokens=100").port
    started = time.monotonic()
    chat(port, max_tokens=4, ignore_eos=True)
    assert time.monotonic() - started >= 0.4 + 3 * 0.1


def hangs(port: int, **more: object) -> bool:
    """Whether a chat gets no answer in a time in which a healthy engine answers a hundred times."""
    try:
        chat(port, timeout=0.5, **more)
    except TimeoutError:
        return True
    return False


def test_stalls_mid_stream(start: Start) -> None:
    simulator = start(faults="stalls-mid-stream=3")
    assert hangs(simulator.port, question=SENTENCE, stream=True)
    assert simulator.health() == 200


def test_hangs_while_health_is_200(start: Start) -> None:
    simulator = start(faults="health-ok-generation-hangs")
    assert hangs(simulator.port)
    assert [ask(simulator.port, path).status for path in ("/health", "/health_generate")] == [200, 200]


def test_hang_n2_and_hang_after(start: Start) -> None:
    port = start(faults="hang-n2").port
    assert (hangs(port, n=1), hangs(port, n=2)) == (False, True)
    port = start(faults="hang-after=2").port
    assert [hangs(port), hangs(port), hangs(port)] == [False, False, True]


def test_health_hangs(start: Start) -> None:
    simulator = start(faults="health-hangs", ready=False)
    simulator.wait_log("fired up")
    with pytest.raises(TimeoutError):
        ask(simulator.port, "/health", timeout=0.4)
    assert chat(simulator.port).text == "391"


def burst(simulator: Simulator, size: int) -> list[Reply]:
    """Replies to so many requests at once; a lost one is missing.

    All wait at its socket before it goes on, so they are at once however busy the machine is.
    """
    connections = [http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=30) for _ in range(size)]
    os.kill(simulator.process.pid, signal.SIGSTOP)
    try:
        for connection in connections:
            connection.request("POST", "/v1/chat/completions", json.dumps(chat_body()), JSON)
    finally:
        os.kill(simulator.process.pid, signal.SIGCONT)
    replies: list[Reply] = []
    for connection in connections:
        with suppress(OSError, http.client.HTTPException), connection.getresponse() as response:
            replies.append(Reply(response.status, {}, response.read()))
        connection.close()
    return replies


JSON = {"content-type": "application/json"}
SLOW = '{"prefill_ms_per_token": 40}'  # by the token, so that health checks stay quick


def test_every_nth_is_dropped(start: Start) -> None:
    port = start(faults="drops-every-nth=3").port
    statuses = []
    for _ in range(6):
        try:
            statuses.append(chat(port).status)
        except http.client.RemoteDisconnected:
            statuses.append(0)
    assert statuses == [200, 200, 0, 200, 200, 0]


@pytest.mark.parametrize(("fault", "status"), [("burst-loses=4", 0), ("500-on-burst=4", 500), ("queue-full=4", 503)])
def test_bursts_lose(start: Start, fault: str, status: int) -> None:
    simulator = start(faults=fault, SLIPWAY_SIM_TIMING=SLOW)
    replies = burst(simulator, 10)
    good = [reply for reply in replies if reply.status == 200]
    assert len(good) == 4
    assert {reply.status for reply in replies} == ({200, status} if status else {200})
    assert chat(simulator.port).text == "391"


@pytest.mark.parametrize("fault", ["crash-on-burst=4", "dies-at-first-request", "watchdog-kills=0.2"])
def test_the_process_dies_under_requests(start: Start, fault: str) -> None:
    simulator = start(faults=fault, SLIPWAY_SIM_TIMING='{"prefill_ms_per_token": 200}')
    burst(simulator, 6)
    assert simulator.process.wait(timeout=5) == -signal.SIGKILL
    assert "CUDA error" in simulator.log or "Watchdog timeout" in simulator.log


def test_known_bad_lines_in_the_log_of_a_good_server(start: Start) -> None:
    names = ("nccl-timeout-log", "watchdog-log", "jit-failure-log", "oom-log", "transfer-log")
    simulator = start(faults=",".join(names))
    assert [chat(simulator.port).text for _ in range(5)] == ["391"] * 5
    for text in (
        "collective operation timeout",
        "Watchdog timeout",
        "Ninja",
        "KV cache pool is full",
        "KVTransferError",
    ):
        assert text in simulator.log


def test_ignores_sigterm(start: Start) -> None:
    simulator = start(faults="ignores-sigterm")
    simulator.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        simulator.process.wait(timeout=0.5)
    assert simulator.health() == 200


def test_cuts_at_sigterm(start: Start) -> None:
    simulator = start(faults="cuts-at-sigterm", SLIPWAY_SIM_TIMING='{"decode_ms": 50}')
    threading.Timer(0.3, simulator.process.terminate).start()
    with pytest.raises((http.client.HTTPException, OSError)):
        chat(simulator.port, max_tokens=100, ignore_eos=True, stream=True)


def test_an_orphan_outlives_the_engine(start: Start) -> None:
    simulator: Simulator = start(faults="orphan-scheduler=1.5")
    children = Path(f"/proc/{simulator.process.pid}/task/{simulator.process.pid}/children").read_text().split()
    simulator.process.terminate()
    simulator.process.wait(timeout=5)
    assert children
    assert all(Path(f"/proc/{child}").exists() for child in children)
