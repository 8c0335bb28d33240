"""How true the built-in client is: against the simulated engine, whose timing model is the truth.

usage: python benchmarks/client.py [--concurrency 1,64,256] [--output 128] [--rounds 3] [--step-ms 80]
                                   [--engine-python VENV/bin/python --tokenizer models/tiny]

For each concurrency a closed loop of `rounds` requests a stream. Printed: throughput over the model's
C * output / (prefill + (output - 1) * step), and of TTFT, TPOT and E2E the median and p99 over what the model says;
what the client used of a core, and how much of the time it was ready without one; and the mean TTFT and E2E over what
the engine itself counted in the same cell, which holds on a busy machine as well. With --engine-python the engine's own
benchmark measures the same engine in the same run. Exit status 1 when throughput is off by more than --bound (1 %).
A step is long so that the simulator, a Python process, is not what is measured at C=256: 256 / 0.08 = 3200 tokens/s.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slipway.agent import bench_engine, bench_metrics  # noqa: E402
from slipway.agent.load.cell import Cell, Client  # noqa: E402
from slipway.agent.load.prompts import vocabulary_of  # noqa: E402
from slipway.agent.load.target import Shape, target_of  # noqa: E402
from tests.slipway.agent.simulator.harness import Simulator, make_model  # noqa: E402

PREFILL_MS, INPUT = 200.0, 128
SHOWN = (("ttft", "median"), ("ttft", "p99"), ("tpot", "median"), ("tpot", "p99"), ("itl", "mean"),
         ("e2e_latency", "median"), ("e2e_latency", "p99"))  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", default="1,64,256")
    parser.add_argument("--output", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step-ms", type=float, default=80.0)
    parser.add_argument("--bound", type=float, default=0.01)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--engine-python")
    parser.add_argument("--tokenizer", default=str(ROOT / "models/tiny"))
    return parser.parse_args()


def truth(options: argparse.Namespace, concurrency: int) -> dict[str, float]:
    """What the timing model says, in tokens a second and milliseconds."""
    whole = PREFILL_MS + (options.output - 1) * options.step_ms
    step = options.step_ms
    times = {"ttft": PREFILL_MS, "tpot": step, "itl": step, "e2e_latency": whole}
    return {"output_throughput": concurrency * options.output / whole * 1000, **times}


def own(port: int, concurrency: int, options: argparse.Namespace) -> tuple[dict, dict]:
    """The cell, and what the engine had counted just before it."""
    client = Client(target_of(f"http://127.0.0.1:{port}"), vocabulary_of(None))
    shape = Shape("chat", "tiny", options.output, True, True, {})
    seed, prompts = f"{time.time()}", options.rounds * concurrency
    cell = Cell(shape, INPUT, concurrency, prompts, seed, processes=options.processes)
    words = client.calibrate(shape, INPUT, seed)
    before = bench_metrics.Asker().page(f"http://127.0.0.1:{port}") or {}
    return client.measure(cell, words, lambda *_: True), before


def engines(port: int, concurrency: int, options: argparse.Namespace, folder: Path) -> dict:
    engine = {
        "python": options.engine_python, "module": "sglang.bench_serving", "tokenizer": options.tokenizer,
        "env": {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"},
    }  # fmt: skip
    asked = {
        "engine": engine, "api": "chat", "url": f"http://127.0.0.1:{port}", "model": "tiny", "label": "client",
        "extra": {}, "ignore_eos": True, "slo": {},
    }  # fmt: skip
    cell = {"input": INPUT, "output": options.output, "concurrency": concurrency, "warmups": 1,
            "prompts": options.rounds * concurrency}  # fmt: skip
    return bench_engine.measure(asked, cell, f"{time.time()}", str(folder), "", lambda *_: True)


def counted(before: dict, port: int, cell: dict) -> dict[str, float]:
    """The client's means over those that the engine counted since `before`."""
    after = bench_metrics.Asker().page(f"http://127.0.0.1:{port}") or {}
    found = {}
    for kind, name in (("ttft", "time_to_first_token_seconds"), ("e2e_latency", "e2e_request_latency_seconds")):
        mean = bench_metrics.mean([(before, after)], name)
        found[kind] = (cell[f"mean_{kind}_ms"] or 0) / 1000 / mean if mean else float("nan")
    return found


def show(name: str, cell: dict, model: dict[str, float], seen: dict[str, float]) -> float:
    """A few lines; the throughput's ratio."""
    ratio = (cell["output_throughput"] or 0) / model["output_throughput"]
    times = [f"{kind} {what} {(cell[f'{what}_{kind}_ms'] or 0) / model[kind]:.4f}" for kind, what in SHOWN]
    used = cell["client"]
    print(f"{name}: throughput {ratio:.4f} of the model's {model['output_throughput']:.1f} tok/s, {cell['status']}")
    print(f"    {', '.join(times)}")
    print(
        "    against the engine's own count: " + ", ".join(f"mean {kind} {value:.4f}" for kind, value in seen.items())
    )
    print(
        f"    {cell['completed']} requests in {cell['duration']:.1f} s, {used['processes']} process(es), "
        f"{used['cpu_share_max']:.3f} of a core, {used['waited_share_max']:.3f} waited for one",
        *cell["reasons"], *cell["notes"], sep="; ", flush=True,
    )  # fmt: skip
    return ratio


def main() -> int:
    options, off = arguments(), []
    print(f"load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    timing = {"prefill_base_ms": PREFILL_MS, "prefill_ms_per_token": 0, "decode_ms": options.step_ms}
    with tempfile.TemporaryDirectory(prefix="slipway-client-") as name:
        folder = Path(name)
        model = make_model(folder / "model")
        simulator = Simulator(
            model, folder / "log", "", ("--enable-metrics",), {"SLIPWAY_SIM_TIMING": json.dumps(timing)}
        ).wait_ready()
        try:
            for concurrency in (int(number) for number in options.concurrency.split(",")):
                known = truth(options, concurrency)
                found, before = own(simulator.port, concurrency, options)
                seen = counted(before, simulator.port, found)
                ratio = show(f"built-in, C={concurrency}", found, known, seen)
                off += [concurrency] if abs(ratio - 1) > options.bound else []
                if options.engine_python:
                    before = bench_metrics.Asker().page(f"http://127.0.0.1:{simulator.port}") or {}
                    found = engines(simulator.port, concurrency, options, folder)
                    seen = counted(before, simulator.port, found)
                    show(f"engine's own, C={concurrency}", found, known, seen)
        finally:
            simulator.stop()
    print(f"off by more than {options.bound:.0%}: C={off}" if off else f"all within {options.bound:.0%}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
