"""Prefill and decode: the answer really travels, and wrong wiring really fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Pair, Start
from .harness import SENTENCE, SENTENCE_ANSWER, Reply, Simulator, ask, chat_body, free_port, make_model

StartPair = Callable[..., Pair]
ROUTE = "/route?prefill_dp_rank={0}&prefill_cp_rank={0}&target_tp_rank={0}&target_pp_rank={0}"


def meet(port: int, room: Any = 7, question: str = SENTENCE, host: str = "127.0.0.1", **more: Any) -> dict[str, Any]:
    """A chat body as a router sends it."""
    return {**chat_body(question, **more), "bootstrap_host": host, "bootstrap_port": port, "bootstrap_room": room}


def both(pair: Pair, body: dict[str, Any], path: str = "/v1/chat/completions") -> tuple[Reply, Reply]:
    """Send a request to both workers, as a router does: (prefill's reply, decode's reply)."""
    prefill, decode, _ = pair
    replies: list[Reply] = []
    thread = threading.Thread(target=lambda: replies.append(ask(prefill.port, path, body)))
    thread.start()
    answer = ask(decode.port, path, body, timeout=8)
    thread.join()
    return replies[0], answer


@pytest.fixture(scope="module")
def pair(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from .conftest import starter
    from .harness import free_port

    running: list[Simulator] = []
    start = starter(model, tmp_path_factory.mktemp("pair"), running)
    port = free_port()
    flags = ("--disaggregation-bootstrap-port", str(port), "--enable-metrics")
    for mode in ("prefill", "decode"):
        start("--disaggregation-mode", mode, *flags, ready=False)
    yield running[0].wait_ready(), running[1].wait_ready(), port
    for simulator in running:
        simulator.stop()


def test_decode_answers_and_prefill_replies_with_one_token(pair: Pair) -> None:
    prefilled, answer = both(pair, meet(pair[2]))
    assert answer.text == SENTENCE_ANSWER
    assert (prefilled.text, prefilled.json["usage"]["completion_tokens"]) == ("The ", 1)


def test_streaming_n_2_and_batches_meet_in_rooms_of_their_own(pair: Pair) -> None:
    _, answer = both(pair, meet(pair[2], stream=True))
    assert answer.events[-1] == "[DONE]"
    assert len(both(pair, meet(pair[2], room=[11, 12], n=2))[1].json["choices"]) == 2
    assert len(both(pair, meet(pair[2], room=[13], n=2))[1].json["choices"]) == 2
    batch = {**meet(pair[2], room=[21, 22]), "prompt": ["a", "b"], "bootstrap_host": ["127.0.0.1"] * 2}
    batch["bootstrap_port"] = [pair[2]] * 2
    assert len(both(pair, batch, "/v1/completions")[1].json["choices"]) == 2


def test_a_request_without_a_room_is_400(pair: Pair) -> None:
    for worker in pair[:2]:
        reply = ask(worker.port, "/v1/chat/completions", chat_body())
        assert (reply.status, "without bootstrap room id" in reply.json["message"]) == (400, True)


def test_route_tells_sizes_and_where_the_state_is(pair: Pair) -> None:
    info = ask(pair[2], ROUTE.format(-1)).json
    assert (info["attn_tp_size"], info["page_size"], info["kv_cache_dtype"]) == (1, 1, "auto")
    assert ask(pair[2], "/route?engine_rank=-1&target_dp_group=-1&target_pp_rank=-1").json == info
    assert ask(pair[2], ROUTE.format(0)).json["rank_ip"] == "127.0.0.1"
    assert [ask(pair[2], path).status for path in ("/route", ROUTE.format(5), "/health", "/x")] == [400, 404, 200, 404]


def test_dp_ranks_can_be_registered_and_queried(pair: Pair) -> None:
    ask(pair[2], "/register_dp_rank", {"bootstrap_room": 5, "dp_rank": 3})
    assert ask(pair[2], "/query_dp_ranks", {"bootstrap_rooms": [5, 6]}).json == {"5": 3}


def test_pd_metrics_are_there(pair: Pair) -> None:
    both(pair, meet(pair[2], room=99))
    prefill, decode = (ask(worker.port, "/metrics").body.decode() for worker in pair[:2])
    assert 'sglang:kv_transfer_latency_ms_count{engine_type="prefill"' in prefill
    assert "sglang:num_prefill_inflight_queue_reqs" in prefill
    assert 'sglang:kv_transfer_bootstrap_ms_count{engine_type="decode"' in decode
    assert "sglang:num_decode_transfer_queue_reqs" in decode


def test_pd_warm_up_is_in_the_log(pair: Pair) -> None:
    for worker in pair[:2]:
        assert "Start of pd disaggregation warmup ..." in worker.log
        assert "End of disaggregation warmup" in worker.log
    assert "CommonKVBootstrapServer started successfully on 127.0.0.1" in pair[0].log


def test_a_wrong_bootstrap_address_fails_after_the_timeout(start: Start) -> None:
    decode = start("--disaggregation-mode", "decode", SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="0.6")
    reply = ask(decode.port, "/v1/chat/completions", meet(1))
    assert (reply.status, "KVTransferError(bootstrap_room=7)" in reply.json["message"]) == (500, True)
    assert "Error fetching prefill server info from bootstrap" in decode.log


def test_prefill_gives_up_when_no_decode_comes(start_pair: StartPair) -> None:
    prefill, _, port = start_pair(SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="0.5")
    reply = ask(prefill.port, "/v1/chat/completions", meet(port))
    assert (reply.status, "KVPoll.Bootstrapping" in reply.json["message"]) == (500, True)


def test_decode_gives_up_when_the_client_has_gone(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        ask(pair[1].port, "/v1/chat/completions", meet(pair[2], room=404), timeout=0.3)
    deadline = time.monotonic() + 5
    while ask(pair[1].port, "/v1/loads").json["loads"][0]["num_running_reqs"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ask(pair[1].port, "/v1/loads").json["loads"][0]["num_running_reqs"] == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--page-size", "64"), "Page size mismatch: prefill server has page_size=1"),
        (("--kv-cache-dtype", "fp8_e4m3"), "KV cache dtype mismatch: prefill server has kv_cache_dtype=auto"),
    ],
)
def test_mismatched_settings_fail_at_the_first_request(
    start_pair: StartPair, flags: tuple[str, ...], message: str
) -> None:
    prefill, decode, port = start_pair("", "", *flags)
    reply = ask(decode.port, "/v1/chat/completions", meet(port))
    assert (reply.status, message in reply.json["message"]) == (500, True)
    assert f"RuntimeError: {message}" in decode.log
    assert (prefill.health(), decode.health()) == (200, 200)


def test_another_model_on_decode_fails(start: Start, start_pair: StartPair, tmp_path: Path) -> None:
    prefill, _, port = start_pair()
    other = start("--disaggregation-mode", "decode", at=make_model(tmp_path / "other", []))
    reply = ask(other.port, "/v1/chat/completions", meet(port))
    assert (reply.status, "Model mismatch" in reply.json["message"]) == (500, True)
    assert prefill.health() == 200


def test_a_prefill_that_restarts_is_found_again(start: Start, start_pair: StartPair) -> None:
    first, decode, port = start_pair()
    assert both((first, decode, port), meet(port))[1].text == SENTENCE_ANSWER
    first.stop()
    flags = ("--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(port))
    second = start(*flags)
    assert both((second, decode, port), meet(port, room=8))[1].text == SENTENCE_ANSWER
    assert "Error fetching prefill server info" not in decode.log  # that is for one whose bootstrap server is away


# ---- faults of a pair


@pytest.mark.parametrize(
    ("prefill", "decode", "status", "words"),
    [
        ("reports-page-size=64", "", 500, "Page size mismatch"),
        ("reports-kv-dtype=fp8_e5m2", "", 500, "KV cache dtype mismatch"),
        ("", "transfer-errors", 500, "KVTransferError"),
    ],
)
def test_pair_faults_that_are_errors(start_pair: StartPair, prefill: str, decode: str, status: int, words: str) -> None:
    _, worker, port = start_pair(prefill, decode)
    reply = ask(worker.port, "/v1/chat/completions", meet(port))
    assert (reply.status, words in reply.json["message"], words in worker.log) == (status, True, True)


def test_transfer_fails_is_200_with_the_error_in_the_log(start_pair: StartPair) -> None:
    pair = start_pair("", "transfer-fails")
    _, answer = both(pair, meet(pair[2]))
    assert (answer.status, answer.text) == (200, "")
    assert "KVTransferError" in pair[1].log


def test_damage_in_prefill_travels_to_decode(start_pair: StartPair) -> None:
    pair = start_pair("garbage")
    assert both(pair, meet(pair[2]))[1].text != SENTENCE_ANSWER


def test_a_slow_transfer_of_a_damaged_state(start_pair: StartPair) -> None:
    pair = start_pair("", "transfer-slow=0.5,transfer-corrupts")
    started = time.monotonic()
    answer = both(pair, meet(pair[2]))[1]
    assert time.monotonic() - started > 0.5
    assert (answer.status, answer.text.isascii()) == (200, False)


def test_a_decode_that_keeps_a_stale_prefill_fails(start: Start, start_pair: StartPair) -> None:
    first, decode, port = start_pair("", "stale-prefill", SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="1")
    assert both((first, decode, port), meet(port))[1].text == SENTENCE_ANSWER
    first.stop()
    second = start(
        "--disaggregation-mode",
        "prefill",
        "--disaggregation-bootstrap-port",
        str(port),
        SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="1",
    )
    assert both((second, decode, port), meet(port, room=8))[1].status == 500


def test_transfer_hangs_in_silence(start_pair: StartPair) -> None:
    _, decode, port = start_pair("", "transfer-hangs")
    with pytest.raises(TimeoutError):
        ask(decode.port, "/v1/chat/completions", meet(port), timeout=0.5)
    assert decode.health() == 200


def test_bootstrap_never_registers_is_503_for_ever(start_pair: StartPair) -> None:
    prefill, _, port = start_pair("bootstrap-never-registers")
    reply = ask(port, ROUTE.format(-1))
    assert (reply.status, reply.body) == (503, b"Prefill server not fully registered yet (0 workers registered).")
    assert prefill.health() == 200


@pytest.mark.parametrize(
    ("fault", "ip"), [("advertises-loopback", "127.0.0.1"), ("advertises-unroutable", "192.0.2.1")]
)
def test_prefill_can_advertise_a_useless_address(start: Start, fault: str, ip: str) -> None:
    from .harness import free_port

    port = free_port()
    flags = ("--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(port))
    start(*flags, faults=fault, SGLANG_HOST_IP="127.0.0.2")
    assert ask(port, ROUTE.format(0)).json["rank_ip"] == ip


def test_halves_that_come_in_another_order_do_not_wait_for_one_another(start: Start) -> None:
    """One place each: prefill begins with room 1, decode with room 2."""
    port = free_port()
    flags = ("--disaggregation-bootstrap-port", str(port), "--max-running-requests", "1")
    prefill, decode = (start("--disaggregation-mode", mode, *flags, ready=False) for mode in ("prefill", "decode"))
    for worker in (prefill, decode):
        worker.wait_ready()
    replies: dict[tuple[int, int], Reply] = {}

    def send(worker: Simulator, room: int) -> threading.Thread:
        def run() -> None:
            replies[worker.port, room] = ask(worker.port, "/v1/chat/completions", meet(port, room), timeout=8)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.3)  # it has its place before the next one asks
        return thread

    threads = [send(prefill, 1), send(decode, 2), send(prefill, 2), send(decode, 1)]
    for thread in threads:
        thread.join()

    assert [replies[decode.port, room].text for room in (1, 2)] == [SENTENCE_ANSWER] * 2
