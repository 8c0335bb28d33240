"""Samples the GPUs of a host once a second until it is stopped: power, utilisation, memory, clock, temperature.

usage: bench_gpu FILE DEADLINE_S    appends lines `unix seconds, index, W, %, MiB, MHz, C` to FILE

The units are nvidia-smi's own (`--help-query-gpu`); what a GPU does not report it prints as [N/A], which is kept.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

QUERY = "index,power.draw,utilization.gpu,memory.used,clocks.sm,temperature.gpu"
EVERY_S = 1


def command() -> list[str]:
    """One line a GPU, once a second."""
    return ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits", "-l", str(EVERY_S)]


def sample(path: str, deadline_s: float) -> int:
    """Append samples until the deadline; nvidia-smi's exit status when it ends by itself."""
    end = time.monotonic() + deadline_s
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="ascii", errors="replace") as file:
        child = subprocess.Popen(command(), stdout=subprocess.PIPE, text=True, errors="replace")
        assert child.stdout is not None
        for line in child.stdout:
            file.write(f"{time.time():.3f}, {line.strip()}\n")
            file.flush()
            if time.monotonic() > end:
                child.terminate()
                break
    return child.wait()


def main(arguments: list[str]) -> int:
    """Run one call; a host without nvidia-smi has nothing to sample."""
    try:
        return sample(arguments[0], float(arguments[1]))
    except FileNotFoundError:
        print("nvidia-smi is not on this host: its GPUs are not sampled", flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
