"""Role experiment: goes through experiments/NAME.yml, each of its steps a pyinfra run of its own.

One run of pyinfra has one plan; every variant has another, so deploy.py and playbooks/bench.py are run anew for each.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import state
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles.inventory import asked, option, overrides
from roles.run import RefusedError
from slipway.commands.experiment import conduct

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_lock = BoundedSemaphore(1)
_planned: set[str] = set()


@deploy("Experiment")
def experiment() -> None:
    """Plan, deploy, verify and measure each variant of the experiment that --data name=NAME names."""
    name = asked("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RefusedError(f"--data name={name}: must name a file of experiments/, such as --data name=campaign")
    if option("dry"):
        _plan(name)
    variants(name="Measure the variants", experiment=name)


@operation()
def variants(experiment: str) -> Generator[Any, None, None]:
    """Go through it once, from the host that comes first.

    Example: `variants(name="Measure the variants", experiment="campaign")`.
    """
    if state.is_executing and current_host.name == next(iter(state.inventory)).name:
        yield FunctionCommand(_conduct, (experiment,), {})
    else:
        current_host.noop("the experiment is run once for all hosts")


def _conduct(state: Any, host: Host, experiment: str) -> bool:
    return conduct(experiment, host.data.slipway_inventory, overrides()) == 0


def _plan(name: str) -> None:
    with _lock:
        if name not in _planned:
            _planned.add(name)
            conduct(name, current_host.data.slipway_inventory, overrides(), "plan")
