"""Whether the files of a folder belong together: index, headers, dtypes, tokenizer.

Reads headers, never weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slipway.checkpoint.dtypes import stored_as_declared
from slipway.checkpoint.fields import parse_json, printable, shown
from slipway.checkpoint.headers import Header, read_header
from slipway.checkpoint.index import SUFFIX, Index, index_name, read_index
from slipway.checkpoint.model import Checkpoint, read_checkpoint
from slipway.finding import Finding, Severity

_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "tiktoken.model",
    "vocab.json",
    "tekken.json",
    "spiece.model",
)
_NUMBERED = re.compile(r"-(\d{5})-of-(\d{5})\.safetensors$")
_FETCH = "fetch the missing files of the same revision; the download was not complete"


@dataclass(frozen=True)
class Folder:
    """A folder as data. files: small files by name. sizes: bytes of every file. headers.

    Each weight file's start.
    """

    files: Mapping[str, str | bytes]
    sizes: Mapping[str, int]
    headers: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Inspection:
    """A folder read and checked. headers: those that parse. findings.

    Of files, structure and quantization.
    """

    checkpoint: Checkpoint
    headers: Mapping[str, Header] = field(repr=False)
    findings: tuple[Finding, ...]


def inspect(folder: Folder, name: str = "checkpoint") -> Inspection:
    """The checkpoint of a folder with every finding about it. name: for findings."""
    checkpoint = read_checkpoint(folder.files, folder.sizes, name)
    parsed = [read_header(file, raw, folder.sizes.get(file, 0)) for file, raw in sorted(folder.headers.items())]
    headers = {header.file: header for header, _ in parsed if header is not None}
    found = [*checkpoint.findings, *(item for _, items in parsed for item in items)]
    index = _index_of(folder)
    found += _files_present(index, folder, name)
    found += _index_and_headers(index, headers) if index is not None else []
    found += stored_as_declared(checkpoint, headers)
    found += _tokenizer(checkpoint, folder)
    return Inspection(checkpoint, headers, tuple(dict.fromkeys(found)))


def _index_of(folder: Folder) -> Index | None:
    file = index_name(folder.files)
    if not file:
        return None
    ignored: list[Finding] = []  # read_checkpoint has reported them
    return read_index(file, parse_json(file, folder.files[file], ignored), ignored)


def _files_present(index: Index | None, folder: Folder, name: str) -> list[Finding]:
    """Every file that the index or the numbering promises. An older SGLang starts without a missing shard."""
    wanted = set(index.shards) if index is not None else set()
    wanted |= _numbered(folder.sizes)
    missing = sorted(wanted - set(folder.sizes))
    if missing:
        message = f"{len(missing)} of {len(wanted)} weight files are missing, e.g. {missing[0]}"
        source = "reported_faults.md 54: older SGLang drops a missing shard silently and answers garbage"
        return [Finding("checkpoint-shard-missing", "error", missing[0], message, _FETCH, source)]
    if not wanted and not any(file.endswith(SUFFIX) for file in folder.sizes):
        message = "there are no safetensors files"
        return [Finding("checkpoint-weights-missing", "error", name, message, _FETCH, "issue 6 item 4")]
    return []


def _numbered(names: Iterable[str]) -> set[str]:
    """All names of each numbered series, from any one of its members.

    A series of over 10,000 is no series.
    """
    series = {(match[2], name[: match.start()]) for name in names if (match := _NUMBERED.search(name))}
    return {
        f"{stem}-{number:05d}-of-{total}{SUFFIX}"
        for total, stem in series
        if int(total) <= 10_000 and "/" not in stem
        for number in range(1, int(total) + 1)
    }


def _index_and_headers(index: Index, headers: Mapping[str, Header]) -> list[Finding]:
    """Each tensor in the file that the index names, none left over, and the sizes adding up."""
    held = {file: {tensor.name for tensor in header.tensors} for file, header in headers.items()}
    absent = [name for name, file in index.weight_map.items() if file in held and name not in held[file]]
    extra = [name for file, names in held.items() for name in names if name not in index.weight_map]
    found = []
    if absent:
        found.append(_names(index, "error", absent, "the index names tensors that their file does not hold"))
    if extra:
        found.append(_names(index, "warning", extra, "files hold tensors that the index does not name"))
    return found + _total(index, headers)


def _names(index: Index, severity: Severity, names: list[str], what: str) -> Finding:
    message = f"{what}: {len(names)}, e.g. {shown(printable(min(names)))}"
    fix = "fetch the index and the weight files of one revision"
    return Finding("checkpoint-index-disagrees", severity, index.file, message, fix, "issue 6 item 4")


def _total(index: Index, headers: Mapping[str, Header]) -> list[Finding]:
    if index.total_size <= 0 or set(index.shards) - set(headers):
        return []
    held = sum(tensor.end - tensor.begin for file in index.shards for tensor in headers[file].tensors)
    if held == index.total_size:
        return []
    message = f"metadata.total_size is {index.total_size} bytes, the tensors have {held}"
    fix = "none needed when the files' hashes are right: some publishers count otherwise"
    return [Finding("checkpoint-total-differs", "note", index.file, message, fix, "issue 6 item 4")]


def _tokenizer(checkpoint: Checkpoint, folder: Folder) -> list[Finding]:
    found = []
    if not any(name in folder.sizes or name in folder.files for name in _TOKENIZERS):
        message = f"there is no tokenizer: none of {', '.join(_TOKENIZERS)}"
        found.append(
            Finding("checkpoint-tokenizer-missing", "error", checkpoint.name, message, _FETCH, "issue 6 item 4")
        )
    if not checkpoint.chat_template:
        message = "no chat template in tokenizer_config.json, chat_template.jinja or chat_template.json"
        fix = "fetch chat_template.jinja, or pass one by server_args; /v1/completions works without"
        found.append(Finding("checkpoint-template-missing", "warning", checkpoint.name, message, fix, "issue 6 item 4"))
    return found
