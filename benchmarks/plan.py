"""How long a plan of 256 hosts x 8 GPUs takes: python benchmarks/plan.py [HOSTS].

Each host runs one prefill and one decode of 4 GPUs, or half of the hosts run a prefill of 8 and half a decode of 8;
with and without a host_vars file for each host. Counted is everything that `slipway plan` does after its imports: YAML,
merging, validation, checkpoint, placement, backends, memory, flags, rules. The first run reads Slipway's own tables as
well, as each `slipway plan` does. Needed: at most 1 s for 256 hosts (issue 4 item 10).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from slipway.front import open_groups
from slipway.plan.model import to_json

CHECKPOINT = Path(__file__).resolve().parent.parent / "tests/data/checkpoints/deepseek-v4-flash-nvfp4"
ALL = f"""
deployment: fleet
hardware: 8xH200
engine: {{version: 0.5.23}}
model: {{host_path: /models/DeepSeek-V4-Flash-NVFP4, facts: {CHECKPOINT}}}
worker:
  tp: TP
  mem_fraction_static: 0.85
  server_args: {{enable_metrics: true}}
"""


def write(folder: Path, hosts: int, addressed: bool, paired: bool) -> dict[str, list[str]]:
    """An inventory of `hosts` hosts; its groups."""
    for name in ("group_vars", "host_vars"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "group_vars/all.yml").write_text(ALL.replace("TP", "4" if paired else "8"))
    (folder / "group_vars/decode.yml").write_text("decode: {port: 30100, max_running_requests: 256}\n")
    names = [f"gpu{index:03}" for index in range(hosts)]
    for index, name in enumerate(names if addressed else []):
        (folder / f"host_vars/{name}.yml").write_text(f"address: 10.0.{index // 250}.{index % 250 + 1}\n")
    prefill, decode = (names, names) if paired else (names[::2], names[1::2])
    return {"prefill": prefill, "decode": decode, "router": names[:1]}


def measure(hosts: int, addressed: bool, paired: bool) -> dict[str, float]:
    """Seconds of one run, by part."""
    with tempfile.TemporaryDirectory() as place:
        groups = write(Path(place), hosts, addressed, paired)
        began = time.perf_counter()
        opened = open_groups(Path(place) / "inventory.py", groups, {})
        loaded = time.perf_counter()
        plan = opened.plan({})
        planned = time.perf_counter()
        size = len(json.dumps(to_json(plan)))
        recorded = time.perf_counter()
    workers = len(plan.of("prefill", "decode"))
    assert workers == hosts * (1 + paired), (workers, plan.errors[:3])
    return {"load": loaded - began, "plan": planned - loaded, "JSON": recorded - planned, "MB": size / 1e6}


def show(what: str, run: dict[str, float]) -> bool:
    """Print one run; whether it was too slow."""
    total = run["load"] + run["plan"]
    parts = f"configuration {run['load']:.2f}, plan {run['plan']:.2f}; JSON {run['JSON']:.2f} more, {run['MB']:.1f} MB"
    print(f"{what:<56} {total:.2f} s ({parts})")
    return total > 1


def main(hosts: int) -> int:
    """Print the first run and the best of three of each shape; 1 when one is too slow."""
    print(f"{hosts} hosts x 8 GPUs")
    slow = [show("first run, tables included: pair a host, host_vars", measure(hosts, True, True))]
    for paired in (True, False):
        for addressed in (True, False):
            runs = [measure(hosts, addressed, paired) for _ in range(3)]
            shape = "prefill + decode on each host" if paired else "prefill or decode on each host"
            files = "host_vars for each" if addressed else "group_vars only"
            slow.append(show(f"{shape}, {files}", min(runs, key=lambda run: run["load"] + run["plan"])))
    return int(any(slow))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 256))
