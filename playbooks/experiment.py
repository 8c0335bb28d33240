"""Measures variants of a deployment in turn: `pyinfra -y INVENTORY playbooks/experiment.py --data name=NAME`.

experiments/NAME.yml says which. Each is deployed, verified and measured; then the baseline is put back. The same
command goes on where a killed one ended. With --dry it only says what would be measured, and what the plan refuses.
"""

from roles.experiment.deploy import experiment

experiment()
