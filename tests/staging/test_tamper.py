"""Claim 6 of the staging guide: whatever was done to a host by hand, a dry run names exactly what the deploy then does.

Each case: somebody changes a converged host; a dry run touches nothing; the deploy finds the same changes, makes them,
and nothing else on the disk is other than before; afterwards nothing is left to do and the deployment answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.staging.lab.commands import until
from tests.staging.site import UNITS, Site, differences

ROOT = "/opt/slipway"
HOME = f"{ROOT}/deployments/staging"
UNIT = "/etc/systemd/system/slipway-staging-{}.service"
ENV = HOME + "/services/{}.env"
DECODE, ROUTER = UNIT.format("decode-0"), UNIT.format("router-0")


@dataclass(frozen=True)
class Case:
    """tamper: a script run on `host`. expected: the changes by name, a pattern each, in order.

    restarted: instances whose process is another one afterwards.
    """

    name: str
    host: str
    tamper: str
    expected: tuple[str, ...]
    restarted: tuple[str, ...] = ()


WORKER, PREFILL = UNITS["decode-0"][1], UNITS["prefill-0"][1]
RELOAD, RESTART, START = "service definitions", "restart instance decode-0", "start instance decode-0"
UNTIL_SYSTEMD_GIVES_UP = f"""
for i in 1 2 3 4 5 6 7 8; do
    systemctl -q is-failed {WORKER} && break
    pid=$(systemctl show -p MainPID --value {WORKER}); [ $pid = 0 ] || kill -9 $pid
    sleep 1.3
