"""What a run that ends leaves to its hosts: nothing, unless it was cut short or one of them is lost."""

from types import SimpleNamespace

import pytest

from roles import putback
from roles.remote import Output


@pytest.fixture
def ended(monkeypatch):
    """A run that ends while h1 is armed; what it asks of hosts and what it says. lost: hosts that do not answer."""
    asked, said, lost = [], [], set()
    monkeypatch.setattr(putback, "execute", lambda host, _words: Output(host not in lost, [], []))
    monkeypatch.setattr(putback, "_asked", lambda _run, host, action: asked.append((host, action)) or {})
    monkeypatch.setattr(putback, "settings", lambda _run: SimpleNamespace(confirm_s=60))
    monkeypatch.setattr(putback.logger, "warning", said.append)
    run = SimpleNamespace(hosts={"h1": "h1", "h2": "h2"}, notes={"armed": {"h1"}})
    return run, lost, asked, said


def test_hosts_do_nothing_by_themselves_when_the_run_could_see_to_everything(ended):
    run, _, asked, said = ended

    putback._disarm(run, "failed")

    assert asked == [("h1", "settle")]
    assert said == []


def test_a_host_whose_partner_is_lost_puts_back_what_the_run_had_in_hand_there(ended):
    run, lost, asked, said = ended
    lost.add("h2")  # no part of the step: but the step could not be proven without it

    putback._disarm(run, "failed")

    assert asked == []
    assert "h2 cannot be reached: after 60 s without a sign of life h1 puts back by itself" in said[0]


def test_with_nothing_in_hand_nobody_is_asked(ended):
    run, lost, asked, said = ended
    run.notes["armed"] = set()
    lost.add("h2")

    putback._disarm(run, "failed")

    assert (asked, said) == ([], [])
