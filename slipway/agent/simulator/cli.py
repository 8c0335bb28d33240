"""The command line: SGLang's flags, and --list-faults."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .faults import fault_table
from .lifecycle import main_loop
from .settings import SettingsError, from_process


def main(argv: Sequence[str]) -> int:
    """Run one simulated engine until it is stopped."""
    if "--list-faults" in argv:
        print(fault_table())
        return 0
    try:
        settings = from_process(argv)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return main_loop(settings)
