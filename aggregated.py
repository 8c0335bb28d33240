"""This machine without disaggregation: one unified worker behind the router, for comparison (experiments/cpu.yml)."""

from roles.inventory import hosts as _hosts

unified = ["@local"]
router = ["@local"]

all = _hosts(__file__, globals())
