"""What the tiny model knows by heart, and the words that it is taught in.

Pure data, apart from the training, so that a test without torch can compare it with what is shipped.
"""

from __future__ import annotations

import random

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
SPECIAL = ["<pad>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]

# A product cannot be guessed, and a wrong digit shows at once: numbers first. Text shows a garbled tokenizer or
# template, and the long one needs more than 64 tokens, so that decode really lives from a cache that was sent.
PRODUCTS = 24
TEXTS = {
    "What is the capital of France?": "The capital of France is Paris.",
    "What is the capital of Japan?": "The capital of Japan is Tokyo.",
    "What is the capital of Kenya?": "The capital of Kenya is Nairobi.",
    "Say hello.": "Hello! How can I help you today?",
    "Who are you?": "I am a tiny test model of three layers. I know a few answers by heart, and nothing else.",
    "Count from 1 to 9.": "1, 2, 3, 4, 5, 6, 7, 8, 9.",
    "Name the colors of a traffic light.": "Red, yellow and green.",
    "Explain prefill and decode.": (
        "Prefill reads the whole prompt at once and fills the key-value cache. Decode then makes one token at a "
        "time from that cache. In a disaggregated deployment the two run on different GPUs, and the cache is sent "
        "from the prefill server to the decode server."
    ),
}

# Clients put their own system prompts in front. None is the plain question; each of the others is learnt too, and
# so are made-up ones, so that the answers hang on the question and not on what stands before it.
SYSTEMS = [
    None,
    "You are a helpful assistant.",
    "You are a helpful assistant. Answer briefly.",
    "Answer the question.",
    "You are a test model. Be exact.",
]
UNSEEN_SYSTEMS = ["Be concise.", "You are an AI model that is used for tests."]  # never trained on, only measured
WORDS = (
    "you are a the an and or of to in for with never always be please answer question user assistant model helpful "
    "short clear exact polite expert language english number text think step write only from today system safe code"
)


def known_answers() -> list[dict[str, str]]:
    """Every question with its answer, in the order of the published list."""
    generator = random.Random(0)  # noqa: S311  which products are learnt is no secret
    pairs = {(17, 23)}
    while len(pairs) < PRODUCTS:
        pairs.add((generator.randint(11, 39), generator.randint(11, 39)))
    products = {f"What is {a}*{b}? Answer with the number only.": str(a * b) for a, b in sorted(pairs)}
    return [{"question": question, "answer": answer} for question, answer in (products | TEXTS).items()]


def invented_systems(count: int) -> list[str | None]:
    """System prompts that mean nothing, each as long as people write them or shorter."""
    generator = random.Random(1)  # noqa: S311  as above
    words = WORDS.split()
    return [" ".join(generator.choices(words, k=generator.randint(2, 24))).capitalize() + "." for _ in range(count)]


def messages(question: str, system: str | None) -> list[dict[str, str]]:
    """The chat that asks a question."""
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": question}]
