"""Where tests keep what is costly to make: outside the tree, shared between runs and checkouts."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """$SLIPWAY_CACHE, else $XDG_CACHE_HOME/slipway, else ~/.cache/slipway."""
    if os.environ.get("SLIPWAY_CACHE"):
        return Path(os.environ["SLIPWAY_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slipway"
