"""The same machine without disaggregation: one unified worker, for comparison."""

from roles.inventory import hosts as _hosts

unified = ["@local"]
router = ["@local"]

all = _hosts(__file__, globals())
