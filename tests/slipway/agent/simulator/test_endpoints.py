"""What a healthy simulated engine answers on each endpoint."""

from __future__ import annotations

import http.client
import json
import socket
import time

import pytest

from .conftest import Start
from .harness import Simulator, ask, chat, chat_body


@pytest.mark.parametrize("path", ["/health", "/health_generate", "/ping"])
def test_health_is_an_empty_200(healthy: Simulator, path: str) -> None:
    reply = ask(healthy.port, path)
    assert (reply.status, reply.body, reply.headers["x-slipway-simulated"]) == (200, b"", "1")


def test_server_info_shows_flags_under_their_own_names(healthy: Simulator) -> None:
    info = ask(healthy.port, "/server_info").json
    shown = {key: info[key] for key in ("tp_size", "mem_fraction_static", "flag_of_tomorrow", "simulated", "version")}
    assert shown == {
        "tp_size": 2,
        "mem_fraction_static": 0.7,
        "flag_of_tomorrow": "x",
        "simulated": True,
        "version": "0.5.13",
    }
    assert info["internal_states"][0]["effective_max_running_requests_per_dp"] == 2048
    assert ask(healthy.port, "/get_server_info").json["port"] == healthy.port


def test_model_info_names_the_model(healthy: Simulator) -> None:
    info = ask(healthy.port, "/model_info").json
    assert info["architectures"] == ["LlamaForCausalLM"]
    assert info == ask(healthy.port, "/get_model_info").json


def test_models_lists_the_served_name(healthy: Simulator) -> None:
    (card,) = ask(healthy.port, "/v1/models").json["data"]
    assert (card["id"], card["max_model_len"], card["owned_by"]) == ("tiny", 2048, "sglang")
    assert ask(healthy.port, "/v1/models/tiny").json["id"] == "tiny"
    assert ask(healthy.port, "/v1/models/other").status == 404


def test_loads_are_zero_at_rest(healthy: Simulator) -> None:
    (load,) = ask(healthy.port, "/v1/loads?include=core,disagg,queues,memory").json["loads"]
    assert (load["num_running_reqs"], load["queues"]["waiting"], load["disaggregation"]["mode"]) == (0, 0, "null")
    assert ask(healthy.port, "/get_load").json[0]["num_reqs"] == 0


def test_metrics_count_requests_under_the_engines_names(healthy: Simulator) -> None:
    chat(healthy.port)
    page = ask(healthy.port, "/metrics").body.decode()
    assert 'sglang:generation_tokens_total{engine_type="unified",model_name="tiny"}' in page
    assert "# TYPE sglang:time_to_first_token_seconds histogram" in page
    assert 'sglang:num_running_reqs{engine_type="unified",model_name="tiny",moe_ep_rank="0"' in page


def test_flush_and_abort(healthy: Simulator) -> None:
    assert ask(healthy.port, "/flush_cache", method="POST").body.startswith(b"Cache flushed.")
    assert ask(healthy.port, "/abort_request", {"rid": "nobody"}).status == 200


def test_unknown_path_and_method(healthy: Simulator) -> None:
    assert ask(healthy.port, "/version").json == {"detail": "Not Found"}
    assert ask(healthy.port, "/v1/chat/completions").status == 405


def test_bad_bodies_are_400(healthy: Simulator) -> None:
    assert ask(healthy.port, "/v1/chat/completions", [1]).status == 400
    assert ask(healthy.port, "/v1/chat/completions", {"messages": []}).json["message"] == "Messages cannot be empty."
    assert ask(healthy.port, "/v1/chat/completions", chat_body(max_tokens="x")).status == 400
    plain = ask(healthy.port, "/v1/chat/completions", chat_body(), **{"content-type": "text/plain"})
    assert (plain.status, "Only 'application/json' is allowed" in plain.json["message"]) == (400, True)
    assert ask(healthy.port, "/generate", {}).json["error"]["message"].startswith("Either text")


def test_keep_alive_serves_many_requests_on_one_connection(healthy: Simulator) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", healthy.port, timeout=5)
    for _ in range(3):
        connection.request("GET", "/model_info")
        assert connection.getresponse().read().startswith(b"{")
    connection.close()


def test_an_http2_preface_is_refused_and_does_no_harm(healthy: Simulator) -> None:
    with socket.create_connection(("127.0.0.1", healthy.port), timeout=5) as probe:
        probe.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
        assert probe.recv(100).startswith(b"HTTP/1.1 404")
    with socket.create_connection(("127.0.0.1", healthy.port), timeout=5) as probe:
        probe.sendall(b"\x16\x03\x01nonsense\r\n\r\n")
        assert probe.recv(100).startswith(b"HTTP/1.1 400")
    assert chat(healthy.port).text == "391"
    assert '"PRI %2A HTTP/2.0" 404 Not Found' in healthy.log


def test_api_key_guards_all_but_health_and_metrics(start: Start) -> None:
    simulator = start("--api-key", "key-of-users", "--enable-metrics")
    port = simulator.port
    assert [ask(port, path).status for path in ("/health", "/metrics", "/model_info", "/ping")] == [200, 200, 401, 401]
    assert ask(port, "/server_info").json == {"error": "Unauthorized"}
    assert ask(port, "/server_info", Authorization="Bearer key-of-users").status == 200
    assert ask(port, "/server_info", Authorization="Bearer another").status == 401


def test_endpoints_follow_the_release(start: Start) -> None:
    simulator = start(SLIPWAY_SIM_RELEASE="0.5.23")
    assert [ask(simulator.port, path).status for path in ("/get_load", "/ready")] == [404, 200]


def test_abort_ends_a_running_request(start: Start) -> None:
    simulator = start(SLIPWAY_SIM_TIMING='{"decode_ms": 20}')
    body = {
        "text": "hi",
        "rid": "mine",
        "stream": True,
        "sampling_params": {"max_new_tokens": 1000, "ignore_eos": True},
    }
    connection = http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=5)
    connection.request("POST", "/generate", json.dumps(body))
    response = connection.getresponse()
    response.readline()
    started = time.monotonic()
    ask(simulator.port, "/abort_request", {"rid": "mine"})
    rest = response.read()
    connection.close()
    assert b'"abort"' in rest or b'"stop"' in rest
    assert time.monotonic() - started < 2
