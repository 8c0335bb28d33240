"""Role host: packages, user, folders, and the agent that later steps run on the host."""

from __future__ import annotations

from pyinfra.api import deploy
from pyinfra.api.host import Host

from roles.remote import RemoteError, check, upload
from roles.run import Run
from roles.steps import converge
from slipway.bundle import agent_bundle
from slipway.converge.change import Change


@deploy("Host")
def host(run: Run) -> None:
    """Bring the host to where an engine can be installed on it."""
    converge(name="Prepare packages, user, folders and agent", changes=run.here("host"), make=_make)


def _make(host: Host, change: Change) -> None:
    makers = {"package": _package, "user": _user, "folder": _folder, "agent": _agent}
    makers.get(change.subject.partition(" ")[0], _file)(host, change)


def _package(host: Host, change: Change) -> None:
    install = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends"]
    try:
        check(host, [*install, change.data])
    except RemoteError:  # package lists may be missing or old
        try:
            check(host, ["apt-get", "update", "-qq"])
            check(host, [*install, change.data])
        except RemoteError as error:
            raise RemoteError(f"{error}; install it by hand: apt-get install {change.data}") from None
    check(host, ["dpkg-query", "--show", change.data])


def _user(host: Host, change: Change) -> None:
    check(host, ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
                 "--shell", "/usr/sbin/nologin", change.data])  # fmt: skip


FOLDER = """set -e
if [ -L "$1" ] || { [ -e "$1" ] && [ ! -d "$1" ]; }; then mv -f "$1" "$1.was"; fi
mkdir -p "$1"
chmod "$2" "$1"
if [ "$4" = deep ] && [ "$(stat -c %U "$1")" != "$3" ]; then chown -hR "$3:" "$1"; else chown -h "$3:" "$1"; fi
"""


def _folder(host: Host, change: Change) -> None:
    """A link or file in its place is set aside; what a service's user left there follows when that user is another."""
    folder = change.data
    depth = "flat" if folder.user == "root" else "deep"
    check(host, ["sh", "-c", FOLDER, "folder", folder.path, folder.mode, folder.user, depth])


def _agent(host: Host, change: Change) -> None:
    upload(host, agent_bundle(), change.data)


def _file(host: Host, change: Change) -> None:
    from roles.write import write_file

    write_file(host, change)
