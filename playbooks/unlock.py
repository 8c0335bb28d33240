"""Gives back a lock that no run uses any more: `pyinfra -y INVENTORY playbooks/unlock.py --data break_lock=ID`.

A refused run names the ID. An experiment gives its own lock back by this at its end.
"""

from roles.lock import unlock
from roles.run import inspect

unlock(inspect())
