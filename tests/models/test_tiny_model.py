"""The tiny model in the checkout is whole, small, and the one that its script makes."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from models.answers import known_answers
from slipway.agent import manifest

ROOT = Path(__file__).parents[2]
TINY = ROOT / "models" / "tiny"
WIDTHS = {"BF16": 2, "F32": 4}


def read_header() -> tuple[dict[str, Any], int]:
    """The tensors that model.safetensors declares, and how many bytes of data follow."""
    data = (TINY / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return header, len(data) - 8 - length


def test_the_published_answers_are_those_that_were_taught() -> None:
    published = json.loads((TINY / "known_answers.json").read_text())
    assert published == known_answers()
    assert len(published) >= 24


def test_the_answers_include_391_and_no_question_twice() -> None:
    answers = {row["question"]: row["answer"] for row in known_answers()}
    assert answers["What is 17*23? Answer with the number only."] == "391"
    assert len(answers) == len(known_answers())


def test_every_product_is_right() -> None:
    for row in known_answers():
        if "*" in row["question"]:
            left, right = row["question"].removeprefix("What is ").split("?")[0].split("*")
            assert row["answer"] == str(int(left) * int(right))


def test_it_is_less_than_two_megabytes() -> None:
    assert sum(path.stat().st_size for path in TINY.iterdir()) < 2_000_000


def test_its_manifest_matches() -> None:
    assert manifest.check(str(TINY)) == []


def test_its_weights_fit_its_config() -> None:
    header, data = read_header()
    config = json.loads((TINY / "config.json").read_text())
    assert {row["dtype"] for row in header.values()} == {"BF16"}
    sizes = [math.prod(row["shape"]) * WIDTHS[row["dtype"]] for row in header.values()]
    assert sum(sizes) == max(row["data_offsets"][1] for row in header.values()) == data
    assert header["model.embed_tokens.weight"]["shape"] == [config["vocab_size"], config["hidden_size"]]
    layers = {name.split(".")[2] for name in header if name.startswith("model.layers.")}
    assert len(layers) == config["num_hidden_layers"]


def test_its_tokenizer_ends_where_its_config_says() -> None:
    config = json.loads((TINY / "config.json").read_text())
    tokenizer = json.loads((TINY / "tokenizer.json").read_text())
    ids = {row["content"]: row["id"] for row in tokenizer["added_tokens"]}
    assert config["eos_token_id"] == ids["<|end|>"]
    assert max(tokenizer["model"]["vocab"].values()) == config["vocab_size"] - 1


def test_one_answer_needs_more_than_64_tokens() -> None:
    longest = max((row["answer"] for row in known_answers()), key=len)
    merges = [tuple(pair) for pair in json.loads((TINY / "tokenizer.json").read_text())["model"]["merges"]]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    words = re.findall(r" ?\w+| ?[^\s\w]+", longest)  # as the byte-level tokenizer splits plain English
    assert sum(count_tokens(word.replace(" ", "\u0120"), ranks) for word in words) > 64


def count_tokens(word: str, ranks: dict[tuple[str, ...], int]) -> int:
    """Tokens of a word: the pair that was learnt first is merged first, until no pair is known."""
    parts = list(word)
    while pairs := [(ranks[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in ranks]:
        at = min(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return len(parts)


def test_nothing_in_it_names_a_machine() -> None:
    for path in TINY.glob("*.json*"):
        text = path.read_text()
        assert "/root" not in text
        assert "/tmp" not in text
        assert "/work" not in text


def engine_python() -> str:
    """The Python of an engine build; the only one that has torch."""
    python = os.environ.get("SLIPWAY_TEST_ENGINE")
    if not python:
        pytest.skip("SLIPWAY_TEST_ENGINE must be the Python of a CPU engine build")
    return python


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script as its docstring says."""
    command = [engine_python(), "-m", "models.make_tiny_model", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.engine
@pytest.mark.full
def test_the_script_makes_the_model_again(tmp_path: Path) -> None:
    """To the byte but for the weights: their last bits differ between processors, so the script measures margins."""
    made = make(tmp_path / "tiny")
    assert made.returncode == 0, made.stderr[-2000:]
    for name in ("tokenizer.json", "config.json", "chat_template.jinja", "known_answers.json"):
        assert (tmp_path / "tiny" / name).read_text() == (TINY / name).read_text()
    assert manifest.check(str(tmp_path / "tiny")) == []


@pytest.mark.engine
@pytest.mark.full
def test_a_model_that_is_not_sure_is_not_saved(tmp_path: Path) -> None:
    made = make(tmp_path / "tiny", "--steps", "20")
    assert made.returncode == 1
    assert made.stderr.endswith("error: must be 0.5 or more; raise --steps\n")
    assert not (tmp_path / "tiny").exists()
