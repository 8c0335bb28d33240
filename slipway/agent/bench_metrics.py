"""What the workers say of a cell: their Prometheus pages before, during and after it.

Names are those of SGLang 0.5.13 to 0.5.23 (captured pages, and the metrics table of its documentation). Counters and
histograms are taken as differences, gauges as they were seen. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from typing import Any

LINE = re.compile(r"^sglang:([A-Za-z0-9_:]+)(?:\{(.*)\})?\s+(\S+)")
LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
TIMEOUT_S, POST_TIMEOUT_S = 5.0, 30.0
# figure -> the counters that count it; releases differ in names, and a name that is not there counts nothing
COUNTERS = {
    "generation_tokens": ("generation_tokens_total",),
    "transfer_failures": ("num_transfer_failed_reqs_total",),
    "bootstrap_failures": ("num_bootstrap_failed_reqs_total",),
}
# figure -> histogram whose mean it is
MEANS = {
    "kv_transfer_ms_mean": "kv_transfer_latency_ms",
    "kv_transfer_gb_s_mean": "kv_transfer_speed_gb_s",
    "queue_s_mean": "queue_time_seconds",
}
GENERATING = ("decode", "unified")
PROMPTED = ("prefill", "unified")

Page = dict[str, list[tuple[dict[str, str], float]]]


def parse(text: str) -> Page:
    """Metric name -> its labelled values."""
    page: Page = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            try:
                value = float(match[3])
            except ValueError:
                continue
            page.setdefault(match[1], []).append((dict(LABEL.findall(match[2] or "")), value))
    return page


def total(page: Page, name: str) -> float | None:
    """The sum over all labels; None when the page has no such metric."""
    rows = page.get(name)
    return sum(value for _, value in rows) if rows else None


def gauge(page: Page, name: str) -> float | None:
    """A worker's gauge: ranks of one data-parallel group say the same, groups add up."""
    groups: dict[str, float] = {}
    for labels, value in page.get(name, ()):
        if value == value:  # noqa: PLR0124 - NaN is not equal to itself
            rank = labels.get("dp_rank", "")
            groups[rank] = max(groups.get(rank, 0.0), value)
    return sum(groups.values()) if groups else None


def grown(before: Page, after: Page, name: str) -> float | None:
    """By how much a counter grew; None when there is none, from 0 when it is new."""
    end = total(after, name)
    return None if end is None else end - (total(before, name) or 0.0)


class Asker:
    """Asks workers without proxies. key: the API key that they ask for. context: how to speak TLS with them."""

    def __init__(self, key: str = "", context: Any = None) -> None:
        handlers: list[Any] = [urllib.request.ProxyHandler({})]
        self._opener = urllib.request.build_opener(
            *handlers, *([urllib.request.HTTPSHandler(context=context)] if context else [])
        )
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def page(self, url: str) -> Page | None:
        """The metrics of one worker; None when it gives none."""
        try:
            with self._opener.open(self._request(url + "/metrics"), timeout=TIMEOUT_S) as response:
                return parse(response.read().decode("utf-8", "replace")) or None
        except (OSError, ValueError):
            return None

    def post(self, url: str) -> int:
        """The status of a POST without a body, 0 when there is no answer."""
        try:
            with self._opener.open(self._request(url, b""), timeout=POST_TIMEOUT_S) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, ValueError):
            return 0

    def _request(self, url: str, data: bytes | None = None) -> urllib.request.Request:
        return urllib.request.Request(url, data=data, headers=self._headers)


