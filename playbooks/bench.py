"""Measures the deployment under a label: `pyinfra -y INVENTORY playbooks/bench.py --data label=NVFP4_marlin`.

What is measured: bench.sweep in group_vars, or --data bench.sweep=standard. It runs as a detached job; the same command
takes it up again after a lost connection. --data repeats=3: have three repeats in all. Results: bench/LABEL/.
"""

from roles.bench.deploy import bench
from roles.lock import keep
from roles.run import current

run = current()
keep(run, "bench")  # as a step of an experiment, whose lock it is
bench(run)
