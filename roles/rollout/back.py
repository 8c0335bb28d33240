"""Puts a release back: its files as the hosts keep them, its processes, and the proof that it serves again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyinfra import logger

from roles.audit import note_all
from roles.inventory import again
from roles.ladder import Row
from roles.lock import still_held
from roles.releases import ask, fail, listed, past
from roles.remote import RemoteError
from roles.rollout.walk import RungError, walk_steps
from roles.run import RefusedError, Run, live_of, policy_of, reread_what_answers, steps_of
from roles.services import Services
from roles.write import write_file
from slipway.converge.change import Change
from slipway.plan.model import to_json
from slipway.rollout import step_lines

LOG_LINES = 200


@dataclass(frozen=True)
class Outcome:
    """How a failed rollout ended. serves: what runs now, in a sentence; evidence: where it lies, HOST:PATH each."""

    serves: str
    evidence: tuple[str, ...] = ()


def put_back(run: Run, error: Exception) -> Outcome:
    """After a rollout that failed: keep the evidence, then put the release back that served before; says all of it."""
    places = fail(run, str(error), evidence(run, error))
    for line in places:
        logger.error(f"    evidence: {line}")
    number = served_before(run)
    if number is None:
        serves = "there is no release to put back; what runs is what the lines above left"
    elif not places:
        serves = f"this is release {number} itself: there is nothing else to put back"
    else:
        serves = _restored(run, number)
    logger.error(f"    {serves}")
    return Outcome(serves, tuple(places))


def _restored(run: Run, number: int) -> str:
    """Put a release back; what serves afterwards."""
    logger.error(f"    putting release {number} back")
    try:
        old = past(run, number)
        old.before = to_json(run.plan)
        restore(old)
    except (RemoteError, RefusedError) as second:
        by_hand(run, number, second)
        return f"release {number} is NOT back: what runs where, and the commands to go on by hand, stand above"
    return f"release {number} serves again, and every rung of its ladder holds"


def restore(old: Run) -> list[Row]:
    """Files first, then the steps, then the proof. Raises RemoteError or RefusedError where it stops."""
    still_held(old)  # somebody who broke our lock is at work here now
    for line in step_lines(steps_of(old), policy_of(old)):
        logger.info(f"    {line}")
    for change in files_of(old):
        logger.info(f"    {change.host}: {change.action} {change.subject}")
        write_file(old.hosts[change.host], change)
    rows = walk_steps(old)
    note_all(old, list(old.hosts), f"put release {old.past} back", "ok")
    return rows


def files_of(old: Run) -> list[Change]:
    """The files that are not as the release left them."""
    return [one for one in old.pending() if one.role in ("host", "worker", "router") and _is_file(one)]


def _is_file(change: Change) -> bool:
    return change.subject.startswith("/") and change.action in ("create", "update", "remove")


def served_before(run: Run) -> int | None:
    """The release that is current, wherever one is; where a dead run left two, the older one, which all hosts have."""
    try:
        found = [one.current for one in listed(run).values() if one.current is not None]
    except RemoteError as error:
        logger.error(f"    {error}")
        return None
    return min(found, default=None)


# ---- evidence


def evidence(run: Run, error: Exception) -> dict[str, dict[str, str]]:
    """By host: the end of the log of each of its instances, and the rungs that were climbed."""
    kept: dict[str, dict[str, str]] = {name: {"reason.txt": f"{error}\n"} for name in run.hosts}
    rows = error.rows if isinstance(error, RungError) else ()
    for name, texts in kept.items():
        texts["rungs.json"] = json.dumps([_as_data(row) for row in rows], indent=1) + "\n"
        service = Services(run, name)
        for instance in run.plan.on(name):
            lines = service.last_lines(instance.name, LOG_LINES)
            texts[f"{instance.name}.log"] = "\n".join(lines) + "\n"
    return kept


def _as_data(row: Row) -> dict[str, object]:
    return {"subject": row.subject, "rung": row.rung, "ok": row.ok, "seconds": row.seconds, "detail": row.detail}


# ---- when that fails too


def by_hand(run: Run, number: int, error: Exception, ours: str = "the failed release") -> None:
    """Stop, and say what runs where and how to go on without us. ours: what the run's own plan is called."""
    logger.error(f"    release {number} could not be put back: {error}")
    logger.error("    nothing more is tried, and every host keeps its releases. What runs now:")
    records = _records(run, number)
    for line in standing_lines(run, records, {"planned": ours, "put back": f"release {number}"}):
        logger.error(f"      {line}")
    logger.error("    when the cause is removed, this goes on from here:")
    logger.error(f"      {again('rollback', '--data', f'release={number}')}")
    logger.error("    or by hand, on each host:")
    for line in manual_lines(run, number, records):
        logger.error(f"      {line}")


def _records(run: Run, number: int) -> dict[str, dict[str, Any] | RemoteError]:
    """What each host keeps of the release, or why it cannot be told."""
    found: dict[str, dict[str, Any] | RemoteError] = {}
    for host in run.plan.hosts:
        try:
            found[host.name] = ask(run, host.name, action="read", number=number)
        except RemoteError as error:
            found[host.name] = error
    return found


def standing_lines(run: Run, records: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """One line an instance, by asking the hosts that still answer; of the others, that they do not."""
    silent = reread_what_answers(run)
    for host, reason in silent.items():
        there = ", ".join(one.name for one in run.plan.on(host)) or "nothing"
        yield f"{host}: DOES NOT ANSWER ({reason}); what runs there is not known, the plan has {there} there"
    for one in live_of(run):
        if one.host not in silent:
            config = run.states[one.host]["live"][one.name].get("config", "unknown")
            which = _which(run, one.host, one.name, config, records.get(one.host), names)
            yield f"{one.host}: {one.name} runs configuration {config}, as {which} has it {one.url}".rstrip()
    running = {(one.host, one.name) for one in live_of(run)}
    for instance in run.plan.instances:
        if (instance.host, instance.name) not in running and instance.host not in silent:
            yield f"{instance.host}: {instance.name} is DOWN"


def _which(run: Run, host: str, name: str, config: str, record: Any, names: Mapping[str, str]) -> str:
    """Whose configuration it is."""
    if isinstance(record, dict) and record["configs"].get(name) == config:
        return names["put back"]
    return names["planned"] if run.wanted[host].configs.get(name) == config else "an earlier release"


def manual_lines(run: Run, number: int, records: Mapping[str, Any]) -> Iterator[str]:
    """The files of the release that differ, and the restart of what reads them."""
    for host in run.plan.hosts:
        record = records[host.name]
        if isinstance(record, RemoteError):
            yield f"# {record}"
            continue
        service, place = Services(run, host.name), f"{host.paths['releases']}/{number}/files"
        yield f"# on {host.name}"
        for row in record["files"]:
            if row["sealed"]:
                yield f"# {row['path']} holds secrets, which no release keeps"
            else:
                yield shlex.join(["install", "-m", row["mode"], f"{place}/{row['name']}", row["path"]])
        for words in service.manager.reload():
            yield shlex.join(words)
        for name in record["configs"]:
            for words in [*service.manager.stop(name), *service.manager.start(name)]:
                yield shlex.join(words)


def point_back(old: Run) -> None:
    """`current` is the release that was put back, on every host that has it; on others, none is."""
    for name, releases in listed(old).items():
        ask(old, name, action="point", number=old.past if old.past in releases.about else None)
