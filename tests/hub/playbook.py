"""A deploy up to the checkpoint, with the build that fetches it: what comes after it is tested elsewhere."""

PLAYBOOK = """
from roles.checkpoint.deploy import checkpoint
from roles.engine.deploy import engine
from roles.host.deploy import host
from roles.run import current

run = current()
for name, changes in run.changes.items():
    run.changes[name] = [one for one in changes if one.role != "engine" or "build hub" in one.subject]
host(run)
engine(run)
checkpoint(run)
"""
