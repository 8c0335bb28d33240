"""Who runs this, from where and when: for locks, releases and the audit."""

from __future__ import annotations

import getpass
import os
import socket
import time


def who() -> str:
    """The person behind sudo, else the login's name; letters, digits, dashes and dots only."""
    name = os.environ.get("SUDO_USER") or _login()
    return "".join(char for char in name if char.isalnum() or char in "-_.") or "unknown"


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def where() -> str:
    """This machine's name."""
    return socket.gethostname()


def now() -> str:
    """The time, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
