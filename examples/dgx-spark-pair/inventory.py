"""gpt-oss-120b on two DGX Spark, joined by their ConnectX-7: one prefills, one decodes."""

from roles.inventory import hosts as _hosts

_login = {"ssh_user": "deploy", "_sudo": True}

prefill = [("spark-1", _login)]
decode = [("spark-2", _login)]
router = [("spark-1", _login)]

all = _hosts(__file__, globals())
