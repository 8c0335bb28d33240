"""Locks: requirements files in which every package has a version and hashes, so that any host installs the same.

A lock ships with a recipe, is named by `engine.lock`, or is resolved once on the controller (slipway/agent/resolve.py)
and kept beside the inventory under the key of all that decides it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)\s*(?:;[^\\]*?)?((?:\s*--hash=\w+:\w+)*)")
KEPT = ".slipway/locks"  # beside the inventory, to be committed with it


@dataclass(frozen=True)
class LockRequest:
    """All that decides a lock that has to be resolved.

    requirements: lines that are asked for. pins: NAME==VERSION that stand already, of the recipe's lock, with which
    the rest must agree. dropped: packages that come from elsewhere, which the lock must not have.
    """

    requirements: tuple[str, ...]
    pins: tuple[str, ...]
    constraints: tuple[str, ...]
    dropped: tuple[str, ...]
    python: str
    machine: str
    index_url: str | None = None
    extra_index_url: str | None = None
    find_links: str | None = None

    @property
    def key(self) -> str:
        """Sixteen hex digits: the name of the file that keeps the lock."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Locks:
    """What is known of locks. named: text by `engine.lock`, None where there is no such file. kept: text by key."""

    named: Mapping[str, str | None] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)


def normal(name: str) -> str:
    """A package name as all its spellings compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(text: str) -> Iterator[str]:
    """The lines of a requirements file, continued ones joined, without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        words = " ".join(re.sub(r"(^|\s)#.*", "", line).split())
        if words:
            yield words


def wrong_entries(text: str) -> list[str]:
    """Entries that are no NAME==VERSION with hashes behind it: a lock reads no other file and names no address."""
    return [entry for entry in entries(text) if not LINE.fullmatch(entry)]


def unhashed(text: str) -> list[str]:
    """Entries without a hash."""
    return [entry for entry in entries(text) if "--hash=" not in entry]


def name_of(entry: str) -> str:
    """The package of an entry."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", entry)
    return normal(match[0]) if match else ""


def written(kept: Iterable[str]) -> str:
    """Entries as a requirements file, which is the same for equal locks however they were laid out."""
    return "".join(entry.replace(" --hash=", " \\\n    --hash=") + "\n" for entry in kept)


def without(text: str, names: Iterable[str]) -> str:
    """A lock but for some packages."""
    gone = {normal(name) for name in names}
    return written(entry for entry in entries(text) if name_of(entry) not in gone)


def with_hashes(text: str, hashes: Mapping[tuple[str, str], list[str]]) -> str:
    """A lock whose entries without a hash get those of the wheels; hashes: by (name, version without local part)."""
    return written(_hashed(entry, hashes) for entry in entries(text))


def _hashed(entry: str, hashes: Mapping[tuple[str, str], list[str]]) -> str:
    match = LINE.fullmatch(entry)
    if match is None or match[3]:
        return entry
    found = hashes.get((normal(match[1]), match[2].partition("+")[0]), [])
    return " ".join([entry, *(f"--hash=sha256:{digest}" for digest in sorted(found))])
