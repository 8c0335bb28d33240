"""One run at a time changes a deployment: its lock lies on every host, is kept alive, and given back at the end.

Order: the host whose name sorts first decides; who has the lock there takes it on the others, on all or on none.
A run that is gone is known by its process, on the machine where it ran; elsewhere by its silence: each run says that
it is alive every few seconds, and one that was silent for rollout.lock_expires_s counts as dead.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore
from pyinfra import logger, state
from pyinfra.api.host import Host
from pyinfra.api.state import StateStage

from roles import interrupt
from roles.audit import note_all
from roles.inventory import asked, option
from roles.origin import now, where, who
from roles.probe import inline
from roles.remote import RemoteError, execute
from roles.run import RefusedError, Run, refresh
from roles.together import together
from slipway.agent.process import campaign, is_gone, process
from slipway.config.deployment import RolloutSettings

BEAT_S = 5.0
SAY_EVERY_S = 30.0
_once = BoundedSemaphore(1)


@dataclass
class Lock:
    """The lock that this run holds.

    made: per host that has it, the folders that came with it. lost: who has it now, if not we. beaten: when a host
    last took our sign of life, by the monotonic clock; 0 before it is ours.
    """

    holder: dict[str, Any]
    made: dict[str, list[str]] = field(default_factory=dict)
    lost: str = ""
    beaten: float = 0.0
    ending: bool = False
    ended: bool = False


def hold(run: Run, what: str, make: bool = True) -> None:
    """Have the lock until the end of the run, as a playbook's first line after its run; once for all hosts.

    what: as others are told, 'deploy'. make: whether hosts without the deployment get its folder, to lock it there.
    A dry run and a deploy without changes take none; a step of a campaign always does. Raises RefusedError when it
    cannot be had.
    """
    with _once:
        if "lock refused" in run.notes:
            raise RefusedError(run.notes["lock refused"])
        idle = run.changes and not run.pending() and not campaign()
        if "lock" in run.notes or option("dry") or idle:
            return
        interrupt.watch(run, release)
        try:
            _begin(run, what, make)
        except RefusedError as error:
            run.notes["lock refused"] = str(error)
            raise


def keep(run: Run, what: str) -> None:
    """As hold, for a playbook that changes nothing: only the lock of the campaign that this is a step of."""
    if campaign():
        hold(run, what)


def _begin(run: Run, what: str, make: bool) -> None:
    lock = run.notes["lock"] = Lock(_holder(what))
    for host in run.hosts.values():
        _before_disconnect(host, run)
    _wait(run, lock, make)
    lock.beaten = time.monotonic()
    gevent.spawn(_keep, run, lock)
    note_all(run, lock.made, what, "begun")
    if run.changes:  # they may be others since they were compared: another run may have ended meanwhile
        refresh(run)


def _holder(what: str) -> dict[str, Any]:
    """What others are told of this run; of a step, with the campaign's name and since when that lasts."""
    step_of = campaign()
    named = f"{step_of['what']}: {what}" if step_of else what
    ident, since = step_of.get("id") or secrets.token_hex(4), step_of.get("since") or now()
    return {"id": ident, "who": who(), "from": where(), "what": named, "since": since, **process()}


def settings(run: Run) -> RolloutSettings:
    """The deployment's; equal on all hosts."""
    return run.opened.deployment.hosts[0].rollout


def _wait(run: Run, lock: Lock, make: bool) -> None:
    patience, began, said = settings(run).lock_wait_s, time.monotonic(), -SAY_EVERY_S
    while True:
        held = _take_all(run, lock, make)
        elapsed = time.monotonic() - began
        if not held:
            return
        if elapsed >= patience:
            waited = f" after {elapsed:.0f} s" if patience else ""
            raise RefusedError(f"{held}{waited}; nothing was changed")
        if elapsed - said >= SAY_EVERY_S:
            said = elapsed
            logger.info(f"    waiting up to {patience - elapsed:.0f} s: {held}")
        time.sleep(2)


def _take_all(run: Run, lock: Lock, make: bool) -> str:
    """Take it everywhere or nowhere; '' or a sentence on who has it."""
    names = sorted(run.hosts)
    for group in (names[:1], names[1:]):
        held = next(filter(None, together(partial(_take, run, name, lock, make) for name in group)), "")
        if held:
            _give_back(run, lock)
            return held
    return ""


def _take(run: Run, name: str, lock: Lock, make: bool, over: str = "") -> str:
    request = {"action": "take", "holder": lock.holder, "over": over, "make": make}
    found = _ask(run, name, request)
    if found["state"] in ("taken", "absent"):
        if found["state"] == "taken":
            lock.made[name] = found["made"]
        return ""
    why = _why_dead(run, found)
    if why and not over:
        logger.info(f"    {name}: took over the lock of {_described(found['holder'])}: {why}")
        return _take(run, name, lock, make, over=found["holder"]["id"])
    return _refusal(run, name, found)


def _why_dead(run: Run, found: dict[str, Any]) -> str:
    """Why a holder counts as dead, or may be set aside; '' when it may not."""
    holder, silent, most = found["holder"], found["silent_s"], settings(run).lock_expires_s
    if is_gone(holder):
        return f"its process {holder['pid']} on this machine is gone"
    if silent > most:
        return f"it gave no sign of life for {silent:.0f} s (rollout.lock_expires_s is {most})"
    return "broken as asked" if str(asked("break_lock")) == holder.get("id") else ""


