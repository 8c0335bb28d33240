"""Rungs of prompt length: several KV pages, one near the limit, and one over it, which must be refused."""

from __future__ import annotations

import random
from typing import Any

from slipway.agent.verify.answers import opening
from slipway.agent.verify.client import call, get, wanted
from slipway.agent.verify.matching import matches
from slipway.agent.verify.questions import Answer, ask, body_of, path_of, sane
from slipway.agent.verify.reasons import RungError

ROOM = 32  # tokens left for the answer
UNTOLD = 4096  # tokens of context when a worker does not say
SAMPLE = 64  # words that a token count is calibrated with
LEAST = 0.1  # tokens a word, whatever the tokenizer
SHORT = 8
LOOKS_PAST = (SHORT, 32, 128)  # words before a question; a model that looks past these looks past more


def filler(words: int, seed: int = 0) -> str:
    """Digits in a row: most tokenizers make two tokens of each, and none leaves any out."""
    source = random.Random(seed)  # noqa: S311 - the same prompt each time
    return " ".join(str(source.randrange(10)) for _ in range(words))


def padded(row: dict[str, Any], words: int) -> dict[str, Any]:
    """A question at the end of a long prompt."""
    return {**row, "question": f"{filler(words)}\n{row['question']}", "prompt": ""}


def words_for(subject: dict[str, Any], row: dict[str, Any], tokens: int) -> int:
    """How many words of filler make a prompt of about so many tokens, by the server's own count."""
    few, many = (ask(subject, padded(row, count), 1).prompt_tokens for count in (SHORT, SHORT + SAMPLE))
    each = max(LEAST, (many - few) / SAMPLE)
    return max(SHORT, SHORT + int((tokens - few) / each))


def room(subject: dict[str, Any]) -> dict[str, int]:
    """The longest prompt that every worker can take, and the context that they promise.

    A prompt must fit in the KV cache too, which may be smaller than the context.
    """
    if "room" not in subject:
        contexts, fits = [], []
        for worker in subject["workers"]:
            models = wanted(subject, get(subject, "/v1/models", worker["url"]), f"{worker['name']}: /v1/models").json()
            context = int(models["data"][0].get("max_model_len") or UNTOLD)
            contexts.append(context)
            fits.append(min(context, capacity(subject, worker["url"], context)))
        subject["room"] = {"context": max(contexts), "fits": min(fits)}
    found: dict[str, int] = subject["room"]
    return found


def capacity(subject: dict[str, Any], url: str, context: int) -> int:
    """Tokens that fit in a worker's KV cache, as it says itself."""
    for path in ("/server_info", "/get_server_info"):
        reply = get(subject, path, url)
        if reply.status == 200:
            info = reply.json()
            sizes = [info.get("max_req_input_len"), info.get("max_total_num_tokens"), info.get("max_total_tokens")]
            return int(min([size for size in sizes if size] or [context]))
    return context


def long_prompt(subject: dict[str, Any]) -> str:
    """A prompt over several pages of the KV cache."""
    tokens = min(subject["long_tokens"], room(subject)["fits"] - 2 * ROOM)
    return far_question(subject, tokens)


def near_limit(subject: dict[str, Any]) -> str:
    """A prompt just short of the context limit, or of as much as the configuration wants to spend."""
    fits, most = room(subject)["fits"], subject["context_tokens"]
    tokens = min(fits - fits // 50 - 2 * ROOM, most)
    text = far_question(subject, tokens)
    return text + (f"; the limit is {fits}, verify.context_tokens {most}" if most < fits else f" of {fits}")


def far_question(subject: dict[str, Any], tokens: int) -> str:
    """Ask a known question at the end of a prompt of so many tokens.

    The answer must be right if the model can look past filler at all: a tiny one cannot, and no server is to blame.
    """
    row = opening(subject)
    if "capable" not in subject:
        subject["capable"] = "expect" in row and all(
            right(subject, row, ask(subject, padded(row, words), ROOM)) for words in LOOKS_PAST
        )
    capable = subject["capable"]
    answer = sane(ask(subject, padded(row, words_for(subject, row, tokens)), ROOM), ROOM, cut=True)
    if capable and not right(subject, row, answer):
        raise RungError(
            f"after {answer.prompt_tokens} tokens of prompt {row['question']!r} -> {answer.text[:80]!r}; "
            f"must be {row['expect']!r}, as it is after a short one"
        )
    if answer.prompt_tokens < tokens // 2:
        raise RungError(f"a prompt of about {tokens} tokens counts as {answer.prompt_tokens}: it was cut")
    return f"a prompt of {answer.prompt_tokens} tokens is answered" + (", rightly" if capable else "")


def right(subject: dict[str, Any], row: dict[str, Any], answer: Answer) -> bool:
    """Whether an answer is the known one."""
    return matches(answer.text, row, bool(subject.get("plain")))


def over_limit(subject: dict[str, Any]) -> str:
    """A prompt over the context is refused with a 4xx: an answer would be to another prompt."""
    if subject.get("truncates"):
        return "prompts are cut by configuration (--allow-auto-truncate)"
    context, row = room(subject)["context"], opening(subject)
    words = words_for(subject, row, context + max(SAMPLE, context // 50))
    body = body_of(subject, padded(row, words), 1)
    reply = call(subject, "POST", path_of(subject), body)
    if not 400 <= reply.status < 500:
        what = "is answered" if reply.status == 200 else f"answers {reply.status}"
        raise RungError(f"a prompt over the context of {context} tokens {what}; must be refused with a 4xx")
    return f"a prompt over {context} tokens is refused with {reply.status}"
