"""An upgrade of the real engine, and a checkpoint that it serves and answers wrong with, which is put back."""

import json
import random
import shutil
from pathlib import Path

import pytest

from tests.e2e.asking import Asking
from tests.e2e.site import CHECKOUT
from tests.engine.test_engine import QUESTION

pytestmark = [pytest.mark.engine, pytest.mark.full]


def spoilt_checkpoint(folder: Path) -> Path:
    """The tiny model with its weights shuffled in pairs of bytes: all is in its place, and nothing is right."""
    copy = folder / "tiny"
    shutil.copytree(CHECKOUT / "models/tiny", copy)
    (copy / "manifest.json").unlink()
    path = copy / "model.safetensors"
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    values = [bytes(data[at : at + 2]) for at in range(start, len(data) - 1, 2)]
    random.Random(7).shuffle(values)
    path.write_bytes(bytes(data[:start]) + b"".join(values) + bytes(data[start + 2 * len(values) :]))
    return copy


def releases(site):
    home = site.root / "deployments" / site.name
    found = {int(path.parent.name): json.loads(path.read_text()) for path in home.glob("releases/*/about.json")}
    return found, int((home / "current").resolve().name)


def test_an_upgrade_serves_and_a_checkpoint_that_answers_wrong_is_put_back(engine_site, tmp_path):
    with Asking(engine_site.ports["router.port"], clients=2) as asking:
        upgrade = engine_site.deploy(**{"decode.max_running_requests": 11}, why="more at once")
    assert upgrade.rc == 0, upgrade.out
    assert "OUTAGE of decode over: " in upgrade.out
    assert {reason.partition(":")[0] for reason in asking.lost} <= {
        "503"
    }  # the announced outage, and nothing cut short
    _, before = releases(engine_site)

    spoilt = {"model.path": str(spoilt_checkpoint(tmp_path)), "model.name": "tiny"}
    more = {"decode.max_running_requests": 11, **spoilt}
    wrong = engine_site.run("-y", "deploy.py", timeout=2400, **more)  # two starts of both workers

    assert wrong.rc == 1, wrong.out
    for words in ("rung pairs", f"putting release {before} back", f"release {before} serves again"):
        assert words in wrong.out, wrong.out
    about, current = releases(engine_site)
    assert (current, about[max(about)]["state"]) == (before, "failed")
    assert engine_site.answer(QUESTION) == "391"
    flags = Path(f"/proc/{engine_site.pids()['decode-0']}/cmdline").read_text().split("\0")
    assert flags[flags.index("--max-running-requests") + 1] == "11"