def _refusal(run: Run, name: str, found: dict[str, Any]) -> str:
    most, ident = settings(run).lock_expires_s, found["holder"].get("id")
    return (
        f"{run.plan.deployment} is being changed by {_described(found['holder'])} (lock on {name}, last sign of life "
        f"{found['silent_s']:.0f} s ago; counts as dead after {most} s). If you are sure that nothing runs there: "
        f"--data break_lock={ident}"
    )


def _described(holder: dict[str, Any]) -> str:
    """Who, from where, what and since when."""
    if "pid" not in holder:
        return f"{holder.get('who', 'unknown')} ({holder.get('what', 'a run')})"
    origin = f"{holder.get('who', 'unknown')}@{holder.get('from', 'unknown')} pid {holder['pid']}"
    return f"{origin} ({holder.get('what', 'a run')} since {holder.get('since', 'unknown')})"


def _ask(run: Run, name: str, request: dict[str, Any]) -> dict[str, Any]:
    """One call of the lock's program. Raises RefusedError when it cannot be run."""
    folder = run.plan.host(name).paths["deployment"]
    output = execute(run.hosts[name], [*inline("lock"), json.dumps({**request, "folder": folder})])
    try:
        answer: dict[str, Any] = json.loads(output.stdout[-1])
    except (ValueError, IndexError):
        answer = {"state": "failed", "error": output.said}
    if answer["state"] == "failed":
        raise RefusedError(f"{name}: the lock in {folder} could not be used: {answer['error']}; nothing was changed")
    return answer


def still_held(run: Run) -> None:
    """For steps that change things: the lock is ours, as far as was heard lately. Raises RemoteError when it is not."""
    lock: Lock | None = run.notes.get("lock")
    if lock and not lock.lost and time.monotonic() - lock.beaten > 3 * BEAT_S:
        _beat(run, lock)  # after a prompt, or a machine that slept
    if lock and lock.lost:
        raise RemoteError(f"the lock is lost: {lock.lost}")


def _keep(run: Run, lock: Lock) -> None:
    while not lock.lost and not lock.ended:
        time.sleep(BEAT_S)
        _beat(run, lock)


def _beat(run: Run, lock: Lock) -> None:
    jobs = [gevent.spawn(_beat_on, run, name, lock) for name in list(lock.made)]
    gevent.joinall(jobs)
    if any(job.value for job in jobs):
        lock.beaten = time.monotonic()


def _beat_on(run: Run, name: str, lock: Lock) -> bool:
    """Whether the host answered; a connection that broke says nothing of the lock."""
    try:
        found = _ask(run, name, {"action": "beat", "id": lock.holder["id"]})
    except RefusedError:
        return False
    if found["state"] == "held" and not lock.ended:
        lock.lost = f"on {name} it is now held by {_described(found['holder'])}"
        logger.error(f"    {lock.lost}")
    return True


def _before_disconnect(host: Host, run: Run) -> None:
    """pyinfra disconnects whatever became of the run: that is the one end that every run comes to."""
    disconnect = host.disconnect

    def release_first() -> None:
        release(run)
        disconnect()

    host.disconnect = release_first  # type: ignore[method-assign]


def at_end(run: Run, call: Callable[[str], None]) -> None:
    """Have `call(result)` made when the run ends, while the lock is still held."""
    run.notes.setdefault("at end", []).append(call)


def release(run: Run) -> None:
    """Give the lock back and note how the run ended; nothing when there is none."""
    lock: Lock | None = run.notes.get("lock")
    if lock is None or lock.ending:
        return
    lock.ending = True
    result = _result(run, lock)
    for call in run.notes.get("at end", []):
        call(result)
    lock.ended = True
    note_all(run, list(lock.made) if lock.beaten else [], lock.holder["what"], result)
    _give_back(run, lock)


def _result(run: Run, lock: Lock) -> str:
    if lock.lost:
        return "lost its lock"
    if "interrupted" in run.notes:
        return "interrupted"
    done = state.current_stage == StateStage.Disconnect and not state.failed_hosts
    return "ok" if done else "failed"


def unlock(run: Run) -> None:
    """Give back the lock of this campaign, or the one that --data break_lock=ID names. Raises RefusedError."""
    ident = campaign().get("id") or asked("break_lock")
    if not ident:
        raise RefusedError("which lock? --data break_lock=ID, with the ID that a refused run names")
    with _once:
        if "unlocked" in run.notes or option("dry"):
            return
        run.notes["unlocked"] = True
        for name in sorted(run.hosts):
            found = _ask(run, name, {"action": "release", "id": str(ident)})
            logger.info(f"    {name}: {_unlocked(found, str(ident))}")


def _unlocked(found: dict[str, Any], ident: str) -> str:
    if found.get("holder"):
        return f"it has not the lock {ident}; it is held by {_described(found['holder'])}, id {found['holder']['id']}"
    return f"no lock {ident}"


def _give_back(run: Run, lock: Lock) -> None:
    gevent.joinall([gevent.spawn(_give_back_on, run, name, lock) for name in list(lock.made)])


def _give_back_on(run: Run, name: str, lock: Lock) -> None:
    request = {"action": "release", "id": lock.holder["id"], "made": lock.made.pop(name)}
    stays = campaign()
    if stays and lock.beaten and not lock.lost and "interrupted" not in run.notes:
        request = {"action": "hand", "holder": {**lock.holder, **stays}}
    folder = run.plan.host(name).paths["deployment"]
    execute(run.hosts[name], [*inline("lock"), json.dumps({**request, "folder": folder})])
