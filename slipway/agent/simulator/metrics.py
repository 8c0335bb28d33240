"""Prometheus metrics under the names and labels of SGLang 0.5.13, from pages of a real engine."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence

SECONDS = (
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    2.0,
    4.0,
    6.0,
    8.0,
    10.0,
    20.0,
    40.0,
    60.0,
    80.0,
    100.0,
    200.0,
    400.0,
)
STEPS = (
    0.002,
    0.004,
    0.006,
    0.008,
    0.01,
    0.015,
    0.02,
    0.025,
    0.03,
    0.035,
    0.04,
    0.06,
    0.08,
    0.1,
    0.2,
    0.4,
    1.0,
)
MILLISECONDS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0)
TOKENS = (
    100.0,
    300.0,
    500.0,
    700.0,
    1000.0,
    1500.0,
    2000.0,
    3000.0,
    4000.0,
    5000.0,
    10000.0,
    20000.0,
    40000.0,
)

BUCKETS: dict[str, Sequence[float]] = {
    "time_to_first_token_seconds": SECONDS,
    "e2e_request_latency_seconds": SECONDS,
    "queue_time_seconds": SECONDS,
    "inter_token_latency_seconds": STEPS,
    "prompt_tokens_histogram": TOKENS,
    "generation_tokens_histogram": TOKENS,
    "kv_transfer_latency_ms": MILLISECONDS,
    "kv_transfer_bootstrap_ms": MILLISECONDS,
    "kv_transfer_alloc_ms": MILLISECONDS,
    "kv_transfer_total_mb": (1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 10000.0),
    "kv_transfer_speed_gb_s": (0.1, 0.5, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0),
}
# These come from the scheduler process, which labels them with its rank.
RANKED = frozenset({"queue_time_seconds", *(name for name in BUCKETS if name.startswith("kv_transfer"))})
RANK = {"moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Counts in buckets, a sum and a count."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics:
    """The counters and histograms of one engine; gauges are read when the page is asked for."""

    def __init__(self, engine_type: str, model_name: str) -> None:
        self._base = {"engine_type": engine_type, "model_name": model_name}
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, Histogram] = {}

    def count(self, name: str, value: float = 1.0) -> None:
        """Add to a counter of the engine."""
        self._add(name, self._base, value)

    def http(self, endpoint: str, method: str, status: int) -> None:
        """Count one HTTP exchange."""
        labels = {"endpoint": endpoint, "method": method}
        self._add("http_requests_total", labels, 1)
        self._add("http_responses_total", {**labels, "status_code": str(status)}, 1)

    def observe(self, name: str, value: float) -> None:
        """Put a value into a histogram."""
        if name not in self._histograms:
            self._histograms[name] = Histogram(BUCKETS[name])
        self._histograms[name].observe(value)

    def page(self, gauges: Mapping[str, float]) -> str:
        """The text of /metrics."""
        lines: list[str] = []
        for name, values in self._counters.items():
            lines += head(name, "counter")
            lines += [f"sglang:{name}{render(dict(labels))} {value}" for labels, value in values.items()]
        for name, histogram in self._histograms.items():
            lines += head(name, "histogram")
            lines += histogram_lines(name, self._labels(name), histogram)
        for name, value in gauges.items():
            lines += [*head(name, "gauge"), f"sglang:{name}{render({**self._base, **RANK})} {value}"]
        return "\n".join(lines) + "\n"

    def _labels(self, name: str) -> dict[str, str]:
        return {**self._base, **RANK} if name in RANKED else self._base

    def _add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        values = self._counters.setdefault(name, {})
        key = tuple(sorted(labels.items()))
        values[key] = values.get(key, 0.0) + value


def head(name: str, kind: str) -> Iterable[str]:
    """The two comment lines before a metric."""
    return (f"# HELP sglang:{name} Simulated.", f"# TYPE sglang:{name} {kind}")


def render(labels: Mapping[str, str]) -> str:
    """{a="b",c="d"}, sorted by name as the client library does."""
    return "{" + ",".join(f'{name}="{escape(labels[name])}"' for name in sorted(labels)) + "}"


def escape(value: str) -> str:
    """A label value may hold neither a bare quote nor a line end."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def histogram_lines(name: str, labels: Mapping[str, str], histogram: Histogram) -> list[str]:
    """The sum, the cumulative buckets and the count."""
    lines = [f"sglang:{name}_sum{render(labels)} {histogram.total}"]
    running = 0
    for index, count in enumerate(histogram.counts):
        running += count
        bound = str(histogram.bounds[index]) if index < len(histogram.bounds) else "+Inf"
        lines.append(f"sglang:{name}_bucket{render({**labels, 'le': bound})} {float(running)}")
    return [*lines, f"sglang:{name}_count{render(labels)} {float(running)}"]
