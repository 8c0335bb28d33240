"""Releases on hosts: what was deployed, by whom, when and why; each with all that is needed to put it back.

A release has the same number on every host. It is written beside the others as N.new before anything that serves is
touched, and becomes N when the run ends: proven, and then `current`, or failed, with the evidence. What a dead run
leaves unfinished is no release.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from roles.inventory import asked
from roles.ladder import known_answers, ladder_of
from roles.origin import now, where, who
from roles.probe import inline
from roles.remote import RemoteError, execute
from roles.run import RefusedError, Run, refresh
from roles.secrets import SecretsError, read_secrets
from slipway import __version__
from slipway.converge.recorded import record_texts, wanted_again
from slipway.converge.wanted import wanted_on
from slipway.plan.model import Plan
from slipway.plan.recorded import RecordedError, plan_from


@dataclass(frozen=True)
class Releases:
    """Those of one host. about: by number, what is written about each. current: None when nothing is deployed."""

    about: Mapping[int, Mapping[str, Any]]
    current: int | None

    @property
    def proven(self) -> list[int]:
        """Those that served once, oldest first."""
        return [number for number, about in self.about.items() if about.get("state") not in ("failed", "damaged")]


def ask(run: Run, host: str, **request: Any) -> dict[str, Any]:
    """One request to a host's releases. Raises RemoteError with its reason."""
    plan = run.plan.host(host)
    text = json.dumps({"folder": plan.paths["releases"], **request})
    output = execute(run.hosts[host], inline("releases"), stdin=text)
    try:
        answer: dict[str, Any] = json.loads(output.stdout[-1])
    except (ValueError, IndexError):
        raise RemoteError(f"{host}: its releases could not be asked: {output.said}") from None
    if "error" in answer:
        raise RemoteError(f"{host}: {answer['error']}")
    return answer


def listed(run: Run) -> dict[str, Releases]:
    """The releases of every host. Raises RemoteError naming a host that does not answer."""
    found = {}
    for name in run.hosts:
        answer = ask(run, name, action="list")
        found[name] = Releases({row["release"]: row for row in answer["releases"]}, answer["current"])
    return found


# ---- writing


def due(run: Run) -> dict[str, tuple[int, str]]:
    """Hosts on which this run writes a release: its number, and the plan's text."""
    return {one.host: one.data for one in run.pending() if one.role == "rollout" and one.subject.startswith("release")}


def prepare(run: Run, hosts: Collection[str] = ()) -> None:
    """Write the release beside the others, unfinished, before anything that serves is touched. Raises RemoteError.

    hosts: only on these; all on which one is due by default.
    """
    answers = known_answers(ladder_of(run))
    for host, (number, text) in due(run).items():
        if hosts and host not in hosts:
            continue
        texts = record_texts(run.wanted[host], text, answers)
        texts["about.json"] = json.dumps(about(run, number, "unfinished")) + "\n"
        ask(run, host, action="write", number=number, texts=texts)
        run.notes.setdefault("prepared", {})[host] = number


def seal(run: Run, host: str, number: int) -> None:
    """What was proven gets its number, and is current. Raises RemoteError."""
    ask(run, host, action="finish", number=number, about=about(run, number, "proven"), current=True)
    run.notes.get("prepared", {}).pop(host, None)


def fail(run: Run, why: str, evidence: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What failed keeps its number, the reason and the evidence (by host, name -> text), and is never current.

    Where that lies, one line a host; a host that cannot take it says so in its line.
    """
    lines = []
    for host, number in run.notes.pop("prepared", {}).items():
        texts = {f"evidence/{name}": text for name, text in evidence.get(host, {}).items()}
        failed = {**about(run, number, "failed"), "reason": why}
        try:
            place = ask(run, host, action="finish", number=number, about=failed, texts=texts)["written"]
            lines.append(f"{host}:{place}/evidence")
        except RemoteError as error:
            lines.append(f"{host}: no evidence could be kept: {error}")
    return lines


def about(run: Run, number: int, state: str) -> dict[str, Any]:
    """Who, when, why, and what is in it. Times are this machine's: hosts' clocks may differ, numbers do not."""
    builds = sorted({build.id for host in run.plan.hosts for build in host.builds})
    served = [host.checkpoint for host in run.plan.hosts if host.checkpoint]
    checkpoints = sorted({f"{one.name}@{one.revision}" for one in served})
    return {"release": number, "state": state, "who": who(), "from": where(), "when": now(),
            "why": str(asked("why") or ""), "builds": builds, "checkpoints": checkpoints,
            "slipway": __version__}  # fmt: skip


# ---- putting back


def past(run: Run, number: int) -> Run:
    """The run as it would be for release `number`, compared with what is on the hosts now; nothing is changed.

    Hosts that came after the release have nothing to run in it. Raises RefusedError with everything that is in the way.
    """
    try:
        records = _records(run, number)
        plan = plan_from(next(iter(records.values()))["plan"])
        secrets = read_secrets(plan, run.opened.inventory.parent)
    except (RemoteError, RecordedError, SecretsError) as error:
        raise RefusedError(f"release {number} cannot be put back: {error}") from None
    _refuse_hosts(run, number, plan, records)
    whole = replace(plan, hosts=(*plan.hosts, *(run.plan.host(name) for name in run.hosts if name not in records)))
    wanted = {
        name: wanted_again(whole, name, records[name], secrets) if name in records else wanted_on(whole, name)
        for name in run.hosts
    }
    old = Run(whole, run.opened, run.facts, wanted, {}, run.hosts, notes=run.notes, past=number)
    first = next(iter(records.values()))
    old.record, old.answers = json.loads(first["plan"]), json.loads(first["known_answers"])
    refresh(old)
    _refuse_missing(old, number)
    return old


def _records(run: Run, number: int) -> dict[str, dict[str, Any]]:
    """What each host that has the release keeps of it. Raises RemoteError when none has it."""
    records: dict[str, dict[str, Any]] = {}
    problems = []
    for name in run.hosts:
        try:
            records[name] = ask(run, name, action="read", number=number)
        except RemoteError as error:
            problems.append(str(error))
    if not records:
        raise RemoteError("; ".join(problems))
    return records


def _refuse_hosts(run: Run, number: int, plan: Plan, records: Mapping[str, Any]) -> None:
    """A release is for the hosts that it was made for."""
    needed = [host.name for host in plan.hosts]
    gone = [name for name in needed if name not in run.hosts]
    if gone:
        raise RefusedError(
            f"release {number} was deployed on {', '.join(needed)}; the inventory has {', '.join(run.hosts)}: "
            f"{', '.join(gone)} was removed or renamed since. Put it back into the inventory under that name, or "
            "deploy what you want with the hosts as they are now; nothing was changed"
        )
    lacking = [name for name in needed if name not in records]
    if lacking:
        raise RefusedError(
            f"release {number} is not whole on {', '.join(lacking)}; `playbooks/releases.py` lists what each host has; "
            "nothing was changed"
        )


def _refuse_missing(old: Run, number: int) -> None:
    """A build or a checkpoint may have been pruned since, and a foreign process may hold a port."""
    lacking = [f"{one.host}: {one.subject}: {one.reason}" for one in old.pending()
               if one.role in ("engine", "checkpoint") or one.action == "refuse"]  # fmt: skip
    if lacking:
        raise RefusedError(
            f"release {number} cannot be put back, as it needs what is not there:\n    "
            + "\n    ".join(lacking)
            + "\n  a deploy with the configuration of that release brings it again; nothing was changed"
        )
