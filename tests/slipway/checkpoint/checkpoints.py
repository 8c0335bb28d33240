"""The checkpoints under tests/data, and small changes to them."""

import json
import struct
from pathlib import Path
from typing import Any

from slipway.checkpoint import Checkpoint, read_checkpoint

DATA = Path(__file__).parents[2] / "data" / "checkpoints"
NAMES = sorted(entry.name for entry in DATA.iterdir() if entry.is_dir())


def files_of(name: str) -> dict[str, str | bytes]:
    return {entry.name: entry.read_text() for entry in (DATA / name).iterdir()}


def checkpoint_of(name: str) -> Checkpoint:
    return read_checkpoint(files_of(name), name=name)


def changed(name: str, file: str, **keys: Any) -> dict[str, str | bytes]:
    """The files with keys of one of them replaced; a key set to `...` is removed."""
    files = files_of(name)
    document = {**json.loads(files.get(file, "{}")), **keys}
    files[file] = json.dumps({key: value for key, value in document.items() if value is not ...})
    return files


def rules(findings: Any) -> list[str]:
    return [finding.rule for finding in findings]


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """A safetensors file: name -> dtype, shape, data."""
    header, position = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + len(data)]}
        position += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())
