"""Two H200s of this machine: prefill on one, decode on the other, the router beside them."""

from roles.inventory import hosts as _hosts

prefill = ["@local"]
decode = ["@local"]
router = ["@local"]

all = _hosts(__file__, globals())
