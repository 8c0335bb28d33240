"""An answer as it arrives, in any pieces; and every way in which it can be no answer."""

import json

import pytest

from slipway.agent.load.answer import Answer, BrokenAnswerError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(text="", finish=None, usage=None, **more) -> bytes:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}] if usage is None else []
    return b"data: " + json.dumps({"choices": choices, "usage": usage, **more}).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


WHOLE = [event("a"), event("b"), event("", "length"), event(usage={"prompt_tokens": 7, "completion_tokens": 2})]
STREAM = HEAD + b"".join(chunk(part) for part in [*WHOLE, b"data: [DONE]\n\n"]) + b"0\r\n\r\n"


@pytest.mark.parametrize("piece", [1, 7, 100, len(STREAM)])
def test_a_stream_is_read_in_whatever_pieces_it_comes(piece):
    answer = Answer(streamed=True)
    for at in range(0, len(STREAM), piece):
        answer.feed(STREAM[at : at + piece], now=at)

    assert answer.done
    assert (len(answer.times), answer.finish, answer.characters) == (2, "length", 2)
    assert answer.usage == {"prompt_tokens": 7, "completion_tokens": 2}


def test_a_token_has_the_time_at_which_its_bytes_came():
    answer = Answer(streamed=True)
    answer.feed(HEAD + chunk(event("a")), now=1.0)
    answer.feed(chunk(event("b") + event("c")), now=2.5)

    assert answer.times == [1.0, 2.5, 2.5]


def test_comments_other_line_ends_and_thoughts_are_understood():
    answer = Answer(streamed=True)
    thought = json.dumps({"choices": [{"delta": {"content": None, "reasoning_content": "hm"}}]}).encode()
    answer.feed(
        HEAD + chunk(b": ping\r\n\r\ndata:" + thought + b"\r\n\r\ndata: [DONE]\r\n\r\n") + b"0\r\n\r\n", now=3.0
    )

    assert (answer.times, answer.done) == ([3.0], True)


def test_an_answer_that_is_not_streamed_ends_with_its_length():
    body = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "usage": {}}).encode()
    answer = Answer(streamed=False)
    answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body, now=1.0)

    assert (answer.done, answer.characters, answer.finish) == (True, 5, "stop")


ERROR = b'{"error": {"message": "no healthy worker"}}'
BROKEN = {
    "a stream without its end": (HEAD + chunk(event("a")) + b"0\r\n\r\n", "the stream ended without [DONE]"),
    "an error in a stream": (HEAD + chunk(event("a") + event(error={"message": "CUDA error"})), "CUDA error"),
    "an error status": (b"HTTP/1.1 503 x\r\nContent-Length: %d\r\n\r\n" % len(ERROR) + ERROR, "HTTP 503: no healthy"),
    "an abort": (HEAD + chunk(event("a", "abort") + b"data: [DONE]\n\n") + b"0\r\n\r\n", "aborted"),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n\r\n", "does not speak HTTP"),
    "no JSON": (HEAD + chunk(b"data: {oops\n\n"), "no JSON"),
    "no chunk size": (HEAD + b"zz\r\n", "no size"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_answer_is_a_failure_with_a_reason(case):
    data, reason = BROKEN[case]
    with pytest.raises(BrokenAnswerError, match=reason.replace("[", r"\[")):
        Answer(streamed=True).feed(data, now=0.0)


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + chunk(event("a"))])
def test_a_connection_that_closes_early_is_a_failure(sent):
    answer = Answer(streamed=True)
    if sent:
        answer.feed(sent, now=0.0)

    with pytest.raises(BrokenAnswerError, match="closed"):
        answer.closed(now=1.0)
