"""What a blue-green rollout puts on hosts for the time that it takes: the files of the second set."""

from __future__ import annotations

from dataclasses import replace

from roles.remote import check
from roles.run import RefusedError, Run
from roles.secrets import SecretsError, read_secrets
from roles.write import write_rows
from slipway.converge.wanted import wanted_on
from slipway.rollout import Green, with_green


def green_run(run: Run, green: Green) -> Run:
    """The run with the second set in its plan. Raises RefusedError when its secrets cannot be read."""
    plan = with_green(run.plan, green)
    try:
        secrets = read_secrets(plan, run.opened.inventory.parent)
    except SecretsError as error:
        raise RefusedError(str(error)) from None
    return replace(run, plan=plan, wanted={name: wanted_on(plan, name, secrets) for name in run.wanted})


def write_green(run: Run, final: Run) -> None:
    """Folders and files that the second set needs beside the plan's. Raises RemoteError."""
    for name, wanted in run.wanted.items():
        known = {one.path for one in (*final.wanted[name].folders, *final.wanted[name].files)}
        for folder in wanted.folders:
            if folder.path not in known:
                check(run.hosts[name], ["install", "-d", "-m", folder.mode, "-o", folder.user, folder.path])
        rows = [{"path": one.path, "text": one.text, "mode": one.mode, "user": one.user}
                for one in wanted.files if one.path not in known]  # fmt: skip
        if rows:
            write_rows(run.hosts[name], {"files": rows})
