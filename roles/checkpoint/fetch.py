"""Has a host fetch its checkpoint from the Hub in a detached job; inspected there before it counts as complete."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, replace
from typing import Any

from pyinfra.api.host import Host

from roles import jobs
from roles.checkpoint.share import Sharing, sharing
from roles.remote import RemoteError, ask_agent, check
from roles.run import Run
from roles.secrets import SecretsError, read_token
from roles.write import write_rows
from slipway.checkpoint import Folder, Inspection, check_samples, inspect, samples_of, small_files
from slipway.converge.request import agent_path
from slipway.plan.hosts import build_of
from slipway.plan.hub import HubFiles
from slipway.plan.kind import source_of
from slipway.plan.model import CheckpointPlan, HostPlan

SAY_EVERY_S = 5.0
NOBODY_S = 60  # without an answer from any host that has it, an upload is the quicker way


def fetch(host: Host, run: Run, checkpoint: CheckpointPlan, files: HubFiles) -> None:
    """Fetch, inspect, seal. Raises RemoteError; all that came is kept for the next run."""
    plan, share = run.plan.host(host.name), sharing(run, checkpoint)
    try:
        place, rows = _given_token(run, plan, checkpoint, files)
        content = {
            **_request(checkpoint, share, share.enter(host.name), files), "repo": files.repo, "commit": files.commit,
            "endpoint": files.endpoint, "token_file": place, "passing_token": bool(rows),
        }  # fmt: skip
        python = f"{plan.paths['engines']}/{build_of(plan, 'hub')}/venv/bin/python"
        _run(host, plan, checkpoint, content, rows, python, files.deadline_s)
    finally:
        share.leave(host.name)
        check(host, ["rm", "-f", _token_path(plan, checkpoint)])
    _inspect(host, run, plan, checkpoint)
    _ask(host, plan, "seal", checkpoint.path)


def take(host: Host, run: Run, checkpoint: CheckpointPlan) -> None:
    """Take a checkpoint that another host has, or gets just now, from the controller. Raises RemoteError."""
    plan, share = run.plan.host(host.name), sharing(run, checkpoint)
    model = run.opened.deployment.host(host.name).model
    limits = HubFiles(
        "", {}, workers=model.fetch_workers, bandwidth=int(model.fetch_mb_per_s * 1e6), timeout_s=model.fetch_timeout_s,
        patience_s=min(model.fetch_patience_s, NOBODY_S), deadline_s=model.fetch_deadline_s,
    )  # fmt: skip
    try:
        told = _request(checkpoint, share, share.enter(host.name), limits)
        content = {**told, "repo": checkpoint.name, "commit": checkpoint.revision, "endpoint": ""}
        _run(host, plan, checkpoint, content, [], plan.python, limits.deadline_s)
    finally:
        share.leave(host.name)
    _ask(host, plan, "seal", checkpoint.path)


def _request(checkpoint: CheckpointPlan, share: Sharing, told: dict[str, Any], files: HubFiles) -> dict[str, Any]:
    return {
        "path": checkpoint.path, "files": share.files, "share": told, "workers": files.workers,
        "bandwidth": files.bandwidth, "timeout_s": files.timeout_s, "patience_s": files.patience_s,
        "every_s": SAY_EVERY_S,
    }  # fmt: skip


def _run(
    host: Host, plan: HostPlan, checkpoint: CheckpointPlan, content: dict[str, Any], rows: list[Any], python: str,
    deadline_s: float,
) -> None:  # fmt: skip
    """The job, from its request to its end."""
    name = f"checkpoint-{checkpoint.path.rpartition('/')[2]}"
    request = f"{plan.paths['jobs']}/{name}.json"
    rows = [*rows, {"path": request, "text": json.dumps(content), "mode": "644", "user": ""}]
    write_rows(host, {"files": rows})
    command = [python, agent_path(plan), "fetch", request]
    job = jobs.Job(name, f"{plan.paths['jobs']}/{name}", checkpoint.path, command)
    jobs.forget_ended(host, plan, job)
    jobs.start(host, plan, job)
    jobs.watch(host, plan, [job], deadline_s)


def _given_token(run: Run, plan: HostPlan, checkpoint: CheckpointPlan, files: HubFiles) -> tuple[str, list[Any]]:
    """Where the token for the Hub is on the host; what to write there, in a file that the job removes at once."""
    token = _token(run, files)
    if not token:
        return files.token.get("host_file", ""), []
    place = _token_path(plan, checkpoint)
    return place, [{"path": place, "text": token + "\n", "mode": "600", "user": ""}]


def _token_path(plan: HostPlan, checkpoint: CheckpointPlan) -> str:
    return f"{plan.paths['jobs']}/checkpoint-{checkpoint.path.rpartition('/')[2]}.token"


def _token(run: Run, files: HubFiles) -> str:
    try:
        return read_token(files.token, run.opened.inventory.parent)
    except SecretsError as error:
        raise RemoteError(str(error)) from None


def _inspect(host: Host, run: Run, plan: HostPlan, checkpoint: CheckpointPlan) -> None:
    """Structure, samples, and that the plan was made for what now lies there."""
    folder = _folder(_ask(host, plan, "headers", checkpoint.path))
    planned = run.opened.checkpoints.get(source_of(run.opened.deployment.host(host.name)))
    name = planned.checkpoint.name if isinstance(planned, Inspection) else checkpoint.name
    found = inspect(folder, name)
    windows = samples_of(found.headers)
    rows = [{"file": one.file, "offset": one.offset, "length": one.length} for one in windows]
    answers = _ask(host, plan, "windows", checkpoint.path, rows)
    samples = check_samples(zip(windows, map(_unpacked, answers), strict=True))
    bad = [item for item in (*found.findings, *samples) if item.severity == "error"]
    if bad:
        told = "; ".join(f"{item.subject}: {item.message}" for item in bad[:3])
        raise RemoteError(f"{checkpoint.path} is as the Hub lists it and still not sound: {told}; {bad[0].fix}")
    if isinstance(planned, Inspection):
        _agree(planned, found, checkpoint)


def _agree(planned: Inspection, found: Inspection, checkpoint: CheckpointPlan) -> None:
    before, after = (replace(one.checkpoint, findings=()) for one in (planned, found))
    if before != after:
        seen, there = asdict(before), asdict(after)
        differ = ", ".join(key for key in seen if seen[key] != there[key])
        fix = "run `slipway checkpoint facts` anew and look at the plan"
        raise RemoteError(f"{checkpoint.path} is not what the plan was made for: {differ} differ; {fix}")


def _folder(answer: Any) -> Folder:
    sizes = answer["sizes"]
    files = {name: _unpacked(answer["files"][name]) for name in small_files(sizes)}
    return Folder(files, sizes, {name: _unpacked(text) for name, text in answer["headers"].items()})


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _ask(host: Host, plan: HostPlan, action: str, path: str, request: Any = None) -> Any:
    output = ask_agent(host, plan, "recheck", action, path, request=request)
    if not output.ok:
        raise RemoteError(output.said)
    return json.loads(output.stdout[-1])
