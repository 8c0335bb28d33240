"""The three scenes of the crash matrix, each on a lab of its own that is put back before each cell."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.staging.crash import CONFIRM_S, UPGRADE, Scene
from tests.staging.lab import Lab
from tests.staging.pairs import make_pairs
from tests.staging.site import Site

ADDRESSES = {"h1": "10.77.0.11", "h2": "10.77.0.12"}
NAMES = ("deploy", "upgrade", "rollback")


def scenes(names: Sequence[str] = ()) -> Iterator[Scene]:
    """Those that are named, or all, one after the other."""
    for name in names or NAMES:
        with tempfile.TemporaryDirectory(prefix="slipway-crash-") as folder, scene_named(name, Path(folder)) as scene:
            yield scene


@contextlib.contextmanager
def scene_named(name: str, folder: Path) -> Iterator[Scene]:
    """A scene as it begins, its lab frozen there."""
    from tests.staging.conftest import wheelhouse_folder

    with Lab(ADDRESSES, prefix=f"stg{os.getpid()}{name[0]}") as lab:
        plain = Site(lab, wheelhouse_folder(), folder, {"service.restart_delay_s": 1})
        site = make_pairs(plain, folder / "site", {"rollout.confirm_s": CONFIRM_S}).impatient()
        for words in {"deploy": (), "upgrade": ((),), "rollback": ((), UPGRADE)}[name]:
            ran = site.deploy(*words)
            assert ran.rc == 0, ran.out
        if name != "deploy":
            lab.snapshot()
        playbook = "playbooks/rollback.py" if name == "rollback" else "deploy.py"
        # By its number: one more run must find nothing to do where the first came to its end in spite of the blow.
        words = {"upgrade": UPGRADE, "rollback": ("--data", "release=1")}.get(name, ())
        yield Scene(name, site, (playbook, *words), serves=name != "deploy")
