"""What is measured: name, title, unit, and which way is better. Keys are those of SGLang's own benchmark.

TPOT is (E2E - TTFT) / (tokens - 1) of a request; ITL the gaps between chunks. Per GPU always names its denominator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One figure of a cell. higher: whether more is better; None where neither is."""

    key: str
    title: str
    unit: str
    higher: bool | None
    digits: int = 1


def _percentiles(stem: str, title: str, digits: int = 1) -> tuple[Metric, ...]:
    names = (("mean", "mean"), ("median", "median"), ("p90", "p90"), ("p99", "p99"))
    return tuple(Metric(f"{key}_{stem}_ms", f"{title} {name}", "ms", False, digits) for key, name in names)


METRICS: tuple[Metric, ...] = (
    Metric("output_throughput", "output tok/s", "tok/s", True),
    Metric("total_throughput", "total tok/s", "tok/s", True),
    Metric("input_throughput", "input tok/s", "tok/s", True),
    Metric("request_throughput", "requests/s", "1/s", True, 2),
    Metric("user_throughput", "tok/s a user (1 / median TPOT)", "tok/s", True),
    Metric("total_throughput_per_gpu", "total tok/s per GPU, all GPUs", "tok/s", True),
    Metric("output_throughput_per_gpu", "output tok/s per GPU, decode GPUs", "tok/s", True),
    Metric("input_throughput_per_gpu", "input tok/s per GPU, prefill GPUs", "tok/s", True),
    Metric("goodput", "requests/s within the SLOs", "1/s", True, 2),
    *_percentiles("ttft", "TTFT"),
    *_percentiles("tpot", "TPOT", 2),
    *_percentiles("itl", "ITL", 2),
    *_percentiles("e2e_latency", "E2E"),
    Metric("accept_length", "tokens accepted a step", "", True, 2),
    Metric("cached_token_rate", "cached tokens, share of input", "", None, 3),
    Metric("server_gen_throughput", "server's own gen tok/s", "tok/s", None),
    Metric("kv_transfer_ms", "KV transfer, mean", "ms", False),
    Metric("kv_transfer_failures", "KV transfers that failed", "", False, 0),
    Metric("gpu_power_w", "GPU power, mean of all", "W", None, 0),
    Metric("gpu_utilisation", "GPU utilisation, mean of all", "", None, 2),
    Metric("client_cpu", "client CPU, share of its cores", "", None, 2),
)
BY_KEY: Mapping[str, Metric] = {metric.key: metric for metric in METRICS}

_PER_GPU = {
    "total_throughput_per_gpu": ("total_throughput", "gpus_all"),
    "output_throughput_per_gpu": ("output_throughput", "gpus_decode"),
    "input_throughput_per_gpu": ("input_throughput", "gpus_prefill"),
}


def with_derived(values: Mapping[str, float]) -> dict[str, float]:
    """The figures with those that follow from them; none where the denominator is not known or there is no GPU."""
    found = dict(values)
    for key, (total, gpus) in _PER_GPU.items():
        if key not in found and total in values and values.get(gpus, 0) > 0:
            found[key] = values[total] / values[gpus]
    if "user_throughput" not in found and values.get("median_tpot_ms", 0) > 0:
        found["user_throughput"] = 1000 / values["median_tpot_ms"]
    return found


def shown(metric: Metric, value: float) -> str:
    """A value as tables show it; the unit stands in the title's column."""
    return f"{value:,.{metric.digits}f}"
