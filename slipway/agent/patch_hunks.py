"""Finds where the hunks of a diff belong in a file, and whether the file holds them already.

A hunk applies where its old lines stand, exactly; it may have moved, but nothing is guessed. Pure; standard library
only, Python 3.9+.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipway.agent.patch_diff import Hunk

APPLIES, CONTAINED, CONFLICT = "applies", "contained", "conflict"


@dataclass(frozen=True)
class Spot:
    """How a hunk stands to a file. at: its place there, from 0; moved: lines from where the diff says.

    On a conflict: line (from 1) of the first difference, what the diff expects there and what is found.
    """

    hunk: Hunk
    state: str
    at: int
    moved: int = 0
    line: int = 0
    expected: str = ""
    found: str = ""


def with_ends_of(lines: Sequence[str], hunk: Hunk) -> Hunk:
    """The hunk with CRLF when every line of the file has it and no line of the hunk."""
    both = [*hunk.old, *hunk.new]
    if not lines or not all(line.endswith("\r\n") for line in lines) or any(line.endswith("\r\n") for line in both):
        return hunk
    old, new = (tuple(line.replace("\n", "\r\n") for line in side) for side in (hunk.old, hunk.new))
    return Hunk(hunk.number, hunk.line, hunk.old_start, old, hunk.new_start, new, hunk.leading, hunk.trailing)


def place(lines: Sequence[str], hunks: Sequence[Hunk]) -> list[Spot]:
    """Where each hunk stands; they are looked for in order, each behind the one before it."""
    spots: list[Spot] = []
    start, moved = 0, 0
    for hunk in (with_ends_of(lines, hunk) for hunk in hunks):
        spot = _spot(lines, hunk, start, moved)
        spots.append(spot)
        if spot.state != CONFLICT:
            start = spot.at + len(hunk.old if spot.state == APPLIES else hunk.new)
            moved = spot.moved
    return spots


def _spot(lines: Sequence[str], hunk: Hunk, start: int, moved: int) -> Spot:
    """The nearer of: its old lines, so that it applies; its new lines, so that it is contained."""
    before, after = max(hunk.old_start - 1, 0), max(hunk.new_start - 1, 0)
    old = _find(lines, hunk, hunk.old, before + moved, start)
    new = _find(lines, hunk, hunk.new, after + moved, start)
    if len(old) == 1 and (not new or abs(old[0] - before - moved) <= abs(new[0] - after - moved)):
        return Spot(hunk, APPLIES, old[0], old[0] - before)
    if len(new) == 1 and not old:
        return Spot(hunk, CONTAINED, new[0], new[0] - after)
    if new and (not old or abs(new[0] - after - moved) < abs(old[0] - before - moved)):
        return Spot(hunk, CONTAINED, new[0], new[0] - after)
    if old:
        words = f"the same lines at {' and at '.join(str(at + 1) for at in old)}, equally near"
        return Spot(hunk, CONFLICT, old[0], 0, old[0] + 1, f"them near line {hunk.old_start}", words)
    return _conflict(lines, hunk, before + moved, start)


def _find(lines: Sequence[str], hunk: Hunk, block: Sequence[str], guess: int, start: int) -> list[int]:
    """The place of `block` nearest to `guess`; two when they are equally near, none when it is nowhere.

    Without context before or behind, a hunk belongs to the beginning or the end of the file.
    """
    last = len(lines) - len(block)
    lowest, highest = start, last
    if not hunk.leading and hunk.old_start <= 1:
        highest = min(highest, 0)
    if not hunk.trailing:
        lowest = max(lowest, last)
    wanted = list(block)
    places = [at for at in range(lowest, highest + 1) if list(lines[at : at + len(wanted)]) == wanted]
    nearest = min((abs(at - guess) for at in places), default=0)
    return [at for at in places if abs(at - guess) == nearest]


def _conflict(lines: Sequence[str], hunk: Hunk, guess: int, start: int) -> Spot:
    """The first difference at the place that fits best."""
    places = range(start, max(start, len(lines) - 1) + 1)
    at = max(places, key=lambda place: (_alike(lines, hunk.old, place), -abs(place - guess)))
    if not _alike(lines, hunk.old, at):
        at = min(max(guess, start), max(len(lines) - 1, 0))
    for number, expected in enumerate(hunk.old):
        found = lines[at + number] if at + number < len(lines) else None
        if found != expected:
            return Spot(hunk, CONFLICT, at, 0, at + number + 1, shown(expected), shown(found))
    extra = lines[at + len(hunk.old)] if at + len(hunk.old) < len(lines) else None
    where = "the end of the file" if not hunk.trailing else "these lines elsewhere"
    return Spot(hunk, CONFLICT, at, 0, at + len(hunk.old) + 1, where, shown(extra))


def _alike(lines: Sequence[str], block: Sequence[str], at: int) -> int:
    """How many lines agree."""
    return sum(1 for one, other in zip(lines[at : at + len(block)], block) if one == other)  # noqa: B905 - 3.10's


def shown(line: str | None) -> str:
    """A line as a message shows it, with the ends that tell lines apart."""
    if line is None:
        return "the end of the file"
    text = line.encode("utf-8", "replace").decode()
    if text.endswith("\r\n"):
        return f"{text[:-2]!r} with CRLF"
    return repr(text[:-1]) if text.endswith("\n") else f"{text!r} without a newline"


def merged(lines: Sequence[str], spots: Sequence[Spot]) -> list[str]:
    """The file with every hunk that applies."""
    result: list[str] = []
    done = 0
    for spot in spots:
        if spot.state == APPLIES:
            result += [*lines[done : spot.at], *spot.hunk.new]
            done = spot.at + len(spot.hunk.old)
    return result + list(lines[done:])
