"""The product's spine: a real prefill, a real decode and a real router, deployed and proven by one command."""

import json
from pathlib import Path

import pytest

from tests.e2e.site import CHECKOUT

pytestmark = pytest.mark.engine
QUESTION = "What is 17*23? Answer with the number only."
KNOWN = json.loads((CHECKOUT / "models/tiny/known_answers.json").read_text())


def test_one_command_ends_with_the_real_engine_s_right_answer(engine_site):
    assert engine_site.first.rc == 0, engine_site.first.out
    assert "answer: 391" in engine_site.first.out
    assert f"{len(KNOWN)} of {len(KNOWN)} known answers right" in engine_site.first.out
    assert "SIMULATED" not in engine_site.first.out


def test_a_client_is_answered_through_the_router(engine_site):
    status, reply = engine_site.ask(QUESTION)

    assert (status, reply["choices"][0]["message"]["content"]) == (200, "391")
    assert "simulated" not in json.dumps(reply)


def test_nothing_changes_the_second_time_and_every_process_stays(engine_site):
    before = engine_site.pids()

    again = engine_site.deploy()

    assert (again.rc, again.changes) == (0, 0), again.out
    assert engine_site.pids() == before
    assert {"prefill-0", "decode-0", "router-0"} <= set(before)


def test_a_dry_run_finds_nothing_to_change(engine_site):
    dry = engine_site.dry()

    assert (dry.rc, dry.changes) == (0, 0), dry.out


def test_a_longest_answer_survives_the_way_from_prefill_to_decode(engine_site):
    longest = max(KNOWN, key=lambda row: len(row["answer"]))

    assert engine_site.answer(longest["question"]) == longest["answer"]


def test_a_changed_flag_restarts_the_one_worker_and_its_engine_has_it(engine_site):
    before = engine_site.pids()

    done = engine_site.deploy(**{"decode__max_running_requests": 9})

    assert done.rc == 0, done.out
    after = engine_site.pids()
    assert after["decode-0"] != before["decode-0"]
    assert (after["prefill-0"], after["router-0"]) == (before["prefill-0"], before["router-0"])
    command = Path(f"/proc/{after['decode-0']}/cmdline").read_text().split("\0")
    assert command[command.index("--max-running-requests") + 1] == "9"
    assert engine_site.answer(QUESTION) == "391"
