"""Kimi-K2 INT4 on two hosts with 8 H200 each: one worker over both, TP in a host and PP between them."""

from roles.inventory import hosts as _hosts

_login = {"ssh_user": "deploy", "_sudo": True}

unified = [("h200-1", _login), ("h200-2", _login)]
router = [("h200-1", _login)]

all = _hosts(__file__, globals())
