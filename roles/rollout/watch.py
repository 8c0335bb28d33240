"""What is to happen around each step of a rollout, beside the step itself."""

from __future__ import annotations

from roles.run import Run
from slipway.rollout import Step


def before_step(run: Run, step: Step) -> None:
    """Called before anything of the step is done. Raises RemoteError to stop the rollout here."""


def after_step(run: Run, step: Step) -> None:
    """Called when what the step started has been verified."""
