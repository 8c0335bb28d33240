"""What the plan changes in the deployed release: `pyinfra -y INVENTORY playbooks/difference.py`.

--data release=3 compares release 3 with the plan, --data release=3..4 two releases.
"""

from roles.difference.deploy import difference
from roles.run import inspect

difference(inspect())
