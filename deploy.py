"""Converges every host of an inventory to the plan: `pyinfra INVENTORY deploy.py`. A table of contents."""

from roles.builds.deploy import prune
from roles.checkpoint.deploy import checkpoint
from roles.engine.deploy import engine
from roles.hooks import around
from roles.host.deploy import host
from roles.lock import hold
from roles.rollout.deploy import record, rollout
from roles.router.deploy import router
from roles.run import current
from roles.verify.deploy import verify
from roles.verify.periodic import periodic
from roles.worker.deploy import worker

run = current()  # facts of all hosts, the plan, and what will change; errors end the run here
hold(run, "deploy")  # one run at a time changes a deployment; a dry run and a run without changes take no lock
around(run, "deploy")  # the operator's hooks/

host(run)
engine(run)  # beside what runs: a build is never changed
checkpoint(run)
worker(run)
router(run)
rollout(run)  # from here on, what serves is touched
verify(run)
periodic(run)
record(run)  # only what was proven becomes the current release
prune(run)  # builds that no release refers to, beyond host.builds_kept
