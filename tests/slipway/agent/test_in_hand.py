"""What an engine says that it has in hand, and what a status page makes of it."""

import pytest

from slipway.agent.in_hand import idle, running
from slipway.agent.status import rates
from tests.slipway.agent.verify.scripted import serving

GAUGES = "sglang:num_running_reqs 9.0\nsglang:num_queue_reqs 0.0\nsglang:gen_throughput 5480.0\n"


@pytest.fixture
def engine():
    """The gauges as a load left them, beside what the scheduler says when it is asked."""
    answers = {"/metrics": GAUGES}

    def script(path, *_):
        text = answers.get(path.partition("?")[0])
        return 404 if text is None else 200, text or ""

    with serving(script) as url:
        yield url, answers


def test_gauges_that_a_load_left_behind_are_not_shown_as_a_load(engine):
    url, answers = engine
    answers["/get_load"] = '[{"dp_rank": 0, "num_reqs": 0, "num_waiting_reqs": 0}]'

    assert rates(url) == {"gen_throughput": 0.0, "running": 0.0, "queued": 0.0}


def test_gauges_of_a_worker_that_is_busy_or_does_not_tell_are_shown(engine):
    url, answers = engine
    assert rates(url) == {"gen_throughput": 5480.0, "running": 9.0, "queued": 0.0}

    answers["/get_load"] = '[{"dp_rank": 0, "num_reqs": 3, "num_waiting_reqs": 0}]'
    assert rates(url) == {"gen_throughput": 5480.0, "running": 9.0, "queued": 0.0}


def test_a_prompt_that_is_computed_in_chunks_is_in_no_queue_and_still_in_hand(engine):
    url, answers = engine
    answers["/get_load"] = '[{"dp_rank": 0, "num_reqs": 0, "num_waiting_reqs": 0, "num_tokens": 8192}]'
    assert (running(url), idle(url)) == (0, False)

    answers["/get_load"] = answers["/get_load"].replace("8192", "0")
    assert idle(url)

    answers["/v1/loads"] = '{"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0, "num_used_tokens": 8192}]}'
    assert not idle(url)

    answers["/v1/loads"] = answers["/v1/loads"].replace("8192", "0")
    assert idle(url)


def test_gauges_alone_never_make_a_worker_idle(engine):
    url, answers = engine
    answers["/metrics"] = GAUGES.replace("9.0", "0.0")

    assert running(url) == 0
    assert not idle(url)
