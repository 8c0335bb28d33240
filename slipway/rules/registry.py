"""Rules that data cannot express: short functions, registered under the words that describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from slipway.finding import Severity
from slipway.knowledge.versions import Span

from .facts import Whole, Worker
from .model import Hit, Rule

WorkerCheck = Callable[[Worker], Iterable[str]]
WholeCheck = Callable[[Whole], Iterable[tuple[str, str]]]

_registered: dict[str, Rule] = {}


def registered() -> tuple[Rule, ...]:
    """Every rule that a function registered."""
    return tuple(_registered.values())


def worker_rule(
    id: str,
    severity: Severity,
    *,
    title: str,
    fix: str,
    source: str,
    confidence: str,
    roles: Sequence[str] = (),
    span: str = "all",
) -> Callable[[WorkerCheck], WorkerCheck]:
    """Register a function that yields one message for each fault of one worker; equal messages become one finding.

    roles: only those; none means all. span: releases it holds for.
    """
    within = Span.parse(span)

    def register(check: WorkerCheck) -> WorkerCheck:
        def find(whole: Whole) -> Iterator[Hit]:
            by_message: dict[str, list[str]] = {}
            for worker in whole.of(*roles):
                for message in check(worker) if within.holds(worker.version) else ():
                    by_message.setdefault(message, []).append(worker.name)
            return (Hit(together(names), message) for message, names in by_message.items())

        _add(id, severity, title, check.__doc__, fix, source, confidence, find)
        return check

    return register


def whole_rule(
    id: str, severity: Severity, *, title: str, fix: str, source: str, confidence: str
) -> Callable[[WholeCheck], WholeCheck]:
    """Register a function that yields (subject, message) for each fault of a deployment."""

    def register(check: WholeCheck) -> WholeCheck:
        def find(whole: Whole) -> Iterator[Hit]:
            return (Hit(subject, message) for subject, message in check(whole))

        _add(id, severity, title, check.__doc__, fix, source, confidence, find)
        return check

    return register


def _add(
    id: str,
    severity: Severity,
    title: str,
    checks: str | None,
    fix: str,
    source: str,
    confidence: str,
    find: Callable[[Whole], Iterable[Hit]],
) -> None:
    if id in _registered:
        raise ValueError(f"two rules have the id {id}")
    text = " ".join((checks or "").split())
    _registered[id] = Rule(id, severity, title, text, fix, source, confidence, find)


def together(names: Sequence[str]) -> str:
    """The subject of a finding that concerns several workers: the first three, and how many more."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    return ", ".join(distinct[:3]) + more
