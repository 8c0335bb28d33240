"""Safetensors headers: which tensors a file holds, and whether they fill it exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from operator import mul, sub
from typing import Any, NamedTuple

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
    """One file's header, by columns in the order of the data: a checkpoint may have 140,000 tensors.

    size: bytes of the whole file. data_start: where the data part begins. begins, ends: bytes from there.
    """

    file: str
    size: int
    data_start: int
    names: tuple[str, ...] = field(repr=False)
    dtypes: tuple[str, ...] = field(repr=False)
    shapes: tuple[list[int], ...] = field(repr=False)
    begins: tuple[int, ...] = field(repr=False)
    ends: tuple[int, ...] = field(repr=False)

    @property
    def tensors(self) -> Iterator[Tensor]:
        """The tensors one by one."""
        shapes = map(tuple, self.shapes)
        return map(Tensor._make, zip(self.names, self.dtypes, shapes, self.begins, self.ends, strict=True))


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
    document.pop("__metadata__", None)
    header = _columns(file, size, 8 + length, document)
    if header is None:
        return None, [_malformed(file, document)]
    return header, _extents(header)


def _columns(file: str, size: int, data_start: int, document: dict[str, Any]) -> Header | None:
    """The header by columns; None when any entry is malformed."""
    try:
        rows = sorted(document.items(), key=_offsets)
        dtypes = tuple(entry["dtype"] for _, entry in rows)
        shapes = tuple(entry["shape"] for _, entry in rows)
        begins = tuple(entry["data_offsets"][0] for _, entry in rows)
        ends = tuple(entry["data_offsets"][1] for _, entry in rows)
        counts = [*begins, *ends, *chain.from_iterable(shapes)]
    except (KeyError, TypeError, IndexError, ValueError):
        return None
    right_types = {*map(type, counts), int} == {int} and {*map(type, dtypes), str} == {str}
    if not right_types or {*map(type, shapes), list} != {list} or max(map(len, shapes), default=0) > 16:
        return None
    if not 0 <= min(counts, default=0) <= max(counts, default=0) <= LARGEST:
        return None
    return Header(file, size, data_start, tuple(name for name, _ in rows), dtypes, shapes, begins, ends)


def _offsets(row: tuple[str, Any]) -> list[int]:
    offsets: list[int] = row[1]["data_offsets"]
    if len(offsets) != 2:
        raise ValueError
    return offsets


def _malformed(file: str, document: dict[str, Any]) -> Finding:
    bad = [name for name, entry in document.items() if _columns(file, 0, 0, {name: entry}) is None]
    name = shown(printable(bad[0])) if bad else "their offsets"
    return _bad(file, f"{max(len(bad), 1)} header entries are malformed, e.g. {name}")


def _extents(header: Header) -> list[Finding]:
    """Each tensor as long as its shape, beginning where the last ended; the last ends with the file."""
    lengths = map(sub, header.ends, header.begins)
    wanted = map(mul, map(prod, header.shapes), (DTYPE_BITS.get(name, -1) for name in header.dtypes))
    fits = all(length * 8 == bits for length, bits in zip(lengths, wanted, strict=True))
    if fits and header.begins == (0, *header.ends[:-1])[: len(header.begins)]:
        return _ending(header, header.ends[-1] if header.ends else 0)
    return _first_fault(header)


def _first_fault(header: Header) -> list[Finding]:
    """The first tensor that does not fit, with what is wrong."""
    position = 0
    for tensor in header.tensors:
        fault = _fault(tensor, position)
        if fault:
            return [_bad(header.file, fault)]
        position = tensor.end
    return _ending(header, position)


def _fault(tensor: Tensor, position: int) -> str:
    bits, length = DTYPE_BITS.get(tensor.dtype), tensor.end - tensor.begin
    if bits is None:
        return f"{_name(tensor)} has dtype {shown(printable(tensor.dtype))}, which is unknown"
    if length * 8 != prod(tensor.shape) * bits:
        return f"{_name(tensor)} is {tensor.dtype} {list(tensor.shape)} but {length} bytes long"
    if tensor.begin != position:
        sort = "a gap" if tensor.begin > position else "an overlap"
        return f"{sort} before {_name(tensor)}: it begins at {tensor.begin}, not {position}"
    return ""


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
