"""Asks one question at temperature 0 and checks the shape of what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipway.agent.verify.client import Reply, call, wanted
from slipway.agent.verify.matching import still_thinking
from slipway.agent.verify.reasons import NotYetError, RungError
from slipway.agent.verify.texts import suspicion

CHAT, PLAIN = "/v1/chat/completions", "/v1/completions"
ENDS = ("stop", "length", "tool_calls", "content_filter")
GREETING = "Say hello."
BUSY = (502, 503, 504)


@dataclass(frozen=True)
class Answer:
    """One choice of a reply. samples: the texts of all choices. logprobs: of each token, where they were offered."""

    text: str
    reasoning: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    model: str
    samples: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()

    @property
    def said(self) -> str:
        """The text; what it thought so far when it did not come to an answer."""
        return self.text or self.reasoning


def path_of(subject: dict[str, Any]) -> str:
    """Chat, unless the model has no chat template."""
    return PLAIN if subject.get("plain") else CHAT


def body_of(subject: dict[str, Any], question: dict[str, Any], max_tokens: int, **more: Any) -> dict[str, Any]:
    """The request's body. question: a row of known answers: question, and system or prompt where it has them."""
    text = question["question"]
    if subject.get("plain"):
        asked: dict[str, Any] = {"prompt": question.get("prompt") or text}
    else:
        system = [{"role": "system", "content": question["system"]}] if question.get("system") else []
        asked = {"messages": [*system, {"role": "user", "content": text}]}
    fixed = {"model": subject["model"], "temperature": 0, "max_tokens": max_tokens, "stream": False}
    return {**asked, **fixed, **subject.get("fields", {}), **more}


def ask(subject: dict[str, Any], question: dict[str, Any] | str, max_tokens: int = 0, **more: Any) -> Answer:
    """The answer to a question. Raises RungError when there is none, or it has not the shape of one."""
    row: dict[str, Any] = {"question": question} if isinstance(question, str) else question
    limit: int = max_tokens or row.get("max_tokens") or subject["max_tokens"]
    return answered(call(subject, "POST", path_of(subject), body_of(subject, row, limit, **more)), limit, subject)


def answered(reply: Reply, limit: int, subject: dict[str, Any]) -> Answer:
    """The answer in a reply."""
    if reply.status in BUSY:
        raise NotYetError(f"a completion answers {reply.status}: {reply.text[:200]}")
    data = wanted(subject, reply, "a completion").json()
    choices, usage = data["choices"], data["usage"]
    if not choices or sorted(choice["index"] for choice in choices) != list(range(len(choices))):
        raise RungError(f"the choices of a completion are not counted from 0: {reply.text[:120]}")
    check_usage(usage, limit * len(choices))
    texts = [text_of(choice) for choice in choices]
    return Answer(
        text=texts[0],
        reasoning=str((choices[0].get("message") or {}).get("reasoning_content") or ""),
        finish=finish_of(choices[0]),
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        model=str(data["model"]),
        samples=tuple(texts),
        logprobs=logprobs_of(choices[0]),
    )


def text_of(choice: dict[str, Any]) -> str:
    """The text of a choice, whichever endpoint it is from."""
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    return "" if text is None else str(text)


def finish_of(choice: dict[str, Any]) -> str:
    """Why it ended; one of the reasons that there are."""
    reason = choice["finish_reason"]
    if reason not in ENDS:
        raise RungError(f"finish_reason is {reason!r}; must be one of {', '.join(ENDS)}")
    return str(reason)


def check_usage(usage: dict[str, Any], limit: int) -> None:
    """The counts agree with one another and with the limit."""
    prompt, completion, total = (usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    if prompt + completion != total or min(prompt, completion) < 0:
        raise RungError(f"usage does not add up: {prompt} + {completion} tokens, total {total}")
    if completion > limit:
        raise RungError(f"usage counts {completion} completion tokens; max_tokens was {limit}")


def logprobs_of(choice: dict[str, Any]) -> tuple[float, ...]:
    """The logprob of each token where the server gave them."""
    found = choice.get("logprobs") or {}
    if "content" in found:
        return tuple(float(row["logprob"]) for row in found["content"] or ())
    return tuple(float(value) for value in found.get("token_logprobs") or () if value is not None)


def sane(answer: Answer, limit: int, cut: bool = False) -> Answer:
    """The answer when its text is one that a working model could give. Raises RungError.

    cut: the limit is ours, to save time, so a model that still thinks at it is well.
    """
    if not cut and still_thinking(answer.text, answer.reasoning, answer.finish):
        raise RungError(f"the model still thinks after {limit} tokens: raise verify.max_tokens")
    for text in [answer.said] if cut else answer.samples or (answer.text,):
        if not text.strip():
            raise RungError(f"the answer is empty ({answer.completion_tokens} tokens, {answer.finish})")
        if suspicion(text):
            raise RungError(f"the answer is broken: {suspicion(text)}: {text[:80]!r}")
    return answer
