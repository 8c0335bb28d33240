"""Runs load and profiler as detached jobs on their hosts, and fetches what the engine wrote."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyinfra import logger
from pyinfra.api.host import Host

from roles.asking import asking_of
from roles.jobs import Job, says, start, watch
from roles.remote import BROKEN, RemoteError, agent_command, broken, check, ensure_agent, execute, privileges
from roles.run import Run
from roles.write import write_rows
from slipway.plan.model import HostPlan, Instance
from slipway.plan.paths import instance_tmp
from slipway.plan.urls import url_of

RAMP_S = 60.0  # so long the first answer is waited for before the profiler is started
START_S = 120.0  # a profiler takes its time to start, on a busy host many seconds: the load goes on meanwhile
ANSWERS, WRITING = " requests, ", "writes its traces"  # what load and profiler say
WRITE_S = 600.0  # an engine with many GPUs writes its traces for minutes
# An API key goes to the load by its environment, and to that by a file which is gone at once.
WITH_KEY = 'SLIPWAY_LOAD_KEY=$(cat "$0") && rm -f "$0" && export SLIPWAY_LOAD_KEY && exec "$@"'
LARGEST = 2_000_000_000  # bytes of traces that are fetched


@dataclass(frozen=True)
class Wish:
    """What is to be profiled: how long, under how many streams, and where results go on the controller."""

    worker: Instance
    seconds: float
    streams: int
    results: Path


def record(run: Run, wish: Wish) -> tuple[dict[str, int], dict[str, Any]]:
    """Sizes of the traces on the worker's host, and the load's own record. Raises RemoteError.

    Both jobs end by themselves, whatever becomes of us; a profiler that is on stops with its job. The load goes on
    until the engine has recorded for as long as it was to.
    """
    entry, load = _load_job(run, wish)
    recorder = _record_job(run, wish)
    client, plan = run.hosts[entry], run.plan.host(entry)
    check(client, ["rm", "-f", _end(load)])
    start(client, plan, load)
    says(client, plan, load, ANSWERS, RAMP_S)
    worker, here = run.hosts[wish.worker.host], run.plan.host(wish.worker.host)
    start(worker, here, recorder)
    try:
        watch(worker, here, [recorder], wish.seconds + WRITE_S, until=WRITING)
    finally:
        execute(client, ["touch", _end(load)])
    watch(worker, here, [recorder], 2 * WRITE_S)
    sizes = _last_json(worker, recorder)["files"]
    found = _load_record(client, plan, load, wish.seconds + 600)
    for host, job in ((worker, recorder), (client, load)):
        execute(host, ["rm", "-rf", job.folder, _end(job)])
    return sizes, found


def _end(job: Job) -> str:
    """The file that ends a load."""
    return f"{job.folder}.end"


def _load_job(run: Run, wish: Wish) -> tuple[str, Job]:
    """The host that the load comes from, and its job: closed-loop streams through the router."""
    routers = run.plan.of("router")
    entry = routers[0] if routers else wish.worker
    plan = run.plan.host(entry.host)
    ensure_agent(run.hosts[entry.host], plan)
    served = next(host.checkpoint.served_name for host in run.plan.hosts if host.checkpoint)
    duration = RAMP_S + START_S + wish.seconds  # should nobody end it
    words = [
        "--url",
        url_of(entry),
        "--insecure",
        "--model",
        served,
        "--streams",
        str(wish.streams),
        "--duration",
        f"{duration:g}",
    ]
    command = agent_command(plan, "load", *words, "--input", "128", "--output", "64")
    folder = f"{plan.paths['jobs']}/profile-load-{run.plan.deployment}"
    command += ["--until", f"{folder}.end"]
    secret = asking_of(run, run.plan).key
    if secret:
        write_rows(run.hosts[entry.host], {"files": [_private(f"{folder}.key", secret)]})
        command = ["sh", "-c", WITH_KEY, f"{folder}.key", *command]
    return entry.host, Job("load", folder, _key(), command)


def _private(path: str, text: str) -> dict[str, str]:
    """A file that only its owner reads, and that who reads it removes."""
    return {"path": path, "text": text, "mode": "600", "user": ""}


def _record_job(run: Run, wish: Wish) -> Job:
    """The job on the worker's host; what it is asked, the API key among it, is in a private file."""
    host, plan = run.hosts[wish.worker.host], run.plan.host(wish.worker.host)
    ensure_agent(host, plan)
    folder = f"{plan.paths['jobs']}/profile-{run.plan.deployment}"
    request = {
        "url": url_of(wish.worker),
        "key": asking_of(run, run.plan).key,
        "folder": trace_folder(run, wish.worker),
        "user": plan.user,
        "seconds": wish.seconds,
        "activities": ["CPU", "GPU"],
        "timeout_s": WRITE_S,
    }
    path = f"{folder}.json"
    write_rows(host, {"files": [_private(path, json.dumps(request))]})
    return Job("profiler", folder, _key(), agent_command(plan, "profile", path))


def _load_record(client: Host, plan: HostPlan, job: Job, deadline_s: float) -> dict[str, Any]:
    """What the load saw; requests that failed are in it. Raises RemoteError."""
    try:
        watch(client, plan, [job], deadline_s)
    except RemoteError as error:
        logger.warning(f"    {error}")
    return _last_json(client, job)


def _key() -> str:
    """Each call is a profile of its own."""
    return f"profile {time.time_ns()}"


def trace_folder(run: Run, worker: Instance) -> str:
    """Where the engine may write: its own folder for temporary files."""
    paths = run.plan.host(worker.host).paths
    return f"{instance_tmp(paths, run.plan.deployment, worker.name)}/profile"


def _last_json(host: Host, job: Job) -> dict[str, Any]:
    """What a job said last. Raises RemoteError."""
    output = check(host, ["tail", "-n", "1", f"{job.folder}/log"])
    try:
        found: dict[str, Any] = json.loads(output.stdout[-1])
    except (ValueError, IndexError):
        raise RemoteError(f"the job {job.name} did not say what it did: {output.said[:200]}") from None
    return found


def fetch(run: Run, wish: Wish, sizes: Mapping[str, int]) -> list[Path]:
    """The traces on the controller; they are removed from the host. Raises RemoteError."""
    host, folder = run.hosts[wish.worker.host], trace_folder(run, wish.worker)
    total = sum(sizes.values())
    if total > LARGEST:
        where = f"they lie in {folder} on {host.name}"
        raise RemoteError(f"the traces have {total / 1e9:.1f} GB, {where}; profile for less than {wish.seconds:g} s")
    wish.results.mkdir(parents=True, exist_ok=True)
    logger.info(f"    fetching {len(sizes)} trace(s), {total / 1e6:.1f} MB")
    paths = [_download(host, f"{folder}/{name}", wish.results / name, size) for name, size in sorted(sizes.items())]
    check(host, ["rm", "-rf", folder])
    return paths


def _download(host: Host, source: str, target: Path, size: int) -> Path:
    sink = io.BytesIO()
    try:
        done = host.get_file(source, sink, **privileges(host))
    except BROKEN as error:
        raise RemoteError(broken(host, error)) from None
    if not done or len(sink.getvalue()) != size:
        raise RemoteError(f"{source} on {host.name} could not be fetched whole")
    target.write_bytes(sink.getvalue())
    return target
