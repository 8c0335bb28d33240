"""The real smg router in front of a simulated prefill and decode. SLIPWAY_TEST_SMG is the path of `smg`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slipway.agent import in_hand, router
from slipway.agent.state import router_workers

from .conftest import Pair, Start
from .harness import SENTENCE, SENTENCE_ANSWER, ask, chat, free_port
from .test_generation import contents

SMG = os.environ.get("SLIPWAY_TEST_SMG", "")
pytestmark = pytest.mark.skipif(not SMG, reason="SLIPWAY_TEST_SMG does not name an smg 1.13.0 executable")
QUICK = ["--worker-startup-check-interval", "1", "--health-check-interval-secs", "1", "--health-failure-threshold", "2"]

KEY = "k3y-of-all"

Cluster = tuple[int, Pair]


@pytest.fixture
def cluster(start_pair: Callable[..., Pair], tmp_path: Path) -> Iterator[Cluster]:
    """A pair and its router: (router's port, pair)."""
    yield from routed(start_pair(), tmp_path)


@pytest.fixture
def keyed(start: Start, tmp_path: Path) -> Iterator[Cluster]:
    """As a cluster, of which all ask for an API key."""
    bootstrap = free_port()
    where = ("--disaggregation-bootstrap-port", str(bootstrap), "--api-key", KEY)
    prefill = start("--disaggregation-mode", "prefill", *where)
    decode = start("--disaggregation-mode", "decode", *where)
    yield from routed((prefill, decode, bootstrap), tmp_path, "--api-key", KEY)


def routed(pair: Pair, tmp_path: Path, *flags: str) -> Iterator[Cluster]:
    """The real router in front of a pair."""
    prefill, decode, bootstrap = pair
    port, metrics = free_port(), free_port()
    workers = ["--prefill", f"http://127.0.0.1:{prefill.port}", str(bootstrap)]
    workers += ["--decode", f"http://127.0.0.1:{decode.port}", "--policy", "round_robin"]
    listen = ["--host", "127.0.0.1", "--port", str(port)]
    listen += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics)]
    with (tmp_path / "smg.log").open("wb") as sink:
        command = [SMG, "launch", "--pd-disaggregation", *workers, *listen, *QUICK, *flags]
        router = subprocess.Popen(command, stdout=sink, stderr=sink)
    until(lambda: ready(port, "--tls-cert-path" in flags))
    yield port, pair
    router.kill()
    router.wait()


def ready(port: int, tls: bool) -> bool:
    if not tls:
        return ask(port, "/readiness").status == 200
    workers = router_workers(f"https://127.0.0.1:{port}") or {}
    return [row["healthy"] for row in workers.values()] == [True, True]


