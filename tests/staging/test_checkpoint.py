"""A checkpoint for four hosts over real links: one copy comes from the Hub, or from the controller, for all of them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from slipway.agent import wheelhouse as packages
from slipway.builds.recipe import Sources, recipe_named, requirements_of
from tests.cache import cache_folder
from tests.hub.checkpoint import write_checkpoint
from tests.hub.playbook import PLAYBOOK
from tests.hub.repository import Repository
from tests.hub.server import Hub
from tests.staging.lab import Lab
from tests.staging.lab.commands import run, until
from tests.staging.site import REPOSITORY, Site

HOSTS = {f"h{number}": f"10.77.0.{10 + number}" for number in (1, 2, 3, 4)}
ROOT, SECRET = "/opt/slipway", "hf_not_to_be_seen"
INVENTORY = """
import os
_folder = os.environ["STAGEHOST_DIR"]
_login = {"ssh_user": "deploy", "_sudo": True, "ssh_config_file": f"{_folder}/ssh_config",
          "ssh_known_hosts_file": f"{_folder}/known_hosts"}
prefill = [("h1", _login)]
decode = [(name, _login) for name in ("h2", "h3", "h4")]
from roles.inventory import hosts as _hosts
all = _hosts(__file__, globals())
"""


@pytest.fixture(scope="module")
def wheels(staging_machine: None) -> Path:
    """What the build of the Hub's client needs, for hosts without a network."""
    texts = [requirements_of(recipe_named(name), "") for name in ("hub", "installer")]
    folder = cache_folder() / f"wheelhouse-hub-{hashlib.sha256(''.join(texts).encode()).hexdigest()[:12]}"
    if not (folder / "manifest.json").exists():
        packages.fill(str(folder), packages.Target("3.11"), texts, asdict(Sources()))
    return folder


@pytest.fixture(scope="module")
def lab4(staging_machine: None) -> Iterator[Lab]:
    with Lab(HOSTS, prefix=f"stg{os.getpid()}c") as lab:
        yield lab
    assert lab.leftovers() == []


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("hub") / "model", shards=8, shard_bytes=4_000_000)


class Fleet(Site):
    """Four hosts, and a playbook that stops once the checkpoint is there."""

    def prepare(self, model: dict[str, object]) -> None:
        """Its files, below `folder`."""
        (self.folder / "group_vars").mkdir(exist_ok=True)
        (self.folder / "inventory.py").write_text(INVENTORY)
        (self.folder / "play.py").write_text(PLAYBOOK)
        shared = {"deployment": "ckpt", "engine": {"kind": "simulator"}, "model": {"share_from_mb": 1, **model}}
        (self.folder / "group_vars" / "all.yml").write_text(json.dumps(shared))
        self.inventory = self.folder / "inventory.py"

    def alone(self) -> None:
        """Only h1."""
        text = self.inventory.read_text().replace('("h2", "h3", "h4")', '("h1",)')
        self.inventory.write_text(text)

    def converge(self, check: bool = True) -> str:
        words = self.command("pyinfra", "-y", *self.overrides, self.inventory, self.folder / "play.py")
        done = self.lab.ctl(*words, check=check, env=self.environment(), cwd=REPOSITORY, timeout=300)
        return done.stdout

    def files(self, host: str, path: str) -> dict[str, str]:
        told = self.sh(host, f"cd {path} && sha256sum $(ls -p | grep -v /)")
        return {line.split()[1]: line.split()[0] for line in told.splitlines()}


def hashes(folder: Path) -> dict[str, str]:
    told = run("sh", "-c", f"cd {folder} && sha256sum *").stdout
    return {line.split()[1]: line.split()[0] for line in told.splitlines()}


@pytest.fixture
def fleet(lab4: Lab, wheels: Path, tmp_path: Path) -> Iterator[Fleet]:
    yield Fleet(lab4, wheels, tmp_path)
    lab4.reset(fresh=True)


def test_one_upload_serves_four_hosts(fleet: Fleet, source: Path) -> None:
    fleet.prepare({"path": str(source)})
    out = fleet.converge()
    for host in HOSTS:
        (path,) = fleet.sh(host, f"ls -d {ROOT}/checkpoints/local--model/*").split()
        found = fleet.files(host, path)
        assert {name: found[name] for name in hashes(source)} == hashes(source)
    assert out.count("checkpoint: 32") == 1, out  # one host was sent it
    assert out.count("every one as the plan lists it") == 3, out
    assert left_open(fleet) == {}
    assert f"checkpoint {ROOT}" not in fleet.converge()


def left_open(fleet: Fleet) -> dict[str, str]:
    """Mirrors that still listen and tokens that still lie there, by host."""
    script = "ss -ltnH 'sport = :8790'; find /opt/slipway -xdev -name '*.token'"
    return {host: told for host in HOSTS if (told := fleet.sh(host, script))}


