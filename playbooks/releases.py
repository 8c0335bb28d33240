"""What was deployed on each host, when, by whom and why: `pyinfra -y INVENTORY playbooks/releases.py`."""

from roles.rollout.rollback import releases
from roles.run import inspect

releases(inspect())
