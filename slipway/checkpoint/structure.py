"""Whether the files of a folder belong together: index, headers, dtypes, tokenizer.

Reads headers, never weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slipway.checkpoint.dtypes import stored_as_declared
from slipway.checkpoint.fields import printable, shown
from slipway.checkpoint.headers import Header, read_header
from slipway.checkpoint.index import SUFFIX, Index
from slipway.checkpoint.model import Checkpoint, read_with_index
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
    checkpoint, index = read_with_index(folder.files, folder.sizes, name)
    parsed = [read_header(file, raw, folder.sizes.get(file, 0)) for file, raw in sorted(folder.headers.items())]
    headers = {header.file: header for header, _ in parsed if header is not None}
    found = [*checkpoint.findings, *(item for _, items in parsed for item in items)]
    found += _files_present(index, folder, name)
    found += _index_and_headers(index, headers) if index is not None else []
    found += stored_as_declared(checkpoint, headers)
    found += _tokenizer(checkpoint, folder)
    return Inspection(checkpoint, headers, tuple(dict.fromkeys(found)))


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
    held: dict[str, str] = {}
    for file, header in headers.items():
        held.update(dict.fromkeys(header.names, file))
    if held == index.weight_map:
        return _total(index, headers)
    absent = [name for name, file in index.weight_map.items() if file in headers and held.get(name) != file]
    extra = [name for name in held if name not in index.weight_map]
    told = "the index names tensors that their file does not hold"
    found = [_names(index, "error", absent, told)] if absent else []
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
    held = sum(sum(headers[file].ends) - sum(headers[file].begins) for file in index.shards)
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
