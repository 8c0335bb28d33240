"""The records of a host as lines: what its workers do, who changed what last, and which releases there were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.report import table


def rate_words(rates: Mapping[str, Any] | None) -> list[str]:
    """A worker's load and throughput; nothing when it does not tell (--enable-metrics is off)."""
    if not rates:
        return []
    words = [f"{rates['running']:.0f} running"] if rates["running"] is not None else []
    words += [f"{rates['queued']:.0f} queued"] if rates["queued"] else []
    return [", ".join([*words, *([f"{rates['gen_throughput']:.0f} tokens/s"] if rates["gen_throughput"] else [])])]


def recent_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """Who is changing it now, when it was last proven, and what was done last."""
    if told["lock"]:
        holder = told["lock"]["holder"]
        origin = f"{holder.get('who')}@{holder.get('from')}, {holder.get('what')} since {holder.get('since')}"
        yield f"LOCKED by {origin}, last sign of life {told['lock']['silent_s']:.0f} s ago"
    if told["armed"]:
        yield f"would be put back by the host itself unless confirmed: {', '.join(told['armed'])}"
    if told["verify"]:
        yield f"last verified {told['verify']['when']}: {told['verify']['result']}"
    if told["periodic"]:
        yield _periodic(told["periodic"])
    last = told["audit"][-1] if told["audit"] else None
    if last:
        yield f"last done {_done(last)}"


def _periodic(found: Mapping[str, Any]) -> str:
    how = f"all {found['rungs']} rungs hold" if found["ok"] else f"NOT WELL, {'; '.join(found['bad'])[:200]}"
    return f"periodic verification {found['age_s']:.0f} s ago: {how}"


def logged_words(throughput: Mapping[str, Any] | None) -> list[str]:
    """A worker's throughput by its own log, for those that serve no metrics."""
    if not throughput:
        return []
    ago = f", {throughput['age_s']:.0f} s ago" if throughput["age_s"] is not None else ""
    return [f"{throughput['value']:.0f} tokens/s by its log{ago}"]


def _done(line: Mapping[str, Any]) -> str:
    words = f"{line.get('when')} by {line.get('who')}@{line.get('from')}: {line.get('step')}, {line.get('result')}"
    return words + (f" ({line['reason'][:120]})" if line.get("reason") else "")


def history_lines(told: Mapping[str, Any]) -> list[str]:
    """The releases of the deployment, newest first."""
    rows = [
        (f"{one['release']}{' (current)' if one['current'] else ''}", str(one.get("state", "")),
         str(one.get("when", "")), str(one.get("who", "")), str(one.get("why") or ""))
        for one in reversed(told["releases"])
    ]  # fmt: skip
    return ["", *table(("RELEASE", "STATE", "WHEN", "WHO", "WHY"), rows)] if rows else []
