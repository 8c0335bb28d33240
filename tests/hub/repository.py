"""Repositories as the Hub keeps them: files of a commit, large ones by sha256 and small ones by git's blob id."""

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One file of a commit. oid: git's blob id, of the pointer when the file is large. sha256: of large ones."""

    path: str
    size: int
    oid: str
    sha256: str = ""
    source: Path | None = field(default=None, compare=False)

    def row(self) -> dict:
        """As the tree listing tells it."""
        row = {"type": "file", "path": self.path, "size": self.size, "oid": self.oid}
        lfs = {"lfs": {"oid": self.sha256, "size": self.size, "pointerSize": 135}} if self.sha256 else {}
        return {**row, **lfs}

    @property
    def etag(self) -> str:
        return self.sha256 or self.oid


def blob_id(data: bytes) -> str:
    """What `git hash-object` prints."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry_of(root: Path, path: Path) -> Entry:
    name, size = path.relative_to(root).as_posix(), path.stat().st_size
    if path.suffix != ".safetensors":
        return Entry(name, size, blob_id(path.read_bytes()), source=path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 22), b""):
            digest.update(block)
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest.hexdigest()}\nsize {size}\n"
    return Entry(name, size, blob_id(pointer.encode()), digest.hexdigest(), path)


@dataclass
class Repository:
    """A model repository. token: who may read it ('' for anybody). gated: whether the token's owner was not let in."""

    name: str
    root: Path
    token: str = ""
    gated: bool = False
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.branches["main"] = self.commit()

    def commit(self) -> str:
        """Take the folder as it is now as a commit; its id."""
        paths = sorted(path for path in self.root.rglob("*") if path.is_file())
        entries = {entry.path: entry for entry in (entry_of(self.root, path) for path in paths)}
        listed = "\n".join(f"{name} {entry.oid}" for name, entry in entries.items())
        made = hashlib.sha1(listed.encode()).hexdigest()
        self.commits[made] = entries
        return made

    def resolve(self, revision: str) -> str:
        """The commit of a branch, or of a commit's own id; '' when there is none."""
        return self.branches.get(revision) or (revision if revision in self.commits else "")

    @cached_property
    def blobs(self) -> dict[str, Entry]:
        return {entry.sha256: entry for files in self.commits.values() for entry in files.values() if entry.sha256}


def bytes_of(entry: Entry, begin: int, count: int) -> bytes:
    with entry.source.open("rb") as file:
        return os.pread(file.fileno(), count, begin)
