"""Rungs of many requests at once: nothing is lost, and each gets its own right answer."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from slipway.agent.verify.matching import matches
from slipway.agent.verify.questions import GREETING, Answer, ask, sane
from slipway.agent.verify.reasons import RungError, reason_of
from slipway.agent.verify.texts import suspicion

Asked = tuple[dict[str, Any], int]  # a row of known answers, or just a question; and its max_tokens
Result = tuple["Answer | None", str]  # the answer, or why there is none
STACK = 256 * 1024  # bytes: a thread here needs little, and there are hundreds


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

    before = threading.stack_size(STACK)
    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(asked)))]
    for worker in workers:
        worker.start()
    threading.stack_size(before)
    for worker in workers:
        worker.join()
    return results


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
    judged(subject, asked, all_at_once(subject, asked, size), f"burst of {size}")
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
    judged(subject, asked, all_at_once(subject, asked, size), f"{size} requests of mixed lengths")
    return f"{size} requests of mixed lengths at once, none lost or wrong"
