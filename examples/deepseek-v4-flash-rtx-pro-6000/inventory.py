"""DeepSeek-V4-Flash NVFP4 on one host with 8 RTX PRO 6000: prefill on four GPUs, decode on the other four."""

from roles.inventory import hosts as _hosts

_login = {"ssh_user": "deploy", "_sudo": True}

prefill = [("rtx1", _login)]
decode = [("rtx1", _login)]
router = [("rtx1", _login)]

all = _hosts(__file__, globals())
