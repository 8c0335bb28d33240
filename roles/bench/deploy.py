"""Role bench: one labelled sweep, on a deployment that is what its plan says and that verifies."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import logger, state
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles.asking import asking_of
from roles.bench.gpus import Samplers
from roles.bench.place import OnController, OnHost, Place
from roles.bench.session import Session
from roles.inventory import asked
from roles.ladder import climb, explain, ladder_of, show
from roles.lock import still_held
from roles.remote import RemoteError
from roles.run import RefusedError, Run
from slipway.bench.errors import BenchError
from slipway.bench.folder import LABEL
from slipway.bench.subject import host_facts, plan_hash, provenance
from slipway.bench.sweep import sweep_request
from slipway.hardware import parse
from slipway.plan.model import Files, to_json

CONTROLLER = "controller"
_lock = BoundedSemaphore(1)


@deploy("Bench")
def bench(run: Run) -> None:
    """Measure under the label that --data label=NAME gives."""
    with _lock:
        if "bench" not in run.notes:
            run.notes["bench"] = _prepared(run)
    sweep(name="Measure", run=run)


@operation()
def sweep(run: Run) -> Generator[Any, None, None]:
    """Run the sweep once, from the host that comes first.

    Example: `sweep(name="Measure", run=run)`.
    """
    if state.is_executing and current_host.name == next(iter(run.hosts)):
        yield FunctionCommand(_measure, (run,), {})
    else:
        current_host.noop("the sweep is run once for all hosts")


def _prepared(run: Run) -> dict[str, Any]:
    """Everything that can be refused before a host is touched. Raises RefusedError."""
    label, repeats = asked("label"), asked("repeats")
    if not isinstance(label, str) or not LABEL.fullmatch(label):
        raise RefusedError(
            f"--data label={label}: must be letters, digits, dots, dashes and underscores; "
            "the results are kept under it, such as --data label=NVFP4_marlin"
            if label is not None
            else "a sweep needs a label that its results are kept under: --data label=NVFP4_marlin"
        )
    if repeats is not None and (not isinstance(repeats, int) or repeats < 1):
        raise RefusedError(f"--data repeats={repeats}: must be how many repeats there shall be in all, such as 3")
    try:
        request = sweep_request(run.plan, _settings(run).bench, label, _tokenizer(run))
    except BenchError as error:
        raise RefusedError(str(error)) from None
    _refuse_pending(run)
    return {"label": label, "repeats": repeats, "request": request}


def _tokenizer(run: Run) -> str | None:
    """Where the tokenizer may lie on the client's host: prompts are drawn from its words."""
    name = _settings(run).bench.host or _settings(run).name
    if name == CONTROLLER:
        sources = [files.source for files in run.opened.files.values() if isinstance(files, Files)]
        return next((f"{source}/tokenizer.json" for source in sources), None)
    checkpoint = run.plan.host(name).checkpoint if name in run.hosts else None
    return f"{checkpoint.path}/tokenizer.json" if checkpoint else None


def _refuse_pending(run: Run) -> None:
    """Results record the plan; a deployment that is not what the plan says would make that a lie."""
    if run.pending():
        raise RefusedError(
            f"what is deployed is not what is configured: {len(run.pending())} change(s), printed above, are due; "
            "deploy first, then measure"
        )


def _settings(run: Run) -> Any:
    return run.opened.deployment.host(run.plan.of("router")[0].host)


def _measure(state: Any, host: Host, run: Run) -> bool:
    try:
        return _run(run)
    except (RemoteError, BenchError) as error:
        logger.error(f"    {error}")
        return False


def _run(run: Run) -> bool:
    notes, place = run.notes["bench"], _place(run)
    results = run.opened.inventory.parent / "bench"
    deadline_s = _settings(run).bench.deadline_s
    samplers = Samplers(run, notes["label"], deadline_s)
    session = Session(place, results, notes["label"], deadline_s, samplers)
    if not session.runs():
        repeat = session.wanted(notes["repeats"])
        if repeat is None:
            return session.finish()
        if not _proven(run):
            logger.error("    the deployment does not verify, so it is not measured; repair it, then measure")
            return False
        record, plan = _provenance(run, notes["label"]), json.dumps(to_json(run.plan))
        session.start(repeat, notes["request"], record, plan, asking_of(run, run.plan))
    samplers.start()
    ended = session.watch(lambda: still_held(run))
    samplers.stop()
    return session.finish() and ended


def _place(run: Run) -> Place:
    """Where the client runs. Raises RemoteError."""
    settings = _settings(run)
    name = settings.bench.host or settings.name
    results = run.opened.inventory.parent / "bench"
    if name == CONTROLLER:
        return OnController(Path(results), run.plan.deployment)
    if name not in run.hosts:
        allowed = ", ".join([*run.hosts, CONTROLLER])
        raise RemoteError(f"bench.host: got {name}; must be one of {allowed}")
    return OnHost(run.hosts[name], run.plan.host(name), run.plan.deployment)


def _proven(run: Run) -> bool:
    ladder = ladder_of(run)
    rows = climb(ladder)
    show(rows)
    explain(ladder, rows)
    return all(row.ok for row in rows)


def _provenance(run: Run, label: str) -> dict[str, Any]:
    drivers = {host.name: host_facts(parse(run.facts[host.name].probe)) for host in run.plan.hosts}
    record = provenance(run.plan, label, _settings(run), drivers)
    assert record["plan"] == plan_hash(run.plan)
    return {**record, "release": _release(run)}


def _release(run: Run) -> int | None:
    """Number of the release that is current on the router's host."""
    name = _settings(run).name
    found = run.states[name]["files"][f"{run.plan.host(name).paths['deployment']}/current"]
    number = str(found.get("target", "")).rpartition("/")[2]
    return int(number) if number.isdigit() else None
