"""What happens around each step of a rollout, beside the step itself: who may, who watches, what is written down."""

from __future__ import annotations

from roles.audit import note
from roles.interrupt import check_interrupted
from roles.lock import still_held
from roles.putback import arm, confirm
from roles.run import Run
from slipway.rollout import Step


def before_step(run: Run, step: Step) -> None:
    """Called before anything of the step is done. Raises RemoteError to stop the rollout here."""
    still_held(run)
    if not run.past:  # what is put back after Ctrl-C is put back
        check_interrupted(run)
    arm(run, step)


def after_step(run: Run, step: Step) -> None:
    """Called when what the step started has been verified. Raises RemoteError when a host did not wait for that."""
    confirm(run)
    for host in sorted({one.host for one in (*step.instances, *step.leaving)}):
        names = [one.name for one in (*step.instances, *step.leaving) if one.host == host]
        note(run, host, f"{step.kind} {', '.join(dict.fromkeys(names))}", "ok")