def until(condition: Callable[[], bool], timeout: float = 10) -> None:
    """Poll; connection errors count as no."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("the condition did not come true")


def answers(port: int) -> bool:
    reply = chat(port)
    return reply.status == 200 and reply.text == "391"


def test_the_router_registers_both_and_answers(cluster: Cluster) -> None:
    port, (prefill, decode, _) = cluster
    assert ask(port, "/readiness").json["healthy_workers"] == 2
    assert {worker["worker_type"] for worker in ask(port, "/workers").json["workers"]} == {"prefill", "decode"}
    reply = chat(port)
    assert (reply.text, reply.json["metadata"]["simulated"]) == ("391", True)
    assert "".join(contents(chat(port, SENTENCE, stream=True).events)) == SENTENCE_ANSWER
    assert [c["message"]["content"] for c in chat(port, n=2).json["choices"]] == ["391", "391"]
    assert chat(port, "x" * 9000).status == 400
    assert all("/v1/chat/completions" in worker.log for worker in (prefill, decode))


def test_a_killed_decode_is_an_error_at_once_and_its_successor_serves(cluster: Cluster, start: Start) -> None:
    port, (_, decode, _) = cluster
    decode.stop()
    started = time.monotonic()
    assert chat(port).status in (502, 503)
    assert time.monotonic() - started < 4
    start("--disaggregation-mode", "decode", "--port", str(decode.port), ready=False)
    until(lambda: decode.health() == 200)  # asking sooner opens the router's circuit breaker for a minute
    until(lambda: answers(port))


def told(port: int, **what: object) -> dict[str, dict[str, object]]:
    answer = router.told({"url": f"http://127.0.0.1:{port}", "timeout_s": 15, **what})
    assert answer["error"] == "", answer
    return answer["workers"]


def test_a_worker_leaves_and_comes_back_and_what_it_has_in_hand_is_answered(cluster: Cluster, start: Start) -> None:
    port, (_, decode, _) = cluster
    url = f"http://127.0.0.1:{decode.port}"
    slow = start("--disaggregation-mode", "decode", SLIPWAY_SIM_TIMING='{"decode_ms": 200}')
    other = {"url": f"http://127.0.0.1:{slow.port}", "worker_type": "decode"}
    assert told(port, add=[other])[other["url"]]["healthy"]
    assert set(told(port, remove=[url])) & {url, other["url"]} == {other["url"]}
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(chat, port, SENTENCE, 30, stream=True) for _ in range(4)]
        until(lambda: in_hand.running(other["url"]) == 4)

        told(port, add=[{"url": url, "worker_type": "decode"}], remove=[other["url"]])

        assert [contents(one.result().events)[-1:] for one in asked] == [contents(asked[0].result().events)[-1:]] * 4
    assert in_hand.running(other["url"]) == 0
    assert answers(port)
    assert url in told(port)


def test_a_worker_that_asks_for_a_key_comes_back(keyed: Cluster) -> None:
    port, (_, decode, _) = keyed
    url = f"http://127.0.0.1:{decode.port}"
    assert "401" in router.told({"url": f"http://127.0.0.1:{port}", "timeout_s": 1})["error"]
    assert url not in told(port, remove=[url], key=KEY)

    assert told(port, add=[{"url": url, "worker_type": "decode"}], key=KEY)[url]["healthy"]

    assert router_workers(f"http://127.0.0.1:{port}") is None
    assert router_workers(f"http://127.0.0.1:{port}", KEY)[url]["healthy"]


def test_a_removal_that_still_sleeps_does_not_take_the_returned_worker(cluster: Cluster) -> None:
    port, (_, decode, _) = cluster
    url = f"http://127.0.0.1:{decode.port}"

    def row() -> dict[str, str]:
        return next(one for one in ask(port, "/workers").json["workers"] if one["url"] == url)

    number = row()["id"]
    ask(port, f"/workers/{number}", {"health": {"drain_settle_secs": 2}}, method="PATCH")
    time.sleep(0.2)
    ask(port, f"/workers/{number}", method="DELETE")
    until(lambda: row().get("status") == "draining")  # the router does it in a job of its own

    told(port, add=[{"url": url, "worker_type": "decode"}])

    time.sleep(3)
    assert told(port)[url]["healthy"]


@pytest.fixture
def encrypted(start_pair: Callable[..., Pair], tmp_path: Path) -> Iterator[tuple[Cluster, str]]:
    """As a cluster, whose router has a certificate that signs itself; and that certificate."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=slipway-test"]
    key, own = tmp_path / "tls.key", tmp_path / "tls.crt"
    subprocess.run([*words, "-keyout", key, "-out", own], check=True, capture_output=True)
    for found in routed(start_pair(), tmp_path, "--tls-cert-path", str(own), "--tls-key-path", str(key)):
        yield found, own.read_text()


def test_a_router_with_a_certificate_of_its_own_is_told_its_workers(encrypted: tuple[Cluster, str]) -> None:
    (port, (_, decode, _)), own = encrypted
    url, worker = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{decode.port}"

    for trusted in (own, None):
        answer = router.told({"url": url, "timeout_s": 15, "ca": trusted})
        assert (answer["error"], worker in answer["workers"]) == ("", True)
    assert router_workers(url)[worker]["healthy"]


def test_a_router_that_does_not_answer_is_an_error_in_one_sentence() -> None:
    answer = router.told({"url": f"http://127.0.0.1:{free_port()}", "remove": ["http://127.0.0.1:1"], "timeout_s": 1})

    assert "does not answer GET /workers: ConnectionRefusedError" in answer["error"]
