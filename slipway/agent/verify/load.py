"""Rungs of many requests at once: nothing is lost, and each gets its own right answer."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from slipway.agent.verify.matching import matches
from slipway.agent.verify.questions import GREETING, Answer, ask, sane
from slipway.agent.verify.reasons import RungError, reason_of
from slipway.agent.verify.texts import suspicion

Asked = tuple[dict[str, Any], int]  # a row of known answers, or just a question; and its max_tokens
Result = tuple["Answer | None", str]  # the answer, or why there is none
STACK = 256 * 1024  # bytes: a thread here needs little, and there are hundreds


class Together:
    """Lets requests go at one moment, from one thread, once each has its connection or has failed to get one.

    Threads that each connect and send as they get their turn ask one after the other where the host is busy, and a
    quick server has answered the first before the last is asked: then nothing is proven about so many at once.
    """

    def __init__(self, size: int) -> None:
        self._missing = size
        self._changed = threading.Condition()
        self._gone = threading.Event()
        self._sends: list[Callable[[], None]] = []
        self._errors: dict[Callable[[], None], Exception] = {}

    def sent(self, connection: http.client.HTTPConnection, send: Callable[[], None]) -> None:
        """Connect, and wait until all have gone. Raises what `send` raised."""
        connection.connect()
        with self._changed:
            self._sends.append(send)
            self._changed.notify()
        self._gone.wait()
        if send in self._errors:
            raise self._errors[send]

    def left(self) -> None:
        """One request has come to its end, with a connection or without."""
        with self._changed:
            self._missing -= 1
            self._changed.notify()

    def release(self) -> None:
        """Send all, when all are there."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._sends) >= self._missing)
        for send in self._sends:
            try:
                send()
            except Exception as error:  # noqa: BLE001 - it is the request's own, and is told with it
                self._errors[send] = error
        self._gone.set()


def all_together(subject: dict[str, Any], asked: Sequence[Asked]) -> list[Result]:
    """The results of all questions, in their order, asked at one moment."""
    results: list[Result] = [(None, "not asked")] * len(asked)
    together = Together(len(asked))

    def work(number: int) -> None:
        results[number] = result({**subject, "together": together}, *asked[number])
        together.left()

    threads = started_threads([partial(work, number) for number in range(len(asked))])
    together.release()
    for thread in threads:
        thread.join()
    return results


def all_at_once(subject: dict[str, Any], asked: Sequence[Asked], at_once: int) -> list[Result]:
    """The results of all questions, in their order, so many at a time."""
    results: list[Result] = [(None, "not asked")] * len(asked)
    numbers = iter(range(len(asked)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            results[number] = result(dict(subject), *asked[number])

    for worker in started_threads([work] * min(at_once, len(asked))):
        worker.join()
    return results


def started_threads(targets: Sequence[Callable[[], None]]) -> list[threading.Thread]:
    """A thread for each."""
    before = threading.stack_size(STACK)
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    threading.stack_size(before)
    return threads


def result(subject: dict[str, Any], row: dict[str, Any], max_tokens: int) -> Result:
    """One answer, or a reason."""
    try:
        return ask(subject, row, max_tokens), ""
    except RungError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - whatever one of hundreds meets must not end the others
        return None, reason_of(error)


def judged(subject: dict[str, Any], asked: Sequence[Asked], results: Sequence[Result], what: str) -> None:
    """Every answer came, is right where that is known, and is no garbage. Raises RungError with the counts."""
    lost = Counter(error for answer, error in results if answer is None)
    if lost:
        kind, count = lost.most_common(1)[0]
        raise RungError(f"{what}: {sum(lost.values())} of {len(asked)} requests got no answer; {count} times: {kind}")
    wrong = [said for (row, limit), (answer, _) in zip(asked, results) if answer  # noqa: B905 - 3.10's
             for said in [broken(subject, row, limit, answer)] if said]  # fmt: skip
    if wrong:
        raise RungError(f"{what}: {len(wrong)} of {len(asked)} answers are wrong under load: {wrong[0]}")


def broken(subject: dict[str, Any], row: dict[str, Any], limit: int, answer: Answer) -> str:
    """What is wrong with an answer under load; '' when nothing is."""
    text = answer.text
    if "expect" in row:
        right = matches(text, row, bool(subject.get("plain")))
        return "" if right else f"{row['question']!r} -> {text[:80]!r}; must be {row['expect'][:80]!r}"
    if limit > 1 and not answer.said.strip():
        return f"an empty answer to {row['question'][:60]!r}"
    return suspicion(answer.said)


def easy(subject: dict[str, Any]) -> list[dict[str, Any]]:
    """Known answers that are short, so that hundreds of them are cheap; a greeting when none is known."""
    known = sorted(subject["known_answers"], key=lambda row: len(row["expect"]))
    return known[: max(1, len(known) // 2)] or [{"question": GREETING}]


def burst(subject: dict[str, Any]) -> str:
    """So many requests at the same moment, as after a restart of everything: none is lost, none is wrong."""
    size, rows = subject["burst"], easy(subject)
    if not size:
        return "no burst asked for (verify.burst is 0)"
    sane(ask(subject, rows[0]), subject["max_tokens"])
    asked = [(rows[index % len(rows)], rows[index % len(rows)].get("max_tokens") or subject["max_tokens"])
             for index in range(size)]  # fmt: skip
    began = time.monotonic()
    judged(subject, asked, all_together(subject, asked), f"burst of {size}")
    spent = time.monotonic() - began
    return f"{size} requests at once, none lost or wrong, in {spent:.1f} s ({size / spent:.0f}/s)"


def mixed(subject: dict[str, Any]) -> str:
    """Short and long prompts with short and long answers at the same time: batches of unequal lengths."""
    size = subject["mixed"]
    if not size:
        return "no mixed load asked for (verify.mixed is 0)"
    source, rows = random.Random(size), easy(subject)  # noqa: S311 - the same prompts each time
    longest = max(16, subject["long_tokens"] // 4)
    asked: list[Asked] = []
    for index in range(size):
        if index % 2 == 0:
            asked.append((rows[index % len(rows)], subject["max_tokens"]))
        else:
            words = " ".join(str(source.randrange(10)) for _ in range(source.randrange(8, longest)))
            asked.append(({"question": f"{words}\nHow many numbers are these?"}, source.choice((1, 8, 32))))
    judged(subject, asked, all_together(subject, asked), f"{size} requests of mixed lengths")
    return f"{size} requests of mixed lengths at once, none lost or wrong"
