"""Puts a release back: `pyinfra -y INVENTORY playbooks/rollback.py`; the previous one, or --data release=N."""

from roles.hooks import around
from roles.lock import hold
from roles.rollout.rollback import rollback
from roles.run import inspect

run = inspect()
hold(run, "rollback", make=False)
around(run, "rollback")  # the operator's hooks/
rollback(run)
