"""The course of one start: closed port, /health 503, /health 200; or a death, a loop, a standstill, a lapsed budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipway.knowledge.log_patterns import Pattern, most_telling, standstill

SETTLED = ("running", "starting", "stopping")  # states of a service manager that are no death
GRACE_S = 3.0  # a manager that was just told to start may not have done so yet
LOOPS = 2  # deaths after which it will not come up by being started once more
SILENCE_S = 60.0  # without a new log line, from which on a start is said to stand still


@dataclass(frozen=True)
class Look:
    """What one look at an instance found.

    state, detail, restarts: the service manager's words, and how often it started the instance anew by itself (None
    when it does not count). config: that the live process runs, '' when it does not say. port_open; health: status of
    /health, 0 when there was no answer, -1 when nobody asked. log: the answer of slipway/agent/logs.py. error: why it
    could not be looked at.
    """

    state: str
    detail: str = ""
    pid: int = 0
    restarts: int | None = None
    config: str = ""
    port_open: bool = False
    health: int = -1
    health_detail: str = ""
    log: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Course:
    """What is known of a start so far. Times are seconds since it began.

    config: that the process is to run. serves: whether /health proves anything. starts: seen in the log.
    line, line_at: the last log line, and when it was new. patterns: ids of what matched in the log.
    """

    name: str
    host: str
    budget_s: float
    config: str
    serves: bool
    look: Look = Look("unknown")
    elapsed: float = 0.0
    first_restarts: int | None = None
    starts: int = 0
    pids: tuple[int, ...] = ()
    down_since: float | None = None
    open_since: float | None = None
    line: str = ""
    line_at: float = 0.0
    patterns: frozenset[str] = frozenset()

    @property
    def deaths(self) -> int:
        """How often it died since the start began, as far as can be seen."""
        by_manager = (self.look.restarts or 0) - (self.first_restarts or 0)
        return max(by_manager, self.starts - 1, len(self.pids) - 1, 0) + (self.down_since is not None)

    @property
    def silent_s(self) -> float:
        """Seconds without a new log line."""
        return self.elapsed - self.line_at

    @property
    def telling(self) -> Pattern | None:
        """What its log says of its trouble."""
        found = most_telling(self.patterns)
        return found if found and found.severity != "note" else None


def begun(name: str, host: str, budget_s: float, config: str, serves: bool) -> Course:
    """A start of which nothing was seen yet."""
    return Course(name, host, budget_s, config, serves)


def seen(course: Course, look: Look, elapsed: float) -> Course:
    """The course after one more look. elapsed: seconds since the start began."""
    if look.error:
        return replace(course, look=look, elapsed=elapsed)
    log = look.log
    new = bool(log.get("new"))
    down = look.state not in SETTLED
    return replace(
        course,
        look=look,
        elapsed=elapsed,
        first_restarts=look.restarts if course.first_restarts is None else course.first_restarts,
        starts=course.starts + int(log.get("starts", 0)),
        pids=course.pids if not look.pid or look.pid in course.pids else (*course.pids, look.pid),
        down_since=(elapsed if course.down_since is None else course.down_since) if down else None,
        open_since=(elapsed if course.open_since is None else course.open_since) if look.port_open else None,
        line=log.get("last") or course.line,
        line_at=elapsed if new else course.line_at,
        patterns=course.patterns | set(log.get("matches", {})),
    )


def is_up(course: Course) -> bool:
    """Whether it runs what it is to run, listens, and is healthy where that proves anything."""
    look = course.look
    right = not look.config or not course.config or look.config == course.config
    healthy = look.health == 200 or not course.serves
    return not look.error and look.state == "running" and look.port_open and healthy and right


def failure(course: Course) -> str:
    """Why it will not come up, as one sentence with what to do; '' while it may."""
    if is_up(course):
        return ""
    ended = _loops(course) or _died(course) or _late(course)
    return ended + _hint(course) if ended else ""


def _died(course: Course) -> str:
    """A death that its manager does not undo, or that the log calls hopeless."""
    down = course.down_since is not None and course.elapsed > GRACE_S
    hopeless = course.look.state != "restarting" or (course.telling is not None and course.telling.fatal)
    if not (down and hopeless) or course.look.error:
        return ""
    found = {"failed": "died", "absent": "is not known to its service manager"}.get(course.look.state, "died")
    return f"{course.name} {found} while it came up, {course.elapsed:.0f} s after its start ({_manager(course)})"


def _loops(course: Course) -> str:
    if course.deaths < LOOPS or course.look.error:
        return ""
    return (
        f"{course.name} dies and is started again and again: {course.deaths} deaths in {course.elapsed:.0f} s "
        f"({_manager(course)})"
    )


def _late(course: Course) -> str:
    if course.elapsed <= course.budget_s:
        return ""
    return f"{course.name} did not come up within its start budget of {course.budget_s:.0f} s: {phase(course)}"


def _manager(course: Course) -> str:
    return f"{course.look.state}, {course.look.detail}".removesuffix(", ")


def phase(course: Course) -> str:
    """Where the start is, in the words that tell one standstill from another."""
    look = course.look
    if look.error:
        return f"its host does not answer ({look.error})"
    if look.state != "running":
        return "it died and is about to be started again" if look.state == "restarting" else f"it is {look.state}"
    if not look.port_open:
        return "its port is closed"
    return _answers(course) if course.serves and look.health != 200 else _runs(course)


def _answers(course: Course) -> str:
    """What /health says of a worker that listens."""
    look, since = course.look, course.elapsed - (course.open_since or 0.0)
    if look.health == 503:
        return f"/health answers 503 for {since:.0f} s"
    if look.health > 0:
        return f"/health answers {look.health}: {look.health_detail}".removesuffix(": ")
    return f"its port is open and /health does not answer ({look.health_detail})"


def _runs(course: Course) -> str:
    return f"it runs configuration {course.look.config}, not {course.config}" if course.look.config else "it runs"


def progress(course: Course) -> str:
    """One line for who waits: elapsed of budget, phase, last log line, and a standstill."""
    line = f"{course.elapsed:.0f} of {course.budget_s:.0f} s, {phase(course)}"
    if course.silent_s >= SILENCE_S:
        line += f", no new log line for {course.silent_s:.0f} s"
        busy = standstill(course.line)
        line += f" ({busy.meaning})" if busy else ""
    return f"{line}: {course.line[:110]}" if course.line else line


def _hint(course: Course) -> str:
    """What the log says of it; else, where it stands still, what it was doing."""
    telling = course.telling
    if telling:
        return f". Its log says: {telling.hint}"
    busy = standstill(course.line)
    dead = course.down_since is not None or course.deaths > 0
    if dead or busy is None:
        return f". Last log line: {course.line[:200]}" if course.line else ". Its log is empty"
    return f". It has stood still for {course.silent_s:.0f} s since {course.line[:80]!r}: {busy.hint}"
