"""Samples of weights: finite, and not all zero. A corrupt shard may map as zeros with a sound header.

Standard library only and bounded bytes: three windows of a few tensors in each file.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slipway.checkpoint.fields import printable, shown
from slipway.checkpoint.headers import DTYPE_BITS, Header, Tensor
from slipway.finding import Finding

# Exponent bits of a float: a value with all of them set is infinite or no number.
_EXPONENTS = {"BF16": ("H", 0x7F80), "F16": ("H", 0x7C00), "F32": ("I", 0x7F800000)}
# One-byte floats have one or a few patterns for "no number".
_NOT_FINITE_BYTES = {"F8_E4M3": b"\x7f\xff", "F8_E5M2": bytes([*range(0x7C, 0x80), *range(0xFC, 0x100)])}
_FETCH = "quarantine the file and fetch it again; then compare its SHA-256 with the Hub's"
_SOURCE = "issue 6; reported_faults.md 52"


@dataclass(frozen=True)
class Window:
    """Bytes to read: `length` at `offset` of the file, part of one tensor."""

    file: str
    tensor: str
    dtype: str
    offset: int
    length: int


def plan_samples(header: Header, tensors: int = 4, window: int = 4096) -> tuple[Window, ...]:
    """Windows at the start, the middle and the end of some weight matrices, spread over the file.

    At most tensors * 3 * window bytes are read. Vectors are left out: biases may rightly be zero.
    """
    matrices = [tensor for tensor in header.tensors if _is_matrix(tensor)]
    step = max(len(matrices) // max(tensors, 1), 1)
    chosen = matrices[::step][: max(tensors, 0)]
    return tuple(item for tensor in chosen for item in _windows(header, tensor, max(window, 8)))


def _is_matrix(tensor: Tensor) -> bool:
    weight = tensor.name.endswith((".weight", "_packed", ".qweight", "_blocks"))
    return weight and len(tensor.shape) >= 2 and tensor.end > tensor.begin and tensor.dtype in DTYPE_BITS


def _windows(header: Header, tensor: Tensor, window: int) -> list[Window]:
    length = min(tensor.end - tensor.begin, window) & ~7 or tensor.end - tensor.begin
    room = tensor.end - tensor.begin - length
    starts = dict.fromkeys((0, room // 2 & ~7, room & ~7))
    begin = header.data_start + tensor.begin
    return [Window(header.file, tensor.name, tensor.dtype, begin + start, length) for start in starts]


def check_samples(samples: Iterable[tuple[Window, bytes]]) -> tuple[Finding, ...]:
    """Findings about bytes that were read: short, not finite, or zero in every window of a tensor."""
    by_tensor: dict[tuple[str, str], list[tuple[Window, bytes]]] = {}
    for window, data in samples:
        by_tensor.setdefault((window.file, window.tensor), []).append((window, data))
    found = [_tensor_finding(file, tensor, parts) for (file, tensor), parts in by_tensor.items()]
    return tuple(item for item in found if item is not None)


def _tensor_finding(file: str, tensor: str, parts: Sequence[tuple[Window, bytes]]) -> Finding | None:
    name = f"tensor {shown(printable(tensor))}"
    if any(len(data) < window.length for window, data in parts):
        return _finding(file, f"{name} cannot be read to its end")
    if any(not finite(window.dtype, data) for window, data in parts):
        return _finding(file, f"{name} has values that are not finite in a sample of {_bytes(parts)} bytes")
    if not any(any(data) for _, data in parts):
        return _finding(file, f"{name} is all zero in a sample of {_bytes(parts)} bytes")
    return None


def _bytes(parts: Sequence[tuple[Window, bytes]]) -> int:
    return sum(len(data) for _, data in parts)


def _finding(file: str, message: str) -> Finding:
    return Finding("checkpoint-sample-bad", "error", file, message, _FETCH, _SOURCE)


def finite(dtype: str, data: bytes) -> bool:
    """Whether every value is finite. Integers and packed formats always are."""
    if dtype in _NOT_FINITE_BYTES:
        return not data.translate(None, _complement(_NOT_FINITE_BYTES[dtype]))
    if dtype not in _EXPONENTS:
        return True
    code, mask = _EXPONENTS[dtype]
    values = array(code)
    values.frombytes(data[: len(data) - len(data) % values.itemsize])
    return not any(value & mask == mask for value in values)


def _complement(kept: bytes) -> bytes:
    return bytes(byte for byte in range(256) if byte not in kept)


def samples_of(headers: Mapping[str, Header], tensors: int = 4) -> tuple[Window, ...]:
    """Windows for every file of a checkpoint."""
    return tuple(window for header in headers.values() for window in plan_samples(header, tensors))
