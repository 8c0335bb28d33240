"""How long a plan of 256 hosts x 8 GPUs takes: python benchmarks/plan.py [HOSTS].

Half of the hosts run prefill, half decode; each has a host_vars file with its address, as a real fleet has. Counted
is everything that `slipway plan` does after its imports: YAML, merging, validation, checkpoint, placement, backends,
memory, flags, rules. Needed: at most 1 s for 256 hosts (issue 4 item 10).
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
  tp: 8
  mem_fraction_static: 0.85
  server_args: {{enable_metrics: true}}
"""


def write(folder: Path, hosts: int, addressed: bool) -> dict[str, list[str]]:
    """An inventory of `hosts` hosts; its groups."""
    for name in ("group_vars", "host_vars"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "group_vars/all.yml").write_text(ALL)
    (folder / "group_vars/decode.yml").write_text("decode: {port: 30100, max_running_requests: 256}\n")
    names = [f"gpu{index:03}" for index in range(hosts)]
    for index, name in enumerate(names if addressed else []):
        (folder / f"host_vars/{name}.yml").write_text(f"address: 10.0.{index // 250}.{index % 250 + 1}\n")
    return {"prefill": names[::2], "decode": names[1::2], "router": names[:1]}


def measure(hosts: int, addressed: bool) -> dict[str, float]:
    """Seconds of one run, by part."""
    with tempfile.TemporaryDirectory() as place:
        groups = write(Path(place), hosts, addressed)
        began = time.perf_counter()
        opened = open_groups(Path(place) / "inventory.py", groups, {})
        loaded = time.perf_counter()
        plan = opened.plan({})
        planned = time.perf_counter()
        size = len(json.dumps(to_json(plan)))
        recorded = time.perf_counter()
    workers = len(plan.of("prefill", "decode"))
    assert workers == hosts, (workers, [finding for finding in plan.errors][:3])
    return {"load": loaded - began, "plan": planned - loaded, "JSON": recorded - planned, "MB": size / 1e6}


def main(hosts: int) -> int:
    """Print the figures of the best of three runs; 1 when they are too slow."""
    slow = False
    for addressed in (False, True):
        best = min((measure(hosts, addressed) for _ in range(3)), key=lambda run: run["load"] + run["plan"])
        total = best["load"] + best["plan"]
        what = "host_vars for each" if addressed else "group_vars only"
        print(
            f"{hosts} hosts x 8 GPUs, {what}: {total:.2f} s (configuration {best['load']:.2f}, plan {best['plan']:.2f}); "
            f"as JSON {best['JSON']:.2f} s more, {best['MB']:.1f} MB"
        )
        slow = slow or total > 1
    return int(slow)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 256))
