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
    Metric("tok_s_per_user.median", "tok/s a user (1 / median TPOT)", "tok/s", True),
    Metric("total_throughput_per_gpu_all", "total tok/s per GPU, all GPUs", "tok/s", True),
    Metric("output_throughput_per_gpu_all", "output tok/s per GPU, all GPUs", "tok/s", True),
    Metric("output_throughput_per_gpu_decode", "output tok/s per GPU, decode GPUs", "tok/s", True),
    Metric("input_throughput_per_gpu_prefill", "input tok/s per GPU, prefill GPUs", "tok/s", True),
    Metric("goodput.request_goodput", "requests/s within the SLOs", "1/s", True, 2),
    *_percentiles("ttft", "TTFT"),
    *_percentiles("tpot", "TPOT", 2),
    *_percentiles("itl", "ITL", 2),
    *_percentiles("e2e_latency", "E2E"),
    Metric("accept_length", "tokens accepted a step", "", True, 2),
    Metric("cached_token_rate", "cached tokens, share of input", "", None, 3),
    Metric("server.gen_throughput_mean", "server's own gen tok/s, mean", "tok/s", None),
    Metric("server.kv_transfer_ms_mean", "KV transfer, mean", "ms", False, 2),
    Metric("server.transfer_failures", "KV transfers that failed", "", False, 0),
    Metric("gpu.power_w_mean", "GPU power, mean", "W", None, 0),
    Metric("gpu.energy_j_per_output_token", "GPU energy an output token", "J", False, 3),
    Metric("gpu.utilisation_mean", "GPU utilisation, mean", "", None, 2),
    Metric("client.cpu_share_max", "client CPU, busiest process's share of a core", "", None, 2),
)
BY_KEY: Mapping[str, Metric] = {metric.key: metric for metric in METRICS}


def shown(metric: Metric, value: float) -> str:
    """A value as tables show it; the unit stands in the title's column."""
    return f"{value:,.{metric.digits}f}"
