"""Two staging hosts over SSH: router and prefill on h1, decode on h2; a login without rights, with sudo.

STAGEHOST_DIR names a folder with ssh_config and known_hosts, as the lab of tests/staging makes it; without it
your own ~/.ssh/config says how h1 and h2 are reached. Host keys are always checked.
"""

import os as _os

_folder = _os.environ.get("STAGEHOST_DIR")
_login = {"ssh_user": "deploy", "_sudo": True}
if _folder:
    _login |= {"ssh_config_file": f"{_folder}/ssh_config", "ssh_known_hosts_file": f"{_folder}/known_hosts"}

router = [("h1", _login)]
prefill = [("h1", _login)]
decode = [("h2", _login)]

from roles.inventory import hosts as _hosts  # noqa: E402 - the groups come first, as that is what one edits

all = _hosts(__file__, globals())
