"""Qwen3-235B FP8 on one host with 8 H200: one prefill of four GPUs, two decodes of two."""

from roles.inventory import hosts as _hosts

_login = {"ssh_user": "deploy", "_sudo": True}

prefill = [("h200-1", _login)]
decode = [("h200-1", _login)]
router = [("h200-1", _login)]

all = _hosts(__file__, globals())
