"""What is not a broken server but not the usual one either: handled, or explained so that a user can act."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .cluster import KNOWN, SIZES, agent
from .conftest import NewCluster
from .scripted import Answer, completion, plain, self_signed, serving

URL = "http://127.0.0.1:9"  # nobody listens on the discard port


def climb(url: str, *rungs: str, **more: Any) -> list[dict[str, Any]]:
    subject = {"name": "router-0", "url": url, "timeout_s": 5, "settle_s": 0, "model": "tiny", "workers": [],
               "expected_workers": {}, "known_answers": KNOWN[:1], "rungs": list(rungs), **SIZES, **more}  # fmt: skip
    return agent({"subjects": [subject]})


def last(url: str, *rungs: str, **more: Any) -> tuple[bool, str]:
    row = climb(url, *rungs, **more)[-1]
    return row["ok"], row["detail"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that signs itself, with its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def right(_path: str, _body: dict[str, Any], _headers: dict[str, str]) -> Answer:
    return completion("391")


def test_a_certificate_that_signs_itself(certificate: Path) -> None:
    with serving(right, certificate) as url:
        ok, detail = last(url, "completion")
        assert not ok
        assert "its certificate is not trusted here" in detail
        assert "verify.ca_file" in detail
        assert last(url, "completion", ca=certificate.with_suffix(".crt").read_text())[0]


def test_plain_http_to_a_server_that_speaks_tls_and_the_other_way_round(certificate: Path) -> None:
    with serving(right, certificate) as url:
        ok, detail = last(url.replace("https", "http"), "completion")
        assert not ok
        assert "closed without an answer" in detail or "speaks TLS" in detail
    with serving(right) as url:
        ok, detail = last(url.replace("http", "https"), "completion")
        assert (ok, "does it speak plain HTTP on this port?" in detail) == (False, True)


def test_an_api_key(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.worker("unified", "", "--api-key", "s3cret")
    subject = cluster.wait().alone_subject(rungs=["completion", "shape"])
    (row,) = agent({"subjects": [subject]})
    assert "answers 401: it asks for an API key; verify.api_key says where" in row["detail"]
    (row,) = agent({"subjects": [{**subject, "key": "wrong"}]})
    assert "does not take the API key of verify.api_key" in row["detail"]
    assert "wrong" not in row["detail"]
    assert [row["ok"] for row in agent({"subjects": [{**subject, "key": "s3cret"}]})] == [True, True]


def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, URL)
    assert "NO_PROXY" not in os.environ
    with serving(right) as url:
        assert last(url, "completion", "known-answers") == (True, "1 of 1 known answers right")


def test_no_way_from_the_controller_is_told_and_is_no_failure() -> None:
    ok, detail = last(URL, "reached")
    assert ok
    assert detail.startswith("no way leads from the controller to 127.0.0.1:9")


@pytest.mark.parametrize(
    "answer",
    [
        completion("391", reasoning_content="17*23 is 17*20 plus 17*3..."),
        completion("<think>17*20 is 340, 17*3 is 51</think>\n\n391"),
        completion("17*20 is 340, 17*3 is 51</think>391"),  # its template opens the thought
    ],
)
def test_a_model_that_thinks_before_it_answers(answer: Answer) -> None:
    with serving(lambda *_: answer) as url:
        assert last(url, "completion", "known-answers") == (True, "1 of 1 known answers right")


@pytest.mark.parametrize(
    "answer",
    [
        completion(None, "length", 32, reasoning_content="Let me see. 17*20 is"),
        completion("<think>Let me see. 17*20 is", "length", 32),
    ],
)
def test_a_model_that_is_cut_off_while_it_thinks(answer: Answer) -> None:
    with serving(lambda *_: answer) as url:
        ok, detail = last(url, "completion")
        assert (ok, detail) == (False, "the model still thinks after 32 tokens: raise verify.max_tokens")
        assert "(it still thinks: raise verify.max_tokens)" in last(url, "known-answers")[1]


def test_a_model_that_thinks_is_not_blamed_where_we_cut_it_off_ourselves(tmp_path: Path) -> None:
    answer = completion(None, "length", 32, reasoning_content="Let me see. There are numbers, then")
    reference = {"path": str(tmp_path / "thought.json"), "label": "thought", "save": True, "tolerance": 0.1}
    with serving(lambda *_: answer) as url:
        rows = climb(url, "repeats", "reference", reference=reference, max_tokens=64)
    assert [row["ok"] for row in rows] == [True, True], rows
    broken = completion(None, "length", 32, reasoning_content="!!!!!!!!!!!!")
    with serving(lambda *_: broken) as url:
        assert "nothing but '!'" in last(url, "reference", reference=reference)[1]


def test_a_model_without_a_chat_template() -> None:
    def base(path: str, body: dict[str, Any], _headers: dict[str, str]) -> Answer:
        if path == "/v1/chat/completions":
            return 400, {"message": "Cannot use chat template functions because tokenizer.chat_template is not set"}
        assert body["prompt"] == "17*23 ="
        return plain(" 391. And 17*24 = 408.")

    row = {"question": "What is 17*23?", "prompt": "17*23 =", "expect": "391", "match": "number"}
    with serving(base) as url:
        rows = climb(url, "completion", "known-answers", known_answers=[row])
    assert [row["ok"] for row in rows] == [True, True]
    assert rows[0]["detail"].startswith("a plain completion, as the model has no chat template, in")


def test_routers_of_the_older_package() -> None:
    """sglang_router before 0.2 lists URLs alone; its mini load balancer lists nothing."""

    def older(path: str, _body: dict[str, Any], _headers: dict[str, str]) -> Answer:
        known = {"/health": (200, "OK"), "/list_workers": (200, {"urls": ["http://h1:1/", "http://h2:2"]})}
        return known.get(path, (404, "Not Found"))

    def mini(path: str, _body: dict[str, Any], _headers: dict[str, str]) -> Answer:
        return (200, "OK") if path == "/health" else (404, "Not Found")

    expected = {"prefill": ["http://h1:1"], "decode": ["http://h2:2"]}
    with serving(older) as url:
        rows = climb(url, "readiness", "workers", expected_workers=expected)
        assert [row["detail"] for row in rows] == [
            "/health 200; this router has no /readiness, so only its workers and requests tell",
            "1 decode, 1 prefill",
        ]
        assert "is not known to it" in last(url, "workers", expected_workers={"decode": ["http://h3:3"]})[1]
    with serving(mini) as url:
        ok, detail = last(url, "readiness", "workers", expected_workers=expected)
        assert (ok, detail) == (True, "this router does not list its workers: only requests through it tell")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, "not JSON"), "the answer is no JSON: 'not JSON'"),
        ((200, {"choices": []}), "an answer of another shape than expected (KeyError: 'usage')"),
        (completion("391", "done"), "finish_reason is 'done'; must be one of"),
        (completion("391", tokens=99), "usage counts 99 completion tokens; max_tokens was 32"),
        ((500, "oops"), "a completion answers 500: oops"),
        (completion("the " * 40), "says the same thing again and again"),
        (completion("\ufffd\ufffd"), "U+FFFD"),
    ],
)
def test_answers_of_another_shape(answer: Answer, words: str) -> None:
    with serving(lambda *_: answer) as url:
        ok, detail = last(url, "completion")
    assert (ok, words in detail) == (False, True), detail
