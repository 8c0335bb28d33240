"""The safetensors index: which file holds which tensor, and how many bytes there are in all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.checkpoint.fields import LARGEST, Fields, printable, shown
from slipway.checkpoint.tables import table
from slipway.finding import Finding

SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Index:
    """One index file. total_size in bytes, 0 when the index does not say. weight_map.

    Tensor name -> file name.
    """

    file: str
    total_size: int
    weight_map: Mapping[str, str] = field(repr=False)

    @property
    def shards(self) -> tuple[str, ...]:
        """The files that the index names, in order."""
        return tuple(sorted(set(self.weight_map.values())))


def index_name(names: Iterable[str]) -> str:
    """The index among file names: the standard one first; "" when there is none."""
    found = sorted(name for name in names if name.endswith(".safetensors.index.json") and "/" not in name)
    standard = "model.safetensors.index.json"
    return standard if standard in found else next(iter(found), "")


def read_index(file: str, document: Mapping[str, Any], found: list[Finding]) -> Index:
    """The index; entries that are no names become one finding."""
    fields = Fields(document, file, found)
    entries = fields.raw("weight_map")
    if not isinstance(entries, dict) or not entries:
        message = f"weight_map: got {shown(entries)}; must be an object that maps tensors to files"
        found.append(Finding("checkpoint-index-empty", "error", file, message, f"fetch {file} again"))
        return Index(file, 0, {})
    good = _good_entries(entries)
    if len(good) < len(entries):
        odd = next(printable(name) for name in entries if name not in good)
        message = f"{len(entries) - len(good)} entries of weight_map name no file of this folder, e.g. {shown(odd)}"
        found.append(Finding("checkpoint-index-entry", "error", file, message, f"fetch {file} again"))
    return Index(file, fields.section("metadata").integer("total_size"), good)


def _good_entries(entries: dict[str, Any]) -> dict[str, str]:
    """The entries that name a file; each distinct name is looked at once."""
    texts = {target for target in entries.values() if isinstance(target, str)}
    names = {target for target in texts if _is_file_name(target)}
    if names == texts and set(map(type, entries.values())) == {str}:
        return entries
    return {name: target for name, target in entries.items() if isinstance(target, str) and target in names}


def _is_file_name(target: str) -> bool:
    """A plain file name: an index never points outside its folder."""
    if not target.isprintable() or len(target) > 255:
        return False
    return bool(target) and "/" not in target and "\\" not in target and not target.startswith("..")


def total_bytes(index: Index | None, sizes: Mapping[str, int]) -> int:
    """Bytes of all weights: the index's own figure, else the sizes of the weight files."""
    if index is not None and index.total_size > 0:
        return index.total_size
    wanted = set(index.shards) if index is not None else {name for name in sizes if _is_weight(name)}
    return min(sum(max(sizes.get(name, 0), 0) for name in wanted), LARGEST)


def _is_weight(name: str) -> bool:
    return name.endswith(SUFFIX) and "/" not in name


def count_shards(index: Index | None, sizes: Mapping[str, int]) -> int:
    """Number of weight files."""
    return len(index.shards) if index is not None else sum(_is_weight(name) for name in sizes)


def expert_hint(names: Collection[str]) -> str:
    """The scheme that the names of expert tensors give away (name_hints of quantization.yml); "" for none."""
    for row in table("quantization")["name_hints"]:
        suffix = str(row["suffix"])
        if any(name.endswith(suffix) and _is_routed(name) for name in names):
            return str(row["scheme"])
    return ""


def _is_routed(name: str) -> bool:
    """A routed expert of a main layer.

    The extra prediction layers (`mtp.*`) may be kept in another format.
    """
    return ".experts." in name and not name.startswith("mtp.")
