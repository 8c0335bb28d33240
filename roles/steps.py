"""The one operation that roles are made of: the changes found before, made now; none, and it is a no-op."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, operation
from pyinfra.api.host import Host

from roles.audit import note
from roles.lock import still_held
from roles.remote import RemoteError
from roles.run import RefusedError, current, left
from slipway.converge.change import Change

Make = Callable[[Host, Change], None]


@operation()
def converge(changes: Iterable[Change], make: Make) -> Generator[Any, None, None]:
    """Make each of `changes` by calling `make(host, change)`, in order, then read back; the first that fails ends it.

    Example: `converge(name="Folders", changes=run.here("host"), make=make_folder)`.
    """
    pending = list(changes)
    if not pending:
        host.noop("nothing to change")
        return
    for change in pending:
        yield FunctionCommand(_make, (make, change), {})
    yield FunctionCommand(read_back, (pending,), {})


def read_back(state: Any, host: Host, made: list[Change]) -> bool:
    """Whether the host now is as wanted in what was just changed: being told to is not being so."""
    subjects = {change.subject for change in made if not change.subject.startswith("package ")}
    try:
        remaining = left(current(), host.name)
    except RefusedError as error:
        logger.error(f"{host.print_prefix}what was changed could not be read back: {error}")
        return False
    for change in remaining:
        if change.subject in subjects:
            logger.error(f"{host.print_prefix}{change.subject} was changed and is not as wanted: {change.reason}")
            return False
    note(current(), host.name, f"{made[0].role}: {len(made)} change(s)", "ok")
    return True


def _make(state: Any, host: Host, make: Make, change: Change) -> bool:
    try:
        still_held(current())
        make(host, change)
    except RemoteError as error:
        logger.error(f"{host.print_prefix}{change.action} {change.subject} failed: {error}")
        note(current(), host.name, f"{change.action} {change.subject}", "failed", reason=str(error))
        return False
    logger.info(f"{host.print_prefix}{change.action} {change.subject}")
    return True
