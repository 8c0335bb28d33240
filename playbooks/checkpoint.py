"""The checkpoints of every host, and what is wrong with them: `pyinfra -y INVENTORY playbooks/checkpoint.py`.

SLIPWAY_CHECKPOINT=look (the default: size, time and inode), full (every byte; bad files go to quarantine), list,
dry or remove (what no release refers to).
"""

from roles.checkpoint.care import care
from roles.run import inspect

run = inspect()
care(run)
