"""Stops a deployment and removes what was made for it: `pyinfra INVENTORY playbooks/destroy.py`; asks, unless -y."""

from roles.destroy.deploy import confirm, destroy
from roles.lock import hold
from roles.run import inspect

run = inspect()
confirm(run)
hold(run, "destroy", make=False)
destroy(run)
