"""Safetensors headers: which tensors a file holds, and whether they fill it exactly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, TypeGuard

from slipway.checkpoint.fields import LARGEST, printable, shown
from slipway.finding import Finding

# The format's own limit: a longer header is refused by every loader.
LONGEST = 100_000_000
# Bits of one element, by the dtype's name in a header.
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_FETCH = "quarantine the file and fetch it again at the pinned revision"
_SOURCE = "safetensors format; issue 6 item 4"


class Tensor(NamedTuple):
    """One tensor. begin, end: bytes from the start of the file's data part."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """One file's header. size: bytes of the whole file. data_start: where the data part begins."""

    file: str
    size: int
    data_start: int
    tensors: tuple[Tensor, ...]


def header_length(first_bytes: bytes) -> int:
    """Bytes of the header's JSON, from the file's first eight bytes; -1 when there are fewer."""
    return int.from_bytes(first_bytes[:8], "little") if len(first_bytes) >= 8 else -1


def read_header(file: str, raw: bytes, size: int) -> tuple[Header | None, list[Finding]]:
    """The header in the file's first bytes, with what is wrong in it. raw.

    At least the length and the JSON.
    """
    length = header_length(raw)
    if not 0 < length <= min(LONGEST, size - 8) or len(raw) < 8 + length:
        what = "an empty file" if size == 0 else f"a header of {length} bytes in a file of {size}"
        return None, [_bad(file, f"{what}: truncated, or not a safetensors file")]
    try:
        document = json.loads(raw[8 : 8 + length])
    except (ValueError, RecursionError):
        return None, [_bad(file, "the header is not JSON")]
    if not isinstance(document, dict):
        return None, [_bad(file, "the header is no JSON object")]
    tensors, found = _tensors(file, document)
    header = Header(file, size, 8 + length, tensors)
    return header, found or _extents(header)


def _tensors(file: str, document: dict[str, Any]) -> tuple[tuple[Tensor, ...], list[Finding]]:
    parsed = [(name, _tensor(name, entry)) for name, entry in document.items() if name != "__metadata__"]
    bad = [name for name, tensor in parsed if tensor is None]
    if bad:
        message = f"{len(bad)} header entries are malformed, e.g. {shown(printable(bad[0]))}"
        return (), [_bad(file, message)]
    good = [tensor for _, tensor in parsed if tensor is not None]
    return tuple(sorted(good, key=lambda tensor: (tensor.begin, tensor.end))), []


def _tensor(name: str, entry: Any) -> Tensor | None:
    """A tensor, or None when the entry is malformed."""
    if not isinstance(entry, dict):
        return None
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or not _numbers(shape) or not _numbers(offsets):
        return None
    return Tensor(name, dtype, tuple(shape), *offsets) if len(offsets) == 2 else None


def _numbers(value: Any) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) <= 16
        and all(type(item) is int and 0 <= item <= LARGEST for item in value)
    )


def _extents(header: Header) -> list[Finding]:
    """Each tensor as long as its shape, beginning where the last ended; the last ends with the file."""
    position = 0
    for tensor in header.tensors:
        bits = DTYPE_BITS.get(tensor.dtype)
        if bits is None:
            dtype = shown(printable(tensor.dtype))
            return [_bad(header.file, f"{_name(tensor)} has dtype {dtype}, which is unknown")]
        length = tensor.end - tensor.begin
        if length * 8 != prod(tensor.shape) * bits:
            said = f"{tensor.dtype} {list(tensor.shape)}"
            return [_bad(header.file, f"{_name(tensor)} is {said} but {length} bytes long")]
        if tensor.begin != position:
            sort = "a gap" if tensor.begin > position else "an overlap"
            return [_bad(header.file, f"{sort} before {_name(tensor)}: it begins at {tensor.begin}, not {position}")]
        position = tensor.end
    return _ending(header, position)


def _ending(header: Header, position: int) -> list[Finding]:
    wanted = header.data_start + position
    if wanted == header.size:
        return []
    sort = "shorter" if header.size < wanted else "longer"
    message = f"the file is {header.size} bytes, {sort} than its header says ({wanted})"
    return [_bad(header.file, message)]


def _name(tensor: Tensor) -> str:
    return f"tensor {shown(printable(tensor.name))}"


def _bad(file: str, message: str) -> Finding:
    return Finding("checkpoint-shard-broken", "error", file, message, _FETCH, _SOURCE)
