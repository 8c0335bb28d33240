"""The simulated tokenizer and the simulated language: what a prompt counts for, and what is answered.

A token is four characters. So the count of a text, the usage of a reply and the chunks of its stream agree by
construction. A question in known_answers.json is answered exactly, and so is a product; any other prompt gets words
drawn from its hash.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOKEN_CHARS = 4
VOCABULARY = 32000
END_TOKEN = 6
SPEECH = """
the model reads a prompt and writes one token after another while prefill fills the cache that decode keeps so
each answer here is made from a hash of its question with no meaning meant by it at all only length order
timing matter to whoever measures such servers under load on hosts far away from any real weights or people
"""
WORDS = SPEECH.split()
PRODUCT = re.compile(r"What is (\d+)\*(\d+)\?")


@dataclass(frozen=True)
class Prompt:
    """A prompt: all of its text, the question in it if it is a chat, and its length in tokens."""

    text: str
    question: str
    tokens: int


@dataclass(frozen=True)
class Sampling:
    """How to answer: the limits, the stops and what randomness is wanted."""

    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stops: tuple[str, ...] = ()
    salt: str = ""


@dataclass(frozen=True)
class Answer:
    """An answer, token by token, and why it ends."""

    tokens: Sequence[str]
    finish: str
    matched: str | int | None = field(default=None)


def tokenize(text: str) -> list[str]:
    """Cut a text into its tokens."""
    return [text[i : i + TOKEN_CHARS] for i in range(0, len(text), TOKEN_CHARS)]


def count_tokens(text: str) -> int:
    """How many tokens a text counts for."""
    return -(-len(text) // TOKEN_CHARS)


def token_id(token: str) -> int:
    """The id of a token, for `output_ids`."""
    return zlib.crc32(token.encode("utf-8", "replace")) % VOCABULARY


def chat_prompt(messages: Sequence[Mapping[str, Any]]) -> Prompt:
    """Render a chat with a plain template; the question is the last user message."""
    texts = [(str(m.get("role", "")), message_text(m.get("content"))) for m in messages]
    text = "".join(f"<|{role}|>\n{content}<|end|>\n" for role, content in texts) + "<|assistant|>\n"
    questions = [content for role, content in texts if role == "user"]
    return Prompt(text, questions[-1] if questions else "", count_tokens(text))


def message_text(content: Any) -> str:
    """The text of a message, which may be a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def plain_prompt(given: str | Sequence[int]) -> Prompt:
    """A prompt without a template: text, or token ids."""
    if isinstance(given, str):
        return Prompt(given, given.strip(), max(1, count_tokens(given)))
    return Prompt(" ".join(str(token) for token in given), "", len(given))


def babble(seed: str, chars: int) -> str:
    """Words that depend only on the seed, at least this many characters of them."""
    words: list[str] = []
    length, block = 0, 0
    while length < chars:
        for byte in hashlib.sha256(f"{block}:{seed}".encode("utf-8", "replace")).digest():
            words.append(WORDS[byte % len(WORDS)])
            length += len(words[-1]) + 1
        block += 1
    return " ".join(words)


def natural_length(seed: str) -> int:
    """How many tokens an unlimited answer has before it ends by itself."""
    return 16 + zlib.crc32(seed.encode("utf-8", "replace")) % 48


def known_text(question: str, known: Mapping[str, str]) -> str | None:
    """The answer to a question that is known by heart or is a product, wherever in the prompt it stands last."""
    for text in (question, question.rpartition("\n")[2]):
        if text in known:
            return known[text]
        product = PRODUCT.search(text)
        if product:
            return str(int(product[1]) * int(product[2]))
    return None


def natural_text(prompt: Prompt, sampling: Sampling, known: Mapping[str, str]) -> str:
    """What the model would say if nothing limited it."""
    answer = known_text(prompt.question, known)
    if answer is not None:
        return answer
    seed = sampling.salt + prompt.text
    chars = natural_length(seed) * TOKEN_CHARS
    return babble(seed, chars)[: chars - 1] + "."


def compose(prompt: Prompt, sampling: Sampling, known: Mapping[str, str], limit: int) -> Answer:
    """The answer to a prompt within the sampling limits and the room that the context leaves."""
    text = natural_text(prompt, sampling, known)
    budget = max(0, min(limit, sampling.max_tokens if sampling.max_tokens is not None else limit))
    wanted = budget if sampling.ignore_eos else min(budget, sampling.min_tokens)
    if count_tokens(text) < wanted:
        text += " " + babble(sampling.salt + prompt.text + "+", wanted * TOKEN_CHARS)
        text = text[: wanted * TOKEN_CHARS]
    return finish_answer(text, sampling.stops, budget)


def finish_answer(text: str, stops: Sequence[str], budget: int) -> Answer:
    """End a text where a stop string, the budget or the text itself ends it."""
    tokens = tokenize(text)
    within = "".join(tokens[:budget])
    hits = [(within.find(stop), stop) for stop in stops if stop and stop in within]
    if hits:
        at, stop = min(hits)
        return Answer(tokenize(text[:at]), "stop", stop)
    if len(tokens) >= budget:  # the end token would have been one token more
        return Answer(tokens[:budget], "length")
    return Answer(tokens, "stop", END_TOKEN)
