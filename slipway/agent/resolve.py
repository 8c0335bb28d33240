"""Resolves, once and on the controller, every package that a build will have: with versions and hashes, for its hosts.

usage: resolve REQUEST.json FILE, with keys requirements, pins, constraints, dropped, python, machine, index_url,
extra_index_url and find_links as slipway/builds/locks.py explains them; glibc, the oldest of the hosts'; wheelhouse, a
folder that alone counts when it is set. FILE gets the lock, whole or not at all.
Nothing is downloaded but what tells the packages' requirements. Needs uv. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

from slipway.agent.files import write_whole
from slipway.agent.sources import environment, source_flags

GLIBC = range(28, 41)  # manylinux platforms that uv knows, by glibc's minor version; 31 is the one after 28
ASSUMED_GLIBC = "2.36"  # of hosts that nobody asked: Debian 12, the oldest that the engine's wheels install on


class LockError(Exception):
    """A sentence for the operator: why nothing could be resolved, in the resolver's own words."""


def keep(path: str, request: dict[str, Any]) -> None:
    """Resolve into a file. Raises LockError; the file is as before then."""
    text = resolve(request)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    write_whole(path, head(request) + text)


def head(request: dict[str, Any]) -> str:
    """What the lock is of, for who reads it."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    asked = ", ".join([*request["requirements"], *request["constraints"]])
    where = f"CPython {request['python']} on {platform_of(request)}"
    return f"# {asked}: resolved by {version_of_uv()} on {day} for {where}. Commit it with the inventory.\n"


def resolve(request: dict[str, Any]) -> str:
    """The lock without what stands already or comes from elsewhere. Raises LockError."""
    with tempfile.TemporaryDirectory(prefix="slipway-lock-") as folder:
        agree(request, folder)
        text = compiled(request, folder, request["requirements"], [*request["pins"], *request["constraints"]])
    gone = {normal(name_of(line)) for line in [*request["pins"], *request["dropped"]]}
    blocks = re.findall(r"^[^\s#].*\n(?:\s+.*\n)*", text, re.MULTILINE)
    return "".join(block for block in blocks if normal(name_of(block)) not in gone)


def agree(request: dict[str, Any], folder: str) -> None:
    """Constraints on packages that stand already must hold for them as they are."""
    bound = {normal(name_of(line)) for line in request["constraints"]}
    standing = [pin for pin in request["pins"] if normal(name_of(pin)) in bound]
    if standing:
        compiled(request, folder, standing, request["constraints"], "--no-deps")


def compiled(request: dict[str, Any], folder: str, wanted: list[str], bounds: list[str], *more: str) -> str:
    """What uv resolves. Packages that stand already are taken without what they ask for in turn. Raises LockError."""
    files = {
        "wanted.in": wanted,
        "bounds.txt": bounds,
        "excluded.txt": request["dropped"],
        "uv.toml": ["dependency-metadata = [", *(standing_row(pin) for pin in request["pins"]), "]"],
    }
    for name, lines in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    flags = ["-q", "--no-header", "--no-annotate", "--generate-hashes", "--config-file", "uv.toml",
             "--python", sys.executable, "--python-version", request["python"],
             "--python-platform", platform_of(request), "-c", "bounds.txt", "--excludes", "excluded.txt"]  # fmt: skip
    env = environment(request, {"UV_CACHE_DIR": os.path.join(folder, "cache")})
    command = [find_uv(), "pip", "compile", *flags, *more, *sources_of(request), "wanted.in"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LockError(reason_of(done.stderr))
    return done.stdout


def standing_row(pin: str) -> str:
    """A package that uv need not look at: its name and version, and that it asks for nothing."""
    name, _, version = pin.partition("==")
    return f'  {{name = "{name_of(name)}", version = "{version.strip()}", requires-dist = []}},'


def sources_of(request: dict[str, Any]) -> list[str]:
    """Where packages come from."""
    return source_flags({key: request.get(key) for key in ("index_url", "extra_index_url", "find_links", "wheelhouse")})


def platform_of(request: dict[str, Any]) -> str:
    """The hosts' platform as uv names it: the newest that it knows and that they have."""
    minor = int((request.get("glibc") or ASSUMED_GLIBC).partition(".")[2] or 0)
    known = [number for number in GLIBC if number <= minor and number not in (29, 30)]
    return f"{request['machine']}-manylinux_2_{max(known, default=17)}"


def reason_of(said: str) -> str:
    """The resolver's own words, without what frames them."""
    lines = [re.sub(r"^(error|cause|hint|×|╰─▶)[:\s]*", "", line.strip()) for line in said.splitlines()]
    return "; ".join(line.rstrip(".") for line in lines if line)[:1500] or "uv said nothing"


def find_uv() -> str:
    """uv, which scripts/setup installs beside our own Python. Raises LockError."""
    found = shutil.which("uv", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
    if found is None:
        raise LockError("uv is not there, which resolves locks: scripts/setup installs it")
    return found


def version_of_uv() -> str:
    """Such as uv 0.13.9."""
    done = subprocess.run([find_uv(), "--version"], stdout=subprocess.PIPE, text=True, check=False)
    return " ".join(done.stdout.split()[:2])


def name_of(line: str) -> str:
    """The package of a requirement."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line)
    return match[0] if match else ""


def normal(name: str) -> str:
    """A package name as all its spellings compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: list[str]) -> int:
    """Resolve what the request file says."""
    with open(arguments[0], encoding="utf-8") as file:
        request = json.load(file)
    try:
        keep(arguments[1], request)
    except (LockError, OSError) as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
