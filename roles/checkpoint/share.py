"""Lets hosts take a checkpoint from one another: a mirror on each while one of them fetches, and who asks whom.

Whoever comes first starts the mirrors of all, whoever leaves last ends them; one that is forgotten ends by itself.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Any

import gevent
from gevent.event import Event
from gevent.lock import BoundedSemaphore
from pyinfra import logger
from pyinfra import state as running
from pyinfra.api.host import Host

from roles import jobs
from roles.remote import RemoteError, check, ensure_agent
from roles.run import Run
from roles.write import write_rows
from slipway.converge.request import agent_path
from slipway.placement.addresses import endpoint, literal
from slipway.plan.model import CheckpointPlan, Files, HostPlan

LISTENS = "other hosts can take"
START_S = 10.0

_lock = BoundedSemaphore(1)


class Sharing:
    """One checkpoint in one run. members: hosts that have to fetch it; the others of `hosts` have it."""

    def __init__(self, run: Run, checkpoint: CheckpointPlan, files: dict[str, list[Any]]) -> None:
        self.run, self.checkpoint, self.files = run, checkpoint, files
        self.hosts = _hosts_with(run, checkpoint)
        self.members = [name for name in self.hosts if _to_fetch(run, name, checkpoint)]
        self.inside: set[str] = set()
        self.urls: dict[str, str] = {}
        self.token = secrets.token_urlsafe(32)
        self.uploaded, self.uploader, self.failed = Event(), "", False

    @property
    def worth_it(self) -> bool:
        """Whether anybody else could give something."""
        total = sum(size for size, _ in self.files.values())
        settings = [self.run.opened.deployment.host(name).model for name in self.hosts]
        return len(self.hosts) > 1 and all(one.share and total >= one.share_from_mb * 1e6 for one in settings)

    def to_upload(self, name: str) -> bool:
        """Whether this host is the one that gets it from the controller: nobody has it, and nobody else is."""
        with _lock:
            if not self.uploader and len(self.members) == len(self.hosts):
                self.uploader = name
            return self.uploader == name

    def wait_uploaded(self) -> None:
        """Until some host has it. Raises RemoteError when the upload failed."""
        if self.uploader:
            self.uploaded.wait()
        if self.failed:
            raise RemoteError(f"{self.checkpoint.path} was to come from {self.uploader}, where the upload failed")

    def enter(self, name: str) -> dict[str, Any]:
        """The part of a fetch's request that says whom to ask; {} when there is nobody."""
        with _lock:
            if self.worth_it and not self.inside:
                self.urls = dict(_started(self))
            self.inside.add(name)
        peers = {other: url for other, url in self.urls.items() if other != name}
        if not peers or name not in self.urls:
            return {}
        members = [other for other in self.members if other in self.urls and other != self.uploader]
        return {"me": name, "members": members, "peers": peers, "token_file": self.token_path(name)}

    def leave(self, name: str) -> None:
        """The last one closes the doors."""
        with _lock:
            self.inside.discard(name)
            if self.urls and not self.inside:
                _together(self, self.urls, _stop)
                self.urls = {}

    def token_path(self, name: str) -> str:
        """Where the token of this run lies on a host."""
        return f"{self.run.plan.host(name).paths['jobs']}/{_job_name(self.checkpoint)}.token"


def sharing(run: Run, checkpoint: CheckpointPlan) -> Sharing:
    """The one of this run for a checkpoint."""
    files = checkpoint.files.entries if checkpoint.files else {}
    entries = {name: [size, digest if ":" in digest else f"sha256:{digest}"] for name, (size, digest) in files.items()}
    with _lock:
        found: Sharing = run.notes.setdefault(f"share {checkpoint.path}", Sharing(run, checkpoint, entries))
    return found


def _hosts_with(run: Run, checkpoint: CheckpointPlan) -> list[str]:
    """Hosts of this run that have or get the checkpoint, each at an address of its own that the others reach."""
    found: dict[str, str] = {}
    for host in run.plan.hosts:
        same = host.checkpoint and host.checkpoint.path == checkpoint.path and isinstance(host.checkpoint.files, Files)
        known = literal(host.address)
        if same and running.is_host_in_limit(run.hosts[host.name]) and not (known and known.is_loopback):
            found.setdefault(host.address, host.name)
    return list(found.values())


def _to_fetch(run: Run, name: str, checkpoint: CheckpointPlan) -> bool:
    mine = [change for change in run.changes[name] if change.role == "checkpoint"]
    return any(change.data.path == checkpoint.path for change in mine)


def _started(share: Sharing) -> Iterable[tuple[str, str]]:
    """Hosts whose mirror listens, with its URL; one that cannot is told, and does without."""
    listening = _together(share, share.hosts, _start)
    for name in share.hosts:
        port = share.run.opened.deployment.host(name).model.share_port
        if listening[name]:
            yield name, f"http://{endpoint(share.run.plan.host(name).address, port)}"
        else:
            what = f"other hosts cannot take {share.checkpoint.path} from it, at port {port} (model.share_port)"
            logger.warning(f"    {name}: {what}; they do without")


def _together(share: Sharing, names: Iterable[str], what: Any) -> dict[str, bool]:
    spawned = {name: gevent.spawn(what, share, share.run.hosts[name], share.run.plan.host(name)) for name in names}
    gevent.joinall(list(spawned.values()))
    return {name: bool(job.value) for name, job in spawned.items()}


def _start(share: Sharing, host: Host, plan: HostPlan) -> bool:
    """A mirror on one host, with the token of this run."""
    job, request = _job(share, plan), f"{plan.paths['jobs']}/{_job_name(share.checkpoint)}.json"
    content = {
        "path": share.checkpoint.path, "files": share.files, "address": plan.address, "user": plan.user,
        "port": share.run.opened.deployment.host(host.name).model.share_port, "token_file": share.token_path(host.name),
        "pending": host.name in share.members,
    }  # fmt: skip
    rows = [
        {"path": share.token_path(host.name), "text": share.token + "\n", "mode": "600", "user": ""},
        {"path": request, "text": json.dumps(content), "mode": "644", "user": ""},
    ]
    try:
        ensure_agent(host, plan)
        jobs.stop(host, plan, job)
        write_rows(host, {"files": rows})
        jobs.forget_ended(host, plan, job)
        jobs.start(host, plan, job)
        return jobs.says(host, plan, job, LISTENS, START_S)
    except RemoteError as error:
        logger.warning(f"{host.print_prefix}{error}")
        return False


def _stop(share: Sharing, host: Host, plan: HostPlan) -> bool:
    """No door stays open, and no token behind."""
    try:
        jobs.stop(host, plan, _job(share, plan))
        check(host, ["rm", "-f", share.token_path(host.name)])
    except RemoteError as error:
        logger.warning(f"{host.print_prefix}the mirror there ends by itself once nobody asks: {error}")
        return False
    return True


def _job(share: Sharing, plan: HostPlan) -> jobs.Job:
    name = _job_name(share.checkpoint)
    folder = f"{plan.paths['jobs']}/{name}"
    command = [plan.python, agent_path(plan), "fetch_mirror", f"{folder}.json"]
    return jobs.Job(name, folder, share.checkpoint.path, command)


def _job_name(checkpoint: CheckpointPlan) -> str:
    return f"mirror-{checkpoint.path.rpartition('/')[2]}"
