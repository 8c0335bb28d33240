"""Where packages come from, told to uv as pip is configured with it. Standard library only, Python 3.9+."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit


def source_flags(sources: dict[str, Any]) -> list[str]:
    """As both tools spell it; a wheelhouse excludes all else."""
    if sources.get("wheelhouse"):
        return ["--no-index", "--find-links", sources["wheelhouse"]]
    flags = {"--index-url": "index_url", "--extra-index-url": "extra_index_url", "--find-links": "find_links"}
    return [part for flag, key in flags.items() if sources.get(key) for part in (flag, sources[key])]


def trusted(sources: dict[str, Any]) -> list[str]:
    """pip takes nothing over plain http, which uv does; where each package has a hash, it may as well."""
    urls = [urlsplit(sources.get(key) or "") for key in ("index_url", "extra_index_url", "find_links")]
    return [word for url in urls if url.scheme == "http" and url.hostname for word in ("--trusted-host", url.hostname)]


def environment(sources: dict[str, Any], own: dict[str, str], python: str = sys.executable) -> dict[str, str]:
    """Ours, with what pip is configured with told to uv, which looks at none of it."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env.update({"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", **own})
    for setting, name in (("find-links", "UV_FIND_LINKS"), ("index-url", "UV_DEFAULT_INDEX")):
        value = pip_setting(python, setting)
        if value and not sources.get(setting.replace("-", "_")):
            env.setdefault(name, value)
    return env


def pip_setting(python: str, name: str) -> str | None:
    """One of pip's global settings; the environment variable wins, as it does for pip."""
    variable = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if variable:
        return variable.split()[0]
    call = [python, "-m", "pip", "config", "get", f"global.{name}"]
    done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.split()[0] if done.returncode == 0 and done.stdout.split() else None
