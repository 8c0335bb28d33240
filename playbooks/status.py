"""What runs where, whether it is healthy, what a deploy would change: `pyinfra -y INVENTORY playbooks/status.py`."""

from roles.run import inspect, refresh_once
from roles.status.deploy import status

run = inspect()
refresh_once(run)
status(run)
