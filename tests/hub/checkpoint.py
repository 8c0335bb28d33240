"""Synthetic checkpoints for tests and benchmarks: whole, sound, and as many shards as asked for."""

import json
import os
import shutil
from pathlib import Path

TINY = Path(__file__).resolve().parents[1] / "data" / "checkpoints" / "tiny"


def write_checkpoint(root: Path, shards: int = 3, shard_bytes: int = 200_000) -> Path:
    """A folder with config, tokenizer, index and `shards` weight files of random BF16 below infinity."""
    root.mkdir(parents=True, exist_ok=True)
    for path in TINY.iterdir():
        shutil.copy(path, root / path.name)
    (root / "tokenizer.json").write_text("{}")
    names, total = {}, 0
    for number in range(1, shards + 1):
        file = f"model-{number:05d}-of-{shards:05d}.safetensors"
        names[f"model.layers.{number}.mlp.up_proj.weight"] = file
        total += write_shard(root / file, f"model.layers.{number}.mlp.up_proj.weight", shard_bytes)
    index = {"metadata": {"total_size": total}, "weight_map": names}
    (root / "model.safetensors.index.json").write_text(json.dumps(index))
    return root


def write_shard(path: Path, tensor: str, size: int) -> int:
    """One tensor of some `size` bytes; how many they are."""
    rows = max(size // 128, 1)
    count = rows * 128
    header = json.dumps({tensor: {"dtype": "BF16", "shape": [rows, 64], "data_offsets": [0, count]}}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        left = count
        while left:
            block = bytes(byte & 0x3F for byte in os.urandom(4096)) * 256
            file.write(block[: min(left, len(block))])
            left -= min(left, len(block))
    return count
