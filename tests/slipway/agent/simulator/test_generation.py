"""Answers, streams, counts and limits of a healthy simulated engine."""

from __future__ import annotations

import pytest

from .conftest import Start
from .harness import SENTENCE, SENTENCE_ANSWER, Simulator, ask, chat, chat_body


def contents(events: list[dict], index: int = 0) -> list[str]:
    """The pieces of one choice of a chat stream."""
    choices = [choice for event in events if event != "[DONE]" for choice in event["choices"]]
    return [c["delta"]["content"] for c in choices if c["index"] == index and c["delta"]["content"]]


def test_known_answer_is_exact_and_marked_as_simulated(healthy: Simulator) -> None:
    reply = chat(healthy.port)
    assert reply.text == "391"
    assert reply.json["choices"][0]["finish_reason"] == "stop"
    assert reply.json["system_fingerprint"] == "slipway-simulator"
    assert reply.json["metadata"]["simulated"] is True
    assert reply.headers["x-slipway-simulated"] == "1"


def test_a_stream_carries_one_token_a_chunk_and_agrees_with_usage(healthy: Simulator) -> None:
    events = chat(healthy.port, SENTENCE, stream=True, stream_options={"include_usage": True}).events
    assert events[-1] == "[DONE]"
    pieces = contents(events)
    assert "".join(pieces) == SENTENCE_ANSWER
    assert events[-2]["usage"]["completion_tokens"] == len(pieces)
    assert events[-3]["choices"][0]["finish_reason"] == "stop"
    assert all(event["metadata"]["simulated"] for event in events[:-1])


def test_usage_is_the_same_streamed_and_whole(healthy: Simulator) -> None:
    whole = chat(healthy.port, SENTENCE).json["usage"]
    streamed = chat(healthy.port, SENTENCE, stream=True, stream_options={"include_usage": True}).events[-2]["usage"]
    assert whole == streamed
    assert whole["total_tokens"] == whole["prompt_tokens"] + whole["completion_tokens"]


def test_same_prompt_same_text_at_temperature_0(healthy: Simulator) -> None:
    first, second = chat(healthy.port, "Tell me."), chat(healthy.port, "Tell me.")
    assert first.text == second.text
    assert first.text != chat(healthy.port, "Tell me more.").text
    assert first.text != chat(healthy.port, "Tell me.", temperature=1).text


def test_max_tokens_ends_with_length(healthy: Simulator) -> None:
    reply = chat(healthy.port, "Tell me.", max_tokens=5).json
    assert (reply["usage"]["completion_tokens"], reply["choices"][0]["finish_reason"]) == (5, "length")


def test_ignore_eos_fills_the_limit(healthy: Simulator) -> None:
    reply = chat(healthy.port, max_tokens=300, ignore_eos=True)
    assert reply.json["usage"]["completion_tokens"] == 300
    assert reply.text.startswith("391 ")


def test_stop_string_ends_the_text_before_it(healthy: Simulator) -> None:
    choice = chat(healthy.port, SENTENCE, stop=[" is"]).json["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"], choice["matched_stop"]) == (
        "The capital of France",
        "stop",
        " is",
    )


def test_n_2_gives_two_choices_whole_and_streamed(healthy: Simulator) -> None:
    assert [c["message"]["content"] for c in chat(healthy.port, n=2).json["choices"]] == ["391", "391"]
    events = chat(healthy.port, SENTENCE, n=2, stream=True).events
    assert ["".join(contents(events, index)) for index in (0, 1)] == [SENTENCE_ANSWER] * 2


def test_completions_take_text_token_ids_and_batches(healthy: Simulator) -> None:
    def choices(prompt: object) -> list[dict]:
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 3, "temperature": 0}
        return ask(healthy.port, "/v1/completions", body).json["choices"]

    assert len(choices("hello")) == len(choices([1, 2, 3])) == 1
    assert [choice["index"] for choice in choices(["a", "b"])] == [0, 1]
    assert choices("hello")[0]["finish_reason"] == "length"


def test_generate_has_its_own_shape(healthy: Simulator) -> None:
    body = {"text": "hi", "sampling_params": {"temperature": 0, "max_new_tokens": 3}}
    out = ask(healthy.port, "/generate", body).json
    assert (len(out["output_ids"]), out["meta_info"]["finish_reason"]) == (3, {"type": "length", "length": 3})
    assert out["meta_info"]["simulated"] is True
    events = ask(healthy.port, "/generate", {**body, "stream": True}).events
    assert events[-2]["text"] == out["text"]
    assert len(ask(healthy.port, "/generate", {**body, "text": ["a", "b"]}).json) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"question": "x" * 9000}, "is longer than the model's context length (2048 tokens)"),
        ({"max_tokens": 4000}, "exceeds the model's maximum context length of 2048 tokens"),
    ],
)
def test_over_limit_is_400_with_the_engines_words(healthy: Simulator, more: dict, message: str) -> None:
    for stream in (False, True):
        reply = chat(healthy.port, stream=stream, **more)
        assert reply.status == 400
        assert message in reply.json["message"]
        assert (reply.json["object"], reply.json["type"], reply.json["code"]) == ("error", "BadRequest", 400)


def test_running_requests_are_bounded(start: Start) -> None:
    """Two requests with one place: the second waits for the first."""
    import threading
    import time

    simulator = start("--max-running-requests", "1", SLIPWAY_SIM_TIMING='{"decode_ms": 20}')
    body = chat_body("slow", max_tokens=20, ignore_eos=True)
    started = time.monotonic()
    threads = [threading.Thread(target=ask, args=(simulator.port, "/v1/chat/completions", body)) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.15)
    (load,) = ask(simulator.port, "/v1/loads").json["loads"]
    assert (load["num_running_reqs"], load["num_waiting_reqs"]) == (1, 1)
    for thread in threads:
        thread.join()
    assert time.monotonic() - started > 2 * 19 * 0.02
