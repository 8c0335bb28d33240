"""What a faulty engine makes of a right answer: one function for each fault that shows in the text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from .faults import Faults
from .text import Answer, Prompt, Sampling, babble, tokenize

FOREIGN = ("иногда", "模型", "ilcoeff", "здесь", "ʻokina", "输出", "öfter", "δεν", "unserem", "错误", "});")
DEFAULT_REPEATS = 64
BAD_BYTES = b"\xff\xfe\xc3(".decode("utf-8", "surrogateescape")
_fresh = itertools.count()

Corrupt = Callable[[Answer, Prompt, Sampling], Answer]


def retext(answer: Answer, text: str) -> Answer:
    """The same ending with another text."""
    return Answer(tokenize(text), answer.finish, answer.matched)


def wrong(answer: Answer, prompt: Prompt, _sampling: Sampling) -> Answer:
    """Fluent, of the same length or more, and wrong."""
    text = "".join(answer.tokens)
    shifted = "".join(str((int(char) + 1) % 10) if char.isdecimal() else char for char in text)
    return retext(answer, shifted if shifted != text else babble("wrong" + prompt.text, len(text))[: max(8, len(text))])


def garbage(answer: Answer, prompt: Prompt, _sampling: Sampling) -> Answer:
    """Words of many languages."""
    seed = len(prompt.text)
    words = (FOREIGN[(seed + 5 * index) % len(FOREIGN)] for index in range(max(4, len(answer.tokens))))
    return retext(answer, " ".join(words))


def repeated(text: str) -> Corrupt:
    """One text again and again, up to the limit."""

    def corrupt(_answer: Answer, _prompt: Prompt, sampling: Sampling) -> Answer:
        limit = sampling.max_tokens if sampling.max_tokens is not None else DEFAULT_REPEATS
        return Answer([text] * limit, "length")

    return corrupt


def empty(answer: Answer, _prompt: Prompt, _sampling: Sampling) -> Answer:
    """Nothing at all, and content with it."""
    return Answer([], "stop", answer.matched)


def insert(text: str) -> Corrupt:
    """A text put before every other token."""

    def corrupt(answer: Answer, _prompt: Prompt, _sampling: Sampling) -> Answer:
        tokens = [text + token if index % 2 == 0 else token for index, token in enumerate(answer.tokens)]
        return Answer(tokens, answer.finish, answer.matched)

    return corrupt


def fresh(answer: Answer, prompt: Prompt, _sampling: Sampling) -> Answer:
    """Another text each time, though nothing asked for it."""
    size = max(16, len("".join(answer.tokens)))
    return retext(answer, babble(f"{next(_fresh)}:{prompt.text}", size)[:size])


def flip_finish(answer: Answer, _prompt: Prompt, _sampling: Sampling) -> Answer:
    """The other finish reason."""
    return Answer(answer.tokens, "length" if answer.finish == "stop" else "stop", answer.matched)


CORRUPTIONS: dict[str, Corrupt] = {
    "wrong-answer": wrong,
    "garbage": garbage,
    "repetition": repeated(" the"),
    "nan": repeated("!!!!"),
    "empty-output": empty,
    "transfer-fails": empty,
    "transfer-corrupts": garbage,
    "non-utf8": insert(BAD_BYTES),
    "replacement-chars": insert("\ufffd"),
    "nondeterministic": fresh,
    "long-prompt-garbage": garbage,
    "second-page-garbage": garbage,
    "busy-garbage": garbage,
    "finish-reason-wrong": flip_finish,
}


def active(faults: Faults, prompt: Prompt, running: int) -> list[str]:
    """The text faults that touch this request now."""
    measures = {
        "long-prompt-garbage": prompt.tokens,
        "second-page-garbage": prompt.tokens,
        "busy-garbage": running,
    }
    return [
        name
        for name in CORRUPTIONS
        if faults.on(name) and (name not in measures or faults.beyond(name, measures[name]))
    ]


def corrupt(answer: Answer, names: Iterable[str], prompt: Prompt, sampling: Sampling) -> Answer:
    """Apply text faults in the order of the table."""
    for name in names:
        answer = CORRUPTIONS[name](answer, prompt, sampling)
    return answer
