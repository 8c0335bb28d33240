"""Trains the tiny model that ships with the project, and checks that it is sure of every answer.

usage, from the checkout, with the Python of a CPU engine build: python -m models.make_tiny_model FOLDER
It takes two to four minutes on two cores (set OMP_WAIT_POLICY=PASSIVE where others use them too). The result is
a 640,000-parameter Llama in bfloat16 with a byte-level tokenizer: small enough to ship, real enough for a real
engine to load, and right or wrong beyond doubt.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from models.answers import SPECIAL, SYSTEMS, TEMPLATE, UNSEEN_SYSTEMS, invented_systems, known_answers, messages
from slipway.agent.manifest import write

VOCABULARY = 400
CONTEXT = 8192
END = "<|end|>"
LEAST_STEPS = 20
IGNORED = -100  # cross entropy leaves out labels of this value
INVENTED = 100  # made-up system prompts; the real ones are drilled as often as all of these together
REPEATS = INVENTED // len(SYSTEMS)
LONG = 64  # tokens; longer examples are batched apart, so that short ones are not mostly padding


class Example(NamedTuple):
    """A question as the engine will see it, and the answer to learn."""

    name: str
    prompt: list[int]
    answer: list[int]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE over the answers: any text can be encoded, and each digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet)
    lines = [f"{row['question']}\n{row['answer']}" for row in known_answers()]
    tokenizer.train_from_iterator([*lines, *filter(None, SYSTEMS)], trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=CONTEXT)
    made.add_special_tokens({"pad_token": "<pad>", "bos_token": "<s>", "eos_token": END})
    made.chat_template = TEMPLATE
    return made


def make_model(end: int) -> LlamaForCausalLM:
    """An untrained Llama. Two key-value heads, so that it can be split over two ranks."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=SPECIAL.index("<s>"),
        eos_token_id=end,
        pad_token_id=SPECIAL.index("<pad>"),
    )
    return LlamaForCausalLM(config)


def make_examples(tokenizer: PreTrainedTokenizerFast, systems: list[str | None]) -> list[Example]:
    """Every known answer behind every system prompt."""
    made = []
    for row in known_answers():
        answer = tokenizer(row["answer"] + END, add_special_tokens=False).input_ids
        for system in systems:
            chat = messages(row["question"], system)
            text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            prompt = tokenizer(text, add_special_tokens=False).input_ids
            made.append(Example(f"{row['question']} (system: {system})", prompt, answer))
    return made


def make_batch(examples: list[Example]) -> dict[str, torch.Tensor]:
    """Pad on the right and label only the answers; causal attention never looks at the padding."""
    width = max(len(example.prompt) + len(example.answer) for example in examples)
    ids = torch.zeros(len(examples), width, dtype=torch.long)
    labels = torch.full((len(examples), width), IGNORED)
    for row, example in enumerate(examples):
        start, stop = len(example.prompt), len(example.prompt) + len(example.answer)
        ids[row, :stop] = torch.tensor(example.prompt + example.answer)
        labels[row, start:stop] = torch.tensor(example.answer)
    return {"input_ids": ids, "labels": labels}


def train(model: LlamaForCausalLM, examples: list[Example], steps: int, generator: random.Random) -> None:
    """Learn the answers by heart; every fourth step is for the long ones."""
    long = [example for example in examples if len(example.answer) > LONG]
    short = [example for example in examples if len(example.answer) <= LONG]
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps, pct_start=0.1)
    began = time.monotonic()
    for step in range(steps):
        pool = long if step % 4 == 0 else short
        loss = model(**make_batch(generator.sample(pool, min(len(pool), 32)))).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.4f}, {time.monotonic() - began:.0f} s", flush=True)


def smallest_margin(model: LlamaForCausalLM, examples: list[Example]) -> tuple[float, str]:
    """The least sure token of all answers: its probability less that of the best other token, and whose it is.

    Above zero everywhere, greedy decoding gives every answer to the letter.
    """
    least = (1.0, "")
    for example in examples:
        batch = make_batch([example])
        with torch.no_grad():
            logits = model(input_ids=batch["input_ids"]).logits[0, len(example.prompt) - 1 : -1].float()
        chances = logits.softmax(-1)
        wanted = torch.tensor(example.answer)[:, None]
        right = chances.gather(1, wanted)[:, 0]
        other = chances.scatter(1, wanted, 0.0).max(-1).values
        least = min(least, (float((right - other).min()), example.name))
    return least


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Put model, tokenizer, answers and manifest into the folder."""
    model.generation_config = GenerationConfig(
        bos_token_id=model.config.bos_token_id, eos_token_id=model.config.eos_token_id, pad_token_id=0
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings.pop("backend")  # with the class, all that keeps transformers 4, of other engine releases, from loading it
    write_json(folder / "tokenizer_config.json", settings | {"tokenizer_class": "PreTrainedTokenizerFast"})
    write_json(folder / "known_answers.json", known_answers())
    (folder / "model.safetensors").chmod(0o644)  # it is written for its owner only, but served by another user
    write(str(folder))


def write_json(path: Path, value: Any) -> None:
    """Put a value down so that a person can read it."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="make_tiny_model", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="fixed, since sums depend on it in the last bit")
    parser.add_argument("--min-margin", type=float, default=0.5, help="refuse a model less sure than this")
    given = parser.parse_args()
    if given.steps < LEAST_STEPS:
        parser.error(f"--steps {given.steps}: must be {LEAST_STEPS} or more, for the learning rate to rise and fall")
    return given


def main() -> int:
    """Train, measure in the precision that is shipped, and save only what is sure of its answers."""
    given = read_arguments()
    torch.manual_seed(given.seed)
    torch.set_num_threads(given.threads)
    tokenizer = make_tokenizer()
    model: Any = make_model(tokenizer.convert_tokens_to_ids(END))
    examples = make_examples(tokenizer, SYSTEMS)
    drilled = examples * REPEATS + make_examples(tokenizer, invented_systems(INVENTED))
    train(model, drilled, given.steps, random.Random(given.seed))  # noqa: S311  a seed to repeat, not a secret
    model = model.to(torch.bfloat16).eval()
    margin, name = smallest_margin(model, examples)
    print(f"smallest margin: {margin:.4f}, {name}")
    unseen, name = smallest_margin(model, make_examples(tokenizer, list(UNSEEN_SYSTEMS)))
    print(f"smallest margin with system prompts never seen: {unseen:.4f}, {name}")
    if margin < given.min_margin:
        print(f"error: must be {given.min_margin} or more; raise --steps", file=sys.stderr)
        return 1
    save(model, tokenizer, given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
