"""Where the lab keeps its files: outside the source tree, so that no checkout carries 300 MB of Debian."""

from __future__ import annotations

import os
from pathlib import Path

UNSAFE = set(" ,:\\")  # each would end a word or a layer in overlayfs' mount options


def staging() -> Path:
    """The folder for everything of the lab, below the user's cache."""
    cache = os.environ.get("SLIPWAY_CACHE") or ""
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = (Path(cache) if cache else Path(xdg) / "slipway").absolute() / "staging"
    if UNSAFE & set(str(path)):
        raise RuntimeError(f"{path}: overlayfs cannot use a path with a space, comma, colon or backslash; "
                           "set SLIPWAY_CACHE to a plain one")  # fmt: skip
    return path


def runs() -> Path:
    """One folder per running lab."""
    return staging() / "run"
