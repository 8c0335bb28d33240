"""From the rows of a cell to its record: the keys of SGLang's own benchmark, and what voids or explains a cell.

No clock, no socket: the same rows give the same record. Percentiles interpolate linearly, as numpy does by default.
"""

from __future__ import annotations

import statistics
from typing import Any

PERCENTILES = (90, 95, 99)
KINDS = ("e2e_latency", "ttft", "tpot", "itl")
MISMATCHES_ALLOWED = 0.01  # share of requests whose answer has another length than asked
INPUT_TOLERANCE = 0.02  # of the mean prompt length
STRAGGLER = 3.0  # times the median E2E
CLIENT_BUSY = 0.85  # share of a core
CLIENT_WAITING = 0.15  # share of the time ready to run without a core
CACHED_SHARE = 0.01  # vllm PR 53920 warns from there


def record(result: dict[str, Any], slo: dict[str, Any] | None = None) -> dict[str, Any]:
    """Counts, throughput and latencies of a cell. result: as crew.run_load gives it. slo: see `goodput`."""
    rows = result["rows"]
    good = [row for row in rows if not row["error"]]
    duration = max((row["end"] for row in rows), default=0.0) - min((row["start"] for row in rows), default=0.0)
    values = latencies(good, result["gaps"])
    counted = {"duration": duration, "completed": len(good), **totals(good, duration)}
    for kind in KINDS:
        counted.update(summary(kind, values[kind]))
    return {
        **counted,
        "concurrency": ratio(sum(row["end"] - row["start"] for row in good), duration),
        "accept_length": None,
        "max_output_tokens_per_s": max(result["per_second"].values(), default=0),
        "max_concurrent_requests": most_at_once(rows),
        "failed": len(rows) - len(good),
        "failures": reasons_of(rows),
        **lengths(good),
        "cached_tokens": total_or_none([row["cached"] for row in good]),
        "tok_s_per_user": per_user(values["tpot"]),
        "goodput": goodput(good, duration, slo or {}),
        "stragglers": stragglers(good),
        "client": client(result["workers"]),
    }


def totals(good: list[dict[str, Any]], duration: float) -> dict[str, Any]:
    """Tokens and throughput; the server's own count where it gave one, chunks where it did not."""
    inputs, outputs = sum(row["input"] or 0 for row in good), sum(output_of(row) for row in good)
    return {
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": rate(len(good), duration),
        "input_throughput": rate(inputs, duration),
        "output_throughput": rate(outputs, duration),
        "total_throughput": rate(inputs + outputs, duration),
    }


def output_of(row: dict[str, Any]) -> int:
    """Output tokens of a request."""
    return int(row["chunks"] if row["output"] is None else row["output"])


def e2e(row: dict[str, Any]) -> float:
    """Seconds from start to end."""
    return float(row["end"] - row["start"])


def tpot(row: dict[str, Any]) -> float | None:
    """Seconds a token after the first; None where there is no second."""
    tokens = output_of(row)
    return (e2e(row) - row["ttft"]) / (tokens - 1) if tokens > 1 and row["ttft"] is not None else None


def latencies(good: list[dict[str, Any]], gaps: dict[int, int]) -> dict[str, list[tuple[float, int]]]:
    """Milliseconds and how often, sorted, by kind."""
    single: dict[str, list[float | None]] = {
        "e2e_latency": [e2e(row) for row in good],
        "ttft": [row["ttft"] for row in good],
        "tpot": [tpot(row) for row in good],
    }
    found = {kind: sorted((value * 1e3, 1) for value in values if value is not None) for kind, values in single.items()}
    return {**found, "itl": sorted((gap / 1e3, count) for gap, count in gaps.items())}


def summary(kind: str, values: list[tuple[float, int]]) -> dict[str, float | None]:
    """mean, median, std and percentiles of one kind, under the names that SGLang gives them."""
    names = [f"{name}_{kind}_ms" for name in ("mean", "median", "std", *(f"p{p}" for p in PERCENTILES))]
    count = sum(number for _, number in values)
    if not count:
        return dict.fromkeys(names)
    mean = sum(value * number for value, number in values) / count
    spread = (sum(number * (value - mean) ** 2 for value, number in values) / count) ** 0.5
    found = [mean, percentile(values, 50), spread, *(percentile(values, p) for p in PERCENTILES)]
    return dict(zip(names, found))  # noqa: B905 - Python 3.9 has no strict


