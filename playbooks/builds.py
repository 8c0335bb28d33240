"""What is built on each host, and with which patches: `pyinfra -y INVENTORY playbooks/builds.py`."""

from roles.builds.deploy import builds
from roles.run import inspect

run = inspect()
builds(run)
