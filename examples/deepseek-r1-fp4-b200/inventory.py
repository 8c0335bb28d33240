"""DeepSeek-R1 FP4 on two hosts with 8 B200 each: one prefills, one decodes, KV goes over RDMA."""

from roles.inventory import hosts as _hosts

_login = {"ssh_user": "deploy", "_sudo": True}

prefill = [("b200-1", _login)]
decode = [("b200-2", _login)]
router = [("b200-1", _login)]

all = _hosts(__file__, globals())
