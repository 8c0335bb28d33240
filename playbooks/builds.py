"""What is built on each host, and with which patches: `pyinfra -y INVENTORY playbooks/builds.py`.

SLIPWAY_BUILDS=list (the default), dry or remove (what no release refers to, beyond the newest host.builds_kept of a
kind; none is kept where that is not set).
"""

from roles.builds.deploy import builds
from roles.run import inspect

run = inspect()
builds(run)
