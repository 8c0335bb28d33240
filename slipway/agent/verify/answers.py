"""Rungs of single requests: one completion, known answers, streaming, samples, limits that are kept, repeats."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from slipway.agent.verify.client import get, opened, wanted
from slipway.agent.verify.matching import matches, spoken, still_thinking
from slipway.agent.verify.questions import CHAT, GREETING, ask, body_of, path_of, sane
from slipway.agent.verify.reasons import RungError
from slipway.agent.verify.texts import suspicion

NO_TEMPLATE = "chat template"


def opening(subject: dict[str, Any]) -> dict[str, Any]:
    """The first question: one whose answer is known, where there is one."""
    known: list[dict[str, Any]] = subject["known_answers"]
    return known[0] if known else {"question": GREETING}


def longest(subject: dict[str, Any]) -> dict[str, Any]:
    """The question with the longest known answer, for what shows only in several tokens."""
    known: list[dict[str, Any]] = subject["known_answers"]
    exact = [row for row in known if row.get("match", "exact") == "exact"]
    return max(exact or known or [{"question": GREETING, "expect": ""}], key=lambda row: len(row["expect"]))


def completes(subject: dict[str, Any]) -> str:
    """One completion within the limit: a server can be healthy and never answer.

    A model without a chat template is asked for plain completions from here on.
    """
    began, row, limit = time.monotonic(), opening(subject), subject["max_tokens"]
    try:
        answer = ask(subject, row)
    except RungError as error:
        if NO_TEMPLATE not in str(error).lower() or subject.get("plain"):
            raise
        subject["plain"] = True
        answer = ask(subject, row)
    sane(answer, limit)
    how = "a plain completion, as the model has no chat template," if subject.get("plain") else "a completion"
    thought = f", after {len(answer.reasoning)} characters of reasoning" if answer.reasoning else ""
    return f"{how} in {time.monotonic() - began:.2f} s{thought}"


def known_answers(subject: dict[str, Any]) -> str:
    """Every known answer at temperature 0; the first wrong one is shown beside the right one."""
    wrong, answers = [], {}
    known: list[dict[str, Any]] = subject["known_answers"]
    for row in known:
        answer = ask(subject, row)
        answers[row["question"]] = spoken(answer.text)
        if not matches(answer.text, row, bool(subject.get("plain"))):
            wrong.append(wrong_answer(row, answer.text, answer.reasoning, answer.finish))
    subject["answers"] = answers
    need = subject.get("known_share", 1.0)
    if len(known) - len(wrong) < need * len(known):
        raise RungError(f"{len(wrong)} of {len(known)} known answers are wrong: {wrong[0]}")
    if not known:
        return "no known answers for this checkpoint"
    return f"{len(known) - len(wrong)} of {len(known)} known answers right" + (f"; {wrong[0]}" if wrong else "")


def wrong_answer(row: dict[str, Any], text: str, reasoning: str, finish: str) -> str:
    """A wrong answer beside the right one, and what it looks like."""
    said = f"{row['question']!r} -> {spoken(text)[:120]!r}; must be {row['expect'][:120]!r}"
    if still_thinking(text, reasoning, finish):
        return f"{said} (it still thinks: raise verify.max_tokens)"
    looks = suspicion(text) or ("it is empty" if not text.strip() else "")
    return f"{said} ({looks})" if looks else said


def shaped(subject: dict[str, Any]) -> str:
    """Model name, token count and finish reason are what they should be; a stop string stops."""
    served = [row["id"] for row in wanted(subject, get(subject, "/v1/models"), "/v1/models").json()["data"]]
    if subject["model"] not in served:
        raise RungError(f"/v1/models names {', '.join(served) or 'nothing'}; must name {subject['model']}")
    row = longest(subject)
    whole, one = ask(subject, row), ask(subject, row, 1)
    if whole.model != subject["model"]:
        raise RungError(f"a completion is by model {whole.model!r}; must be {subject['model']!r}")
    if one.completion_tokens != 1:
        raise RungError(f"max_tokens 1 gives {one.completion_tokens} completion tokens by its usage")
    tokens, limit = whole.completion_tokens, row.get("max_tokens") or subject["max_tokens"]
    for answer, count, most in ((whole, tokens, limit), (one, 1, 1)):
        if count < most and answer.finish == "length":
            raise RungError(f"finish_reason is length after {count} of {most} tokens; must be stop")
    if tokens > 2 and one.finish != "length":
        raise RungError(f"finish_reason of a cut answer is {one.finish}; must be length")
    if tokens > 2 * len((whole.text + whole.reasoning).encode()) + 4:
        raise RungError(f"usage counts {tokens} completion tokens for {len(whole.text)} characters")
    return f"model, usage and finish reasons agree{stops(subject, row, whole.text, whole.reasoning)}"


def stops(subject: dict[str, Any], row: dict[str, Any], text: str, reasoning: str) -> str:
    """A stop string within a known answer ends it there."""
    stop = text.strip()[1:2]
    if reasoning or "<think>" in text or not stop.strip() or not row["expect"]:
        return ""
    cut = ask(subject, row, stop=[stop]).text
    if stop in cut or not text.startswith(cut):
        raise RungError(f"stop {stop!r} does not stop: {cut[:80]!r} of {text[:80]!r}")
    return "; a stop string stops"


def streams(subject: dict[str, Any]) -> str:
    """A streamed answer arrives in pieces, ends with [DONE], and says what the unstreamed one says."""
    row = longest(subject)
    whole, began, first = ask(subject, row), time.monotonic(), 0.0
    pieces: list[str] = []
    for piece in stream(subject, row):
        first = first or time.monotonic() - began
        pieces.append(piece)
    spent = time.monotonic() - began
    if "".join(pieces).strip() != (whole.text or whole.reasoning).strip():
        raise RungError(f"streamed {''.join(pieces)[:80]!r}, unstreamed {whole.text[:80]!r}")
    if len(pieces) == 1 and whole.completion_tokens >= 8:
        raise RungError(f"{whole.completion_tokens} tokens came in one piece: something holds the stream back")
    paced(subject, first, (spent - first) / max(1, whole.completion_tokens - 1))
    return f"streamed in {len(pieces)} pieces, the first after {first:.2f} s"


def paced(subject: dict[str, Any], first_s: float, token_s: float) -> None:
    """The limits on speed that the configuration sets; none by default."""
    if subject.get("first_token_s") and first_s > subject["first_token_s"]:
        raise RungError(
            f"the first token came after {first_s:.2f} s; verify.first_token_s is {subject['first_token_s']}"
        )
    if subject.get("token_ms") and token_s * 1000 > subject["token_ms"]:
        raise RungError(f"a token takes {token_s * 1000:.0f} ms; verify.token_ms is {subject['token_ms']}")


def stream(subject: dict[str, Any], row: dict[str, Any]) -> Iterator[str]:
    """The pieces of a streamed answer. Raises RungError when it does not end as it should."""
    body = body_of(subject, row, row.get("max_tokens") or subject["max_tokens"], stream=True)
    count = 0
    with opened(subject, "POST", path_of(subject), body) as response:
        if response.status != 200:
            raise RungError(f"a streamed completion answers {response.status}: {response.read()[:200]!r}")
        for line in response:
            text = line.decode("utf-8").strip()
            if text == "data: [DONE]":
                return
            for piece in pieces_of(json.loads(text[6:])) if text.startswith("data: ") else ():
                count += 1
                yield piece
    raise RungError(f"the stream ended without [DONE] after {count} pieces")


def pieces_of(event: dict[str, Any]) -> Iterator[str]:
    """The texts that an event of a stream brings."""
    if event.get("error"):
        raise RungError(f"the stream carries an error: {str(event['error'])[:160]}")
    for choice in event.get("choices", []):
        delta = choice.get("delta") or {}
        yield from (text for text in (delta.get("content"), choice.get("text")) if text)


def samples(subject: dict[str, Any]) -> str:
    """n=2: prefill and decode must agree on two rooms for one request (it hangs where they do not)."""
    row = opening(subject)
    answer = sane(ask(subject, row, n=2), subject["max_tokens"])
    if len(answer.samples) != 2:
        raise RungError(f"n=2 gives {len(answer.samples)} choices")
    bad = [text for text in answer.samples if "expect" in row and not matches(text, row, bool(subject.get("plain")))]
    if bad:
        raise RungError(f"n=2 answers {bad[0][:80]!r}; must be {row['expect'][:80]!r}")
    return "2 choices for n=2" + (", both right" if "expect" in row else "")


def repeats_itself(subject: dict[str, Any]) -> str:
    """The same question at temperature 0 has the same answer each time."""
    rows = [opening(subject), {"question": "Name the first five prime numbers."}]
    for row in rows:
        texts = [ask(subject, row, 32).said for _ in range(subject["repeats"])]
        other = next((text for text in texts if text != texts[0]), None)
        if other is not None:
            raise RungError(f"{row['question']!r} at temperature 0: {texts[0][:80]!r}, then {other[:80]!r}")
    return f"{subject['repeats']} times the same answer"


def accurate(subject: dict[str, Any]) -> str:
    """The share of right answers to a set that the user gave is at least the threshold."""
    from slipway.agent.verify.load import all_at_once

    gate = subject["accuracy"]
    if not gate or not gate["rows"]:
        return "no accuracy set given"
    asked = [(row, gate["max_tokens"]) for row in gate["rows"]]
    results = all_at_once(subject, asked, gate["at_once"])
    lost = [error for _, error in results if error]
    right = sum(1 for (row, _), (answer, _) in zip(asked, results) if answer and matches(answer.text, row))  # noqa: B905
    share = right / len(asked)
    text = f"{right} of {len(asked)} right ({share:.1%}); must be {gate['threshold']:.1%}"
    if lost or share < gate["threshold"]:
        raise RungError(f"{text}{f'; {len(lost)} got no answer: {lost[0]}' if lost else ''}")
    return text


__all__ = ["CHAT", "accurate", "completes", "known_answers", "repeats_itself", "samples", "shaped", "streams"]
