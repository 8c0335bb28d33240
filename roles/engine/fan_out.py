"""One download for all hosts: the controller gets the wheels of a build once, and every host gets them from there."""

from __future__ import annotations

from pathlib import Path

from gevent.lock import BoundedSemaphore
from pyinfra import logger
from pyinfra.api.host import Host

from roles.remote import RemoteError
from slipway.agent.manifest import ManifestError
from slipway.agent.wheelhouse import Target, WheelhouseError, fill
from slipway.builds.recipe import Build, recipe_named, requirements_of
from slipway.builds.wheels import pick
from slipway.front import files_of
from slipway.plan.model import Files, to_json

_lock = BoundedSemaphore(1)  # hosts are worked on side by side; whoever comes first downloads for all
KEPT = ".slipway/wheels"


def downloaded(host: Host, build: Build, glibc: str) -> Files:
    """The wheels of `build`, with the installer, downloaded unless they are here. Raises RemoteError."""
    folder = Path(host.data.slipway_inventory).parent / KEPT / f"{build.python}-{build.machine}-{glibc or 'own'}"
    with _lock:
        found = _picked(build, folder)
        if found is None:
            logger.info(f"{host.print_prefix}{build.id}: downloading its wheels, once for all hosts")
            _download(build, folder, glibc)
            found = _picked(build, folder)
    if found is None:
        raise RemoteError(f"{build.id}: {folder} does not hold all its wheels after the download; see engine.lock")
    return found


def _picked(build: Build, folder: Path) -> Files | None:
    """What is here of it; None when something is missing."""
    if not (folder / "manifest.json").is_file():
        return None
    found, missing = pick(build, files_of(folder))
    return None if missing else found


def _download(build: Build, folder: Path, glibc: str) -> None:
    """What concerns other hosts goes on meanwhile: under pyinfra, waiting for pip lets other greenlets run."""
    texts = [build.requirements, requirements_of(recipe_named("installer"), "")]
    target, sources = Target(build.python, build.machine, glibc), to_json(build.sources)
    try:
        fill(str(folder), target, texts, sources)
    except (WheelhouseError, ManifestError, OSError) as error:
        raise RemoteError(f"{build.id}: {error}") from None
