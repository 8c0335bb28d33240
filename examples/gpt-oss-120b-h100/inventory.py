"""gpt-oss-120b on one host with 2 H100: prefill on one, decode on the other."""

from roles.inventory import hosts as _hosts

_login = {"ssh_user": "deploy", "_sudo": True}

prefill = [("h100-1", _login)]
decode = [("h100-1", _login)]
router = [("h100-1", _login)]

all = _hosts(__file__, globals())