class Watch:
    """Looks at the workers of a cell. workers: [{"name", "role", "url"}]."""

    def __init__(self, workers: list[dict[str, str]], asker: Asker) -> None:
        self._workers, self._asker = workers, asker
        self._before: dict[str, Page] = {}
        self._seen: list[float] = []
        self._accepted: list[float] = []
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Just before the first request."""
        self._before, self._seen, self._accepted = self._pages(), [], []

    def sample(self) -> None:
        """In the middle: what the engines say of themselves. Never waits: who asks must go on reading the client."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()

    def _sample(self) -> None:
        pages = [self._asker.page(worker["url"]) for worker in self._workers if worker["role"] in GENERATING]
        for name, into in (("gen_throughput", self._seen), ("spec_accept_length", self._accepted)):
            known = [rate for page in pages if page is not None for rate in [gauge(page, name)] if rate is not None]
            if known:
                into.append(sum(known) if into is self._seen else max(known))

    def end(self) -> dict[str, Any] | None:
        """Just after the last: the figures; None when no worker gives metrics. No thread is left: the client forks."""
        if self._thread is not None:
            self._thread.join()
        after = self._pages()
        if not after:
            return None
        drafted = [length for length in self._accepted if length > 0]
        accepted = sum(drafted) / len(drafted) if drafted else None
        return {**figures(self._workers, self._before, after), **rates(self._seen), "accept_length": accepted}

    def _pages(self) -> dict[str, Page]:
        pages = {worker["name"]: self._asker.page(worker["url"]) for worker in self._workers}
        return {name: page for name, page in pages.items() if page is not None}


def rates(seen: list[float]) -> dict[str, float | None]:
    """Of the gauge gen_throughput, summed over the workers that generate."""
    busy = [rate for rate in seen if rate > 0]
    return {
        "gen_throughput_mean": sum(busy) / len(busy) if busy else None,
        "gen_throughput_max": max(busy) if busy else None,
    }


def figures(workers: list[dict[str, str]], before: dict[str, Page], after: dict[str, Page]) -> dict[str, Any]:
    """The differences over a cell, summed over workers."""
    both = [worker for worker in workers if worker["name"] in before and worker["name"] in after]
    known = [(worker, (before[worker["name"]], after[worker["name"]])) for worker in both]
    pairs = [pair for _, pair in known]
    generating = [pair for worker, pair in known if worker["role"] in GENERATING]
    found: dict[str, Any] = {}
    for figure, names in COUNTERS.items():
        found[figure] = added(generating if figure == "generation_tokens" else pairs, names)
    for figure, name in MEANS.items():
        found[figure] = mean(pairs, name)
    found["kv_transfers"] = added(pairs, (f"{MEANS['kv_transfer_ms_mean']}_count",))
    for figure in ("transfer_failures", "bootstrap_failures"):
        if found["kv_transfers"] is not None:  # a counter shows itself with its first failure
            found[figure] = found[figure] or 0.0
    found["cached_token_rate"] = cached([pair for worker, pair in known if worker["role"] in PROMPTED])
    found["retracted"] = max((gauge(page, "num_retracted_reqs") or 0.0 for _, page in pairs), default=None)
    found["restarted"] = [worker["name"] for worker, pair in known if went_back(*pair)]
    found["missing"] = [worker["name"] for worker in workers if worker not in both]
    return found


def added(pairs: list[tuple[Page, Page]], names: tuple[str, ...]) -> float | None:
    """Growth of the first of `names` that is there, over all workers; None when nobody has any."""
    known = [grown(first, last, name) for first, last in pairs for name in names if name in last]
    amounts = [amount for amount in known if amount is not None]
    return sum(amounts) if amounts else None


def mean(pairs: list[tuple[Page, Page]], name: str) -> float | None:
    """Mean of what a histogram took in during the cell."""
    amount, count = added(pairs, (f"{name}_sum",)), added(pairs, (f"{name}_count",))
    return amount / count if amount is not None and count else None


def cached(pairs: list[tuple[Page, Page]]) -> float | None:
    """Share of the prompt tokens that came from the prefix cache; 0 when prompts were counted and none was cached."""
    prompts = added(pairs, ("prompt_tokens_total",))
    return (added(pairs, ("cached_tokens_total",)) or 0.0) / prompts if prompts else None


def went_back(before: Page, after: Page) -> bool:
    """A counter that is lower than before belongs to another process: the worker was restarted."""
    names = ("num_requests_total", "prompt_tokens_total", "http_requests_total")
    return any((grown(before, after, name) or 0.0) < 0 for name in names) or any(
        name in before and name not in after for name in names
    )


def flush(workers: list[dict[str, str]], request: Any) -> list[str]:
    """Empty the prefix cache of every worker; why not, for those that did not. request: (url) -> HTTP status."""
    failed = []
    for worker in workers:
        status = request(worker["url"] + "/flush_cache")
        if status != 200:
            failed.append(f"the prefix cache of {worker['name']} could not be flushed ({status or 'no answer'})")
    return failed
