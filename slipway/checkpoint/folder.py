"""Reading a local folder: its small files and the headers of its weight files.

The one place here with a disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slipway.checkpoint.headers import LONGEST, header_length
from slipway.checkpoint.hub import LARGEST_SMALL_FILE, small_files
from slipway.checkpoint.index import SUFFIX
from slipway.checkpoint.sample import Window
from slipway.checkpoint.structure import Folder


def read_folder(path: str | Path) -> Folder:
    """The folder as data. A file that cannot be read counts as empty, so that the checks report it.

    Reads, of each weight file, the length and the header only.
    """
    root = Path(path)
    found = sorted(root.iterdir()) if root.is_dir() else []
    sizes = {entry.name: _size(entry) for entry in found if entry.is_file()}
    files = {name: _start(root / name, LARGEST_SMALL_FILE) for name in small_files(sizes)}
    headers = {name: _header(root / name) for name in sizes if name.endswith(SUFFIX)}
    return Folder(files, sizes, headers)


def read_windows(path: str | Path, windows: Iterable[Window]) -> tuple[tuple[Window, bytes], ...]:
    """The bytes of each window; fewer where the file ends early or cannot be read."""
    return tuple((window, _part(Path(path) / window.file, window)) for window in windows)


def _part(file: Path, window: Window) -> bytes:
    try:
        with file.open("rb") as stream:
            stream.seek(window.offset)
            return stream.read(window.length)
    except OSError:
        return b""


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _start(file: Path, most: int) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(most)
    except OSError:
        return b""


def _header(file: Path) -> bytes:
    """The length and the header; only the length when it cannot be right."""
    try:
        with file.open("rb") as stream:
            first = stream.read(8)
            length = header_length(first)
            return first + (stream.read(length) if 0 < length <= LONGEST else b"")
    except OSError:
        return b""