done
systemctl is-failed {WORKER}
"""
OTHER_MODEL = f"""
cd {ROOT}/checkpoints/local--tiny/*/
head -c $(stat -c %s model.safetensors) /dev/urandom > new; mv new model.safetensors
"""
OVERRIDE = f"mkdir {DECODE}.d; printf '[Service]\\nNice=5\\n' > {DECODE}.d/override.conf; systemctl daemon-reload"

CASES = [
    Case("unit-edited", "h2", f"sed -i s/Restart=always/Restart=no/ {DECODE}",
         (f"h2 update {DECODE}", f"h2 reload {RELOAD}")),
    Case("unit-edited-and-the-process-started-with-it", "h2",
         f"sed -i s/LimitCORE=0/LimitCORE=1/ {DECODE}; systemctl daemon-reload; systemctl restart {WORKER}",
         (f"h2 update {DECODE}", f"h2 reload {RELOAD}", f"h2 {RESTART}"), ("decode-0",)),
    Case("unit-overridden", "h2", OVERRIDE,
         (f"h2 remove {DECODE}.d/override.conf", f"h2 reload {RELOAD}", f"h2 {RESTART}"), ("decode-0",)),
    Case("unit-masked", "h1", f"rm {ROUTER}; ln -s /dev/null {ROUTER}; systemctl daemon-reload",
         (f"h1 update {ROUTER}", f"h1 reload {RELOAD}", "h1 start instance router-0")),
    Case("process-stopped", "h2", f"systemctl stop {WORKER}", (f"h2 {START}",), ("decode-0",)),
    Case("process-killed-until-systemd-gave-up", "h2", UNTIL_SYSTEMD_GIVES_UP, (f"h2 {START}",), ("decode-0",)),
    Case("file-mode-changed", "h1", f"chmod 666 {ENV.format('prefill-0')}",
         (f"h1 update {ENV.format('prefill-0')}",)),
    Case("file-owner-changed", "h1", f"chown slipway {UNIT.format('prefill-0')}",
         (f"h1 update {UNIT.format('prefill-0')}", f"h1 reload {RELOAD}")),
    Case("model-file-replaced", "h2", OTHER_MODEL,
         (f"h2 update checkpoint {ROOT}/checkpoints/local--tiny/[0-9a-f]+", f"h2 {RESTART}"), ("decode-0",)),
    Case("router-venv-damaged", "h1",
         f"cd {ROOT}/engines/router-*/venv/lib/python3.11/site-packages/smg; echo boom >> cli.py",
         ("h1 install build router-.*", "h1 restart instance router-0"), ("router-0",)),
    Case("engine-build-damaged", "h2", f"cd {ROOT}/engines/simulator-*/; echo x >> agent.pyz",
         ("h2 install build simulator-.*", f"h2 {RESTART}"), ("decode-0",)),
    Case("user-removed", "h2", "userdel --force slipway || true; ! id slipway 2>/dev/null",
         ("h2 create user slipway", *["h2 update folder .*"] * 4, f"h2 {RESTART}"), ("decode-0",)),
    Case("environment-file-edited", "h2", f"sed -i s/LANG=.*/LANG=tlh/ {ENV.format('decode-0')}",
         (f"h2 update {ENV.format('decode-0')}",)),
    Case("environment-file-edited-and-read", "h2",
         f"sed -i s/LANG=.*/LANG=tlh/ {ENV.format('decode-0')}; systemctl restart {WORKER}",
         (f"h2 update {ENV.format('decode-0')}", f"h2 {RESTART}"), ("decode-0",)),
    Case("current-redirected", "h1", f"cp -r {HOME}/releases/1 /srv/1; ln -sfn /srv/1 {HOME}/current",
         ("h1 create release [0-9]+",)),
    Case("folder-redirected", "h1", f"mv {HOME}/cache /srv/cache; ln -s /srv/cache {HOME}/cache",
         (f"h1 update folder {HOME}/cache", *["h1 create folder .*/cache/.*"] * 2,
          *["h1 restart instance .*"] * 2), ("prefill-0", "router-0")),
    Case("service-disabled", "h1", f"systemctl disable {PREFILL}", ("h1 start instance prefill-0",)),
    Case("target-disabled", "h2", "systemctl disable slipway-staging.target",
         ("h2 enable unit slipway-staging.target",)),
    Case("release-deleted", "h2", f"rm -r {HOME}/releases/*", ("h2 create release [0-9]+",)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_6_what_the_dry_run_names_is_what_the_deploy_does(site: Site, case: Case) -> None:
    pids = site.pids()
    site.sh(case.host, case.tamper)
    look = site.look(case.host)
    dry = site.dry()
    assert dry.rc == 0, dry.out
    assert differences(look, site.look(case.host)) == []
    assert len(dry.named) == len(case.expected), dry.named
    assert all(map(re.fullmatch, case.expected, dry.named)), dry.named
    real = site.deploy()
    assert real.rc == 0, real.out
    assert real.changes == dry.changes
    assert [line for line in differences(look, site.look(case.host)) if not _follows(line, dry.named)] == []
    assert {name for name, pid in site.pids().items() if pid != pids[name]} == set(case.restarted)
    assert site.dry().changes == []
    assert site.answers(within=10)
    site.healthy = True


def _follows(line: str, named: list[str]) -> bool:
    """Whether a change on the disk is what one of the named changes is about."""
    path = line.partition(":")[0]
    scratch = (
        f"{HOME}/cache/",
        f"{HOME}/logs",
        f"{ROOT}/tmp/",
        f"{ROOT}/jobs",
        f"{ROOT}/uploads",
        f"{ROOT}/wheelhouse",
    )
    # Every deploy writes down who did what, and what its verification found.
    records = tuple(f"{HOME}/{name}" for name in ("audit.jsonl", "verified.json", "putback", "lock"))
    if path == HOME or path.startswith(records):
        return True
    about = {word for name in named for word in _places(name)}
    return path.startswith(scratch) or any(path.startswith(place) or place.startswith(f"{path}/") for place in about)


def _places(name: str) -> list[str]:
    """Where a change shows on the disk."""
    _, action, *subject = name.split()
    enabled = ["/etc/systemd/system/"] if action in ("start", "enable") else []
    kinds = {
        "user": ["/etc/", "/opt/slipway"],
        "build": [f"{ROOT}/engines/", f"{ROOT}/tools"],
        "release": [f"{HOME}/releases/", f"{HOME}/current"],
        "checkpoint": [f"{ROOT}/checkpoints/"],
    }
    return [*enabled, *kinds.get(subject[0], [subject[-1]] if subject[-1].startswith("/") else [])]


def test_6_a_squatted_port_is_refused_with_who_holds_it_and_nothing_is_changed(site: Site) -> None:
    unit = UNITS["decode-0"][1]
    site.sh("h2", f"systemctl stop {unit}; systemd-run --quiet --unit=squatter python3 -m http.server 30100")
    assert until(lambda: site.sh("h2", "ss -Hltn sport = 30100"), 20)
    look, before = site.look("h2"), site.pids()
    dry, real = site.dry(), site.deploy()
    for ran in (dry, real):
        assert ran.rc == 1
        assert re.search(
            r"\[h2\] refuse decode-0: port 30100 \(http\) is held by pid \d+ \(.*http.server 30100\)", ran.out
        )
        assert "nothing was changed" in ran.out
    assert dry.changes == real.changes
    assert differences(look, site.look("h2")) == []
    assert site.pids() == before
    site.sh("h2", "systemctl stop squatter")
    assert site.deploy().rc == 0
    assert site.answers(within=10)
    site.healthy = True
