"""The last words of a run whose rollout failed: pyinfra's own, "No hosts remaining!", tell an operator nothing."""

from __future__ import annotations

import atexit

import click

from roles.inventory import again
from roles.rollout.back import Outcome
from roles.run import Run
from slipway.report import failure_lines


def failed_at_exit(run: Run, error: Exception, outcome: Outcome) -> None:
    """Print why, what serves now and where the evidence lies, after everything that pyinfra prints."""
    lines = failure_lines(run.plan.deployment, str(error), outcome.serves, outcome.evidence, again("status"))
    atexit.register(lambda: click.echo("\n".join(lines), err=True))
