"""The command line: SGLang's flags, and --list-faults."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .faults import fault_table
from .lifecycle import main_loop
from .settings import SettingsError, from_process

USAGE = """usage: python -m slipway.agent.simulator --model-path DIR --host H --port P [any SGLang flag]

DIR holds config.json and, if it shall know answers, known_answers.json: [{"question": ..., "answer": ...}].
Environment: SLIPWAY_SIM_RELEASE (0.5.13), SLIPWAY_SIM_LOAD_S (0.3), SLIPWAY_SIM_WARMUP_S (0.2),
SLIPWAY_SIM_DRAIN_TICK_S (0.1), SLIPWAY_SIM_TIMING (JSON, see settings.Timing), SLIPWAY_SIM_FAULTS
(name,name=value; --list-faults prints them), SGLANG_HOST_IP, SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT (300)."""


def main(argv: Sequence[str]) -> int:
    """Run one simulated engine until it is stopped."""
    if "--list-faults" in argv:
        print(fault_table())
        return 0
    if "--help" in argv or "-h" in argv:
        print(USAGE)
        return 0
    try:
        settings = from_process(argv)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return main_loop(settings)
