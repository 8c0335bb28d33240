"""Several calls at once. gevent prints a traceback for each greenlet that ends with an error; users must see none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import gevent

T = TypeVar("T")


@dataclass(frozen=True)
class _Failed:
    error: Exception


def together(calls: Iterable[Callable[[], T]]) -> list[T]:
    """What each returned, in their order, once all have ended. Raises the first error among them."""
    jobs = [gevent.spawn(_tried, call) for call in calls]
    gevent.joinall(jobs)
    for job in jobs:
        if isinstance(job.value, _Failed):
            raise job.value.error
    return [job.value for job in jobs]


def _tried(call: Callable[[], T]) -> T | _Failed:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - raised again by together()
        return _Failed(error)
