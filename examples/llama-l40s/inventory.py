"""Llama-3.3-70B FP8 on one host with 4 L40S: unified workers, no disaggregation."""

from roles.inventory import hosts as _hosts

_login = {"ssh_user": "deploy", "_sudo": True}

unified = [("l40s-1", _login)]
router = [("l40s-1", _login)]

all = _hosts(__file__, globals())
