"""What differs between the deployed release and the plan: `pyinfra -y INVENTORY playbooks/difference.py`."""

from roles.difference.deploy import difference
from roles.run import inspect

difference(inspect())