def percentile(values: list[tuple[float, int]], percent: float) -> float:
    """Linear interpolation over sorted (value, how often)."""
    count = sum(number for _, number in values)
    place = (count - 1) * percent / 100
    below = int(place)
    low, high = ranked(values, below), ranked(values, min(below + 1, count - 1))
    return low + (high - low) * (place - below)


def ranked(values: list[tuple[float, int]], rank: int) -> float:
    """The value at a rank, 0 the smallest."""
    for value, number in values:
        if rank < number:
            return value
        rank -= number
    return values[-1][0]


def rate(amount: float, seconds: float) -> float | None:
    """A second; None when no time has passed, as then nothing was measured."""
    return amount / seconds if seconds > 0 else None


def ratio(amount: float, by: float) -> float:
    """A rate; 0 when no time has passed."""
    return amount / by if by > 0 else 0.0


def most_at_once(rows: list[dict[str, Any]]) -> int:
    """The most requests that were under way at a time."""
    moments = sorted([(row["start"], 1) for row in rows] + [(row["end"], -1) for row in rows])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def reasons_of(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Reason of failure -> how many requests."""
    counts: dict[str, int] = {}
    for row in rows:
        if row["error"]:
            counts[row["error"]] = counts.get(row["error"], 0) + 1
    return counts


def lengths(good: list[dict[str, Any]]) -> dict[str, Any]:
    """How the lengths that came agree with those that were asked for."""
    return {
        "output_length_mismatches": sum(output_of(row) != row["output_asked"] for row in good),
        "input_length_mismatches": sum(row["input"] not in (None, row["input_asked"]) for row in good),
        "usage_missing": sum(row["output"] is None for row in good),
        "single_chunk_answers": sum(row["chunks"] <= 1 < output_of(row) for row in good),
        "input_tokens_asked": good[0]["input_asked"] if good else None,
        "output_tokens_asked": good[0]["output_asked"] if good else None,
    }


def total_or_none(values: list[int | None]) -> int | None:
    """The sum; None when nobody counted."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def per_user(tpots: list[tuple[float, int]]) -> dict[str, float | None]:
    """Tokens a second as one user sees them come: 1/TPOT (InferenceX: interactivity)."""
    if not tpots or not percentile(tpots, 50):
        return {"mean": None, "median": None, "at_p99_tpot": None}
    mean = sum(value * number for value, number in tpots) / sum(number for _, number in tpots)
    return {"mean": 1e3 / mean, "median": 1e3 / percentile(tpots, 50), "at_p99_tpot": 1e3 / percentile(tpots, 99)}


def goodput(good: list[dict[str, Any]], duration: float, slo: dict[str, Any]) -> dict[str, Any] | None:
    """Requests a second that kept every limit of `slo` (ttft_ms, tpot_ms, e2e_ms; null: no limit); None without any."""
    limits = {name: limit for name, limit in slo.items() if limit is not None}
    if not limits:
        return None
    kept = sum(all(within(row, name, limit) for name, limit in limits.items()) for row in good)
    return {"slo": limits, "requests": kept, "share": ratio(kept, len(good)), "request_goodput": ratio(kept, duration)}


def within(row: dict[str, Any], name: str, limit: float) -> bool:
    """Whether a request kept one limit in milliseconds."""
    value = {"ttft_ms": row["ttft"], "tpot_ms": tpot(row), "e2e_ms": e2e(row)}[name]
    return value is None or value * 1e3 <= limit


def stragglers(good: list[dict[str, Any]]) -> dict[str, Any]:
    """Requests that took far longer than the median, and how long the cell ran for them alone."""
    if len(good) < 3:
        return {"count": 0, "slowest_s": None, "alone_s": 0.0}
    middle = statistics.median(e2e(row) for row in good)
    slow = [row for row in good if e2e(row) > STRAGGLER * middle]
    others = [row["end"] for row in good if e2e(row) <= STRAGGLER * middle]
    alone = max((row["end"] for row in slow), default=0.0) - max(others, default=0.0)
    slowest = max(e2e(row) for row in good)
    return {"count": len(slow), "slowest_s": slowest, "median_s": middle, "alone_s": max(0.0, alone) if slow else 0.0}


def client(workers: list[dict[str, float]]) -> dict[str, Any]:
    """What the client itself used: shares of a core over the cell, of the process that used most."""
    busy = max((ratio(worker["cpu_s"], worker["seconds"]) for worker in workers), default=0.0)
    waited = max((ratio(worker["waited_s"], worker["seconds"]) for worker in workers), default=0.0)
    return {
        "name": "builtin", "processes": len(workers), "cpu_s": sum(worker["cpu_s"] for worker in workers),
        "cpu_share_max": busy, "waited_share_max": waited,
        "bound": busy > CLIENT_BUSY or waited > CLIENT_WAITING,
    }  # fmt: skip


def judged(cell: dict[str, Any], streamed: bool = True) -> dict[str, Any]:
    """status (valid, void), reasons (why void) and notes (what a reader must know) of a counted cell."""
    reasons = [*failure_reasons(cell), *shape_reasons(cell, streamed)]
    return {"status": "void" if reasons else "valid", "reasons": reasons, "notes": notes(cell)}


def failure_reasons(cell: dict[str, Any]) -> list[str]:
    """A cell with a failed request is void: the others had its share of the machine."""
    if not cell["completed"] and not cell["failed"]:
        return ["no request was sent"]
    asked = cell["completed"] + cell["failed"]
    return [f"{count} of {asked} requests failed: {reason}" for reason, count in cell["failures"].items()]


def shape_reasons(cell: dict[str, Any], streamed: bool) -> list[str]:
    """Answers and prompts of another shape than asked for make times a token incomparable."""
    done, found = cell["completed"], []
    if not done:
        return []
    if not cell["total_output_tokens"]:
        found.append("every answer is empty")
    elif cell["output_length_mismatches"] > MISMATCHES_ALLOWED * done:
        mean = cell["total_output_tokens"] / done
        found.append(
            f"{cell['output_length_mismatches']} of {done} answers have another length than the "
            f"{cell['output_tokens_asked']} tokens asked for ({mean:.1f} on average): is ignore_eos ignored?"
        )
    if streamed and cell["single_chunk_answers"] > MISMATCHES_ALLOWED * done:
        found.append(f"{cell['single_chunk_answers']} answers came in one piece: TTFT, TPOT and ITL mean nothing")
    mean, asked = cell["total_input_tokens"] / done, cell["input_tokens_asked"]
    if cell["total_input_tokens"] and abs(mean - asked) > INPUT_TOLERANCE * asked:
        found.append(f"prompts have {mean:.1f} tokens on average; {asked} were asked for")
    return found


def notes(cell: dict[str, Any]) -> list[str]:
    """What does not void the cell and must not go unseen."""
    found = []
    slow, used = cell["stragglers"], cell["client"]
    if slow["count"]:
        found.append(
            f"{slow['count']} straggler(s): the slowest request took {slow['slowest_s']:.2f} s, the median "
            f"{slow['median_s']:.2f} s; the cell ran {slow['alone_s']:.2f} s of {cell['duration']:.2f} s for them alone"
        )
    if used["bound"]:
        found.append(
            f"client-bound: a process of the client used {used['cpu_share_max']:.0%} of a core and waited "
            f"{used['waited_share_max']:.0%} of the time for one; the server may be faster than this"
        )
    if cell["usage_missing"]:
        found.append(f"{cell['usage_missing']} answers came without usage: their tokens are counted by chunks")
    for side in ("output", "input"):
        if cell[f"{side}_length_mismatches"]:
            count, asked = cell[f"{side}_length_mismatches"], cell[f"{side}_tokens_asked"]
            found.append(f"{count} of {cell['completed']} {side} lengths differ from the {asked} tokens asked for")
    share = ratio(cell["cached_tokens"] or 0, cell["total_input_tokens"])
    if share >= CACHED_SHARE:
        found.append(f"{share:.1%} of the prompt tokens came from the prefix cache: the prompts were not fresh")
    return found
