"""The default inventory: this machine alone, with one prefill, one decode and a router on it.

Groups name roles; a host may be in several. For real hosts put their names here, for example
`prefill = ["gpu1", ("gpu2", {"ssh_user": "deploy"})]`, or keep an inventory of your own beside this one:
examples/ has several.
"""

from roles.inventory import hosts as _hosts

prefill = ["@local"]
decode = ["@local"]
router = ["@local"]

all = _hosts(__file__, globals())
