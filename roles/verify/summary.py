"""Prints what serves, how to try it and how to stop it, as the last thing of a deploy."""

from __future__ import annotations

import atexit

import click

from roles.inventory import again
from slipway.plan.model import Plan
from slipway.report import summary_lines

FAVOURITE = "391"  # the answer that the origin campaign was proven by


def print_at_exit(plan: Plan, answers: dict[str, str]) -> None:
    """pyinfra prints its own table after the last operation; ours comes after that. answers: as received."""
    pairs = list(answers.items())
    question, answer = next((pair for pair in pairs if pair[1].strip() == FAVOURITE), pairs[0] if pairs else ("", ""))
    lines = summary_lines(plan, question, answer, again("destroy"))
    atexit.register(lambda: click.echo("\n".join(lines)))
