"""Where a worker's time goes, by the engine's own profiler: `pyinfra -y INVENTORY playbooks/profile.py`.

--data worker=decode-0 (the default: the first decode), --data seconds=3, --data streams=8: a known load goes through
the router meanwhile. Traces, table and picture: profile/LABEL/ beside the inventory (--data label=NAME; else named by
worker and time).
"""

from roles.profile.deploy import profile
from roles.run import inspect

run = inspect()
profile(run)
