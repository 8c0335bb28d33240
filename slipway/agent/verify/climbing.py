"""Climbs rung by rung: each has its own time limit, and the first that does not hold ends a subject's climb."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from slipway.agent.verify.reasons import NotYetError, RungError, reason_of

Rung = Callable[[dict[str, Any]], str]
DEFAULT_LIMIT_S = 120


def climb(subject: dict[str, Any], names: Sequence[str], rungs: Mapping[str, Rung]) -> Iterator[dict[str, Any]]:
    """Results rung by rung, ending with the first that does not hold.

    A rung that the subject names in `lenient` warns and is climbed past.
    """
    for name in names:
        began = time.monotonic()
        ok, detail = attempt(rungs[name], subject, subject.get("limits_s", {}).get(name, DEFAULT_LIMIT_S))
        lenient = name in subject.get("lenient", ())
        row = {"rung": name, "subject": subject["name"], "ok": ok or lenient, "detail": detail,
               "seconds": round(time.monotonic() - began, 3)}  # fmt: skip
        row.update({"warning": True} if lenient and not ok else {})
        row.update({"answers": subject["answers"]} if name == "known-answers" and ok else {})
        yield row
        if not row["ok"]:
            return


def attempt(rung: Rung, subject: dict[str, Any], limit_s: float) -> tuple[bool, str]:
    """Whether a rung holds, and what it saw. One that is not done in time is left behind: its thread ends with us."""
    done: list[tuple[bool, str]] = []
    subject["doing"] = ""
    thread = threading.Thread(target=lambda: done.append(outcome(rung, subject)), daemon=True)
    thread.start()
    thread.join(limit_s)
    if done:
        return done[0]
    doing = f", waiting for {subject['doing']}" if subject["doing"] else ""
    return False, f"not done within {limit_s:g} s{doing}"


def outcome(rung: Rung, subject: dict[str, Any]) -> tuple[bool, str]:
    """Run one rung; whatever goes wrong in it is a reason, not a traceback."""
    try:
        return True, rung(subject)
    except RungError as error:
        return False, str(error)
    except Exception as error:  # noqa: BLE001 - a server that is wrong can be wrong in any way
        doing = f" ({subject['doing']})" if subject["doing"] else ""
        return False, reason_of(error) + doing


def settled(rung: Rung) -> Rung:
    """A rung that may need a moment: the router looks at its workers by intervals, and rests open circuits."""

    def patient(subject: dict[str, Any]) -> str:
        end = time.monotonic() + subject["settle_s"]
        while True:
            try:
                return rung(subject)
            except (NotYetError, OSError):
                if time.monotonic() > end:
                    raise
            time.sleep(0.5)

    return patient
