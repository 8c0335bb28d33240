"""Runs the operator's own programs around a deploy, a rollout and a rollback, on the controller.

hooks/pre-deploy and the like, beside the inventory or at the top of the checkout: an executable, or a folder of
executables that run in the order of their names. Each gets one JSON object on standard input: hook, deployment,
inventory, run ({id, who, from, what, since}), plan, changes, and after the fact result ('ok', 'failed' or
'interrupted'). A hook before that fails stops the run; one after is only told of: what was done is done.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import gevent
from gevent import subprocess
from gevent.lock import BoundedSemaphore

from roles.inventory import option
from roles.lock import at_end, settings
from roles.run import RefusedError, Run
from slipway.front import project_root
from slipway.plan.model import to_json

_once = BoundedSemaphore(1)


def around(run: Run, moment: str) -> None:
    """A playbook's line after it has its lock: pre-MOMENT now, once for all hosts, and post-MOMENT at its end.

    Raises RefusedError when a hook fails. Without a lock or a change nothing is changed, and no hook runs.
    """
    with _once:
        if "hook refused" in run.notes:
            raise RefusedError(run.notes["hook refused"])
        idle = run.changes and not run.pending()
        if "lock" not in run.notes or idle or f"hooks {moment}" in run.notes:
            return
        run.notes[f"hooks {moment}"] = True
        try:
            before(run, moment)
        except RefusedError as error:
            run.notes["hook refused"] = str(error)
            raise
        at_end(run, lambda result: after(run, moment, result))


def before(run: Run, moment: str) -> None:
    """Run the hooks pre-MOMENT. Raises RefusedError at the first that fails; a dry run runs none."""
    for path in _hooks(run, f"pre-{moment}"):
        problem = _run(run, path, f"pre-{moment}", {})
        if problem:
            untouched = "nothing that serves was touched" if moment == "rollout" else "nothing was changed"
            raise RefusedError(f"{path} {problem}; {untouched}")


def after(run: Run, moment: str, result: str) -> None:
    """Run the hooks post-MOMENT. result: how it ended."""
    for path in _hooks(run, f"post-{moment}"):
        problem = _run(run, path, f"post-{moment}", {"result": result})
        if problem:
            click.echo(f"    warning: {path} {problem}; the {moment} itself is over ({result})", err=True)


def _hooks(run: Run, name: str) -> list[Path]:
    """Beside the inventory, else at the top of the checkout. Raises RefusedError for one that cannot be executed."""
    if option("dry"):
        return []
    for folder in (run.opened.inventory.parent, project_root()):
        place = folder / "hooks" / name
        if place.exists():
            found = sorted(place.iterdir()) if place.is_dir() else [place]
            return [_executable(path) for path in found if not path.name.startswith((".", "README"))]
    return []


def _executable(path: Path) -> Path:
    if not path.is_file() or not os.access(path, os.X_OK):
        raise RefusedError(f"{path} is no executable file; chmod +x it, or move it out of hooks/")
    return path


def _run(run: Run, path: Path, name: str, more: dict[str, Any]) -> str:
    """'' or why the hook failed. Its output is shown as it comes."""
    click.echo(f"--> Hook {name}: {path}", err=True)
    limit = settings(run).hook_timeout_s
    with _standard_input(_told(run, name) | more) as stdin:
        try:
            process = subprocess.Popen(
                [str(path)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                cwd=run.opened.inventory.parent, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return f"cannot be run: {error.strerror}"
        return _watch(process, limit)


def _watch(process: Any, limit: int) -> str:
    shown = gevent.spawn(_show, process.stdout)
    try:
        rc = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        rc = None
    with contextlib.suppress(ProcessLookupError):  # what it started and left goes with it
        os.killpg(process.pid, signal.SIGKILL)
    shown.join(timeout=5)
    if rc is None:
        process.wait()
        return f"did not end within {limit} s (rollout.hook_timeout_s) and was killed"
    return f"ended with {rc}" if rc else ""


def _show(stream: Any) -> None:
    for line in stream:
        click.echo(f"    {line.decode('utf-8', 'replace').rstrip()}", err=True)


@contextlib.contextmanager
def _standard_input(told: dict[str, Any]) -> Iterator[Any]:
    """A file, so that a hook that reads nothing holds nobody up."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(told).encode())
        file.seek(0)
        yield file


def _told(run: Run, name: str) -> dict[str, Any]:
    lock = run.notes.get("lock")
    keys = ("id", "who", "from", "what", "since")
    changes = [{key: getattr(one, key) for key in ("host", "role", "action", "subject", "reason")}
               for one in run.pending()]  # fmt: skip
    return {
        "hook": name,
        "deployment": run.plan.deployment,
        "inventory": str(run.opened.inventory),
        "run": {key: lock.holder[key] for key in keys} if lock else {},
        "plan": to_json(run.plan),
        "changes": changes,
    }
