"""What Ctrl-C does: once, it stops cleanly; in the middle of a coordinated step, when that step has come to an end.

pyinfra 3.10 by itself hangs on the first and ends with 0 on the second (pyinfra_cli/main.py; tried).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
import gevent

from roles.remote import RemoteError
from roles.run import Run

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
PATIENCE_S = 20  # for hosts to take back what they lent
_in_hand: list[str] = []


def watch(run: Run, give_back: Callable[[Run], None]) -> None:
    """From now on a signal that asks for an end gets a clean one. give_back: what must not be left on the hosts."""

    def asked(number: int, _frame: Any) -> None:
        # In the main greenlet we are at pyinfra's prompt, where no other greenlet runs.
        if gevent.getcurrent() is gevent.get_hub().parent and not _in_hand:
            run.notes["interrupted"] = SIGNALS[signal.Signals(number)]
            click.echo(f"{run.notes['interrupted']}: stopped; the next run goes on from here", err=True)
            raise SystemExit(128 + number)
        gevent.spawn(_asked, run, give_back, number)

    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup: a closed terminal is to be survived
            signal.signal(number, asked)


@contextlib.contextmanager
def in_hand(what: str) -> Iterator[None]:
    """A step that must not be left half way; it calls check_interrupted() where it can be."""
    _in_hand.append(what)
    try:
        yield
    finally:
        _in_hand.remove(what)


def check_interrupted(run: Run) -> None:
    """Raises RemoteError when an end was asked for; once, as what is then put back must come to its end."""
    if "interrupted" in run.notes and not run.notes.get("heeded"):
        run.notes["heeded"] = True
        raise RemoteError(f"stopped by {run.notes['interrupted']}")


def _asked(run: Run, give_back: Callable[[Run], None], number: int) -> None:
    name, again = SIGNALS[signal.Signals(number)], "interrupted" in run.notes
    run.notes["interrupted"] = name
    if _in_hand and not again:
        click.echo(f"{name}: the {_in_hand[-1]} stops after what it has in hand; once more stops it at once", err=True)
        return
    click.echo(f"{name}: stopped; the next run goes on from here", err=True)
    with gevent.Timeout(PATIENCE_S, False):
        give_back(run)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(128 + number)
