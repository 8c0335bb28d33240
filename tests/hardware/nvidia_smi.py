"""Stands in for nvidia-smi where there is no GPU: answers as the pair of H200 did whose probe is in the test data."""

import json
import sys
from pathlib import Path

CAPTURED = json.loads((Path(__file__).parents[1] / "data/hardware/h200-pair.json").read_text())["nvidia_smi"]


def answer(words):
    """What the machine printed when it was asked that."""
    if words == ["-L"]:
        return "".join(line + "\n" for line in CAPTURED["nvlink"]["out"].splitlines() if line.startswith("GPU "))
    asked = " ".join(words)
    kinds = {"query-compute-apps": "apps", "topo -m": "topo", "-p2p": "p2p", "nvlink": "nvlink", "fabric": "fabric"}
    kind = next((name for part, name in kinds.items() if part in asked), "gpus" if "query-gpu" in asked else "summary")
    text = CAPTURED[kind]["out"]
    return text.partition("\n")[2] if "noheader" in asked else text


def install(folder):
    """A program of that name in `folder`, for PATH."""
    path = Path(folder) / "nvidia-smi"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} "$@"\n')
    path.chmod(0o755)


if __name__ == "__main__":
    sys.stdout.write(answer(sys.argv[1:]))