@pytest.fixture
def hub(fleet: Fleet, source: Path) -> Iterator[Hub]:
    """A Hub where the controller is; the plan's record of it is made as a user would make it."""
    with fleet.lab.inside():
        server = Hub([Repository("org/model", source, token=SECRET)], address=fleet.lab.controller)
    with server:
        (fleet.folder / "token").write_text(SECRET)
        model = {"repo": "org/model", "endpoint": server.url, "token": {"file": str(fleet.folder / "token")}}
        fleet.prepare(model)
        run_slipway(fleet, "checkpoint", "facts", fleet.inventory)
        server.requests.clear()
        server.sent = 0
        yield server


def run_slipway(fleet: Fleet, *words: object) -> str:
    return fleet.lab.ctl(*fleet.command("slipway", *words), env=fleet.environment(), cwd=REPOSITORY).stdout


def path_on_hosts(hub: Hub) -> str:
    return f"{ROOT}/checkpoints/org--model/{hub.repositories['org/model'].branches['main']}"


def test_the_hub_gives_one_copy_for_four_hosts(fleet: Fleet, hub: Hub, source: Path) -> None:
    out = fleet.converge()
    for host in HOSTS:
        found = fleet.files(host, path_on_hosts(hub))
        assert {name: found[name] for name in hashes(source)} == hashes(source)
    assert hub.sent == sum(path.stat().st_size for path in source.iterdir())
    assert len(hub.asked("/store/")) == 8
    assert out.count("every one as the Hub lists it") == 4, out
    assert left_open(fleet) == {}
    assert SECRET not in out
    assert f"checkpoint {ROOT}" not in fleet.converge()


@pytest.fixture
def slow_hub(hub: Hub) -> Hub:
    """Each connection gets 1 MB/s, so that there is a middle in which something can happen."""
    hub.cap = 1_000_000
    return hub


def start(fleet: Fleet) -> subprocess.Popen[str]:
    words = fleet.command("pyinfra", "-y", *fleet.overrides, fleet.inventory, fleet.folder / "play.py")
    return fleet.lab.start(*words, env=fleet.environment(), cwd=REPOSITORY)


def came(fleet: Fleet, host: str) -> int:
    """Bytes of weights on a host, proven or not."""
    told = fleet.sh(host, f"find {ROOT}/checkpoints -name 'model-*' -printf '%s\\n' 2>/dev/null || true")
    return sum(map(int, told.split()))


def in_the_middle(fleet: Fleet, host: str) -> None:
    assert until(lambda: came(fleet, host) > 1_000_000, 240, pause=0.5)


@pytest.mark.full
def test_a_host_that_loses_power_is_replaced_by_the_others(fleet: Fleet, slow_hub: Hub, source: Path) -> None:
    """Its share of the files comes to the others from whoever is next; it itself goes on with the next run."""
    running = start(fleet)
    in_the_middle(fleet, "h2")
    fleet.lab["h2"].stop()
    out = running.communicate(timeout=240)[0]
    assert running.returncode != 0
    assert "h2" in out
    path = path_on_hosts(slow_hub)
    assert until(lambda: all(whole(fleet, host, path, source) for host in ("h1", "h3", "h4")), 120, pause=0.5)
    fleet.lab["h2"].start()
    slow_hub.cap, before = 0, slow_hub.sent
    fleet.converge()
    assert whole(fleet, "h2", path, source)
    assert slow_hub.sent == before, "the others have it: the Hub is not asked again"
    assert left_open(fleet) == {}


def whole(fleet: Fleet, host: str, path: str, source: Path) -> bool:
    found = fleet.files(host, path) if fleet.sh(host, f"ls -d {path} 2>/dev/null || true") else {}
    return {name: found.get(name) for name in hashes(source)} == hashes(source)


@pytest.mark.full
@pytest.mark.parametrize("happens", ["reboot", "cable"])
def test_a_fetch_goes_on_after_a_reboot_and_after_a_cut_cable(
    fleet: Fleet, slow_hub: Hub, source: Path, happens: str
) -> None:
    """One host alone, so that every byte is the Hub's: none comes twice but what was in flight."""
    fleet.alone()
    running = start(fleet)
    in_the_middle(fleet, "h1")
    if happens == "reboot":
        fleet.lab["h1"].reboot()
    else:
        fleet.lab["h1"].cable(False)
        time.sleep(20)
        fleet.lab["h1"].cable(True)
    running.communicate(timeout=240)
    had, slow_hub.cap = came(fleet, "h1"), 0
    assert had > 1_000_000
    before = slow_hub.sent
    fleet.converge()
    assert whole(fleet, "h1", path_on_hosts(slow_hub), source)
    total = sum(path.stat().st_size for path in source.iterdir())
    assert slow_hub.sent - before <= total - had
