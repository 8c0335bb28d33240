"""Requests lost and the longest time without an answer while a deployment changes: python benchmarks/rollout.py.

usage: python benchmarks/rollout.py [--streams 64] [SCENARIO ...]

Two prefill and two decode simulators and the real router on two staging hosts (tests/staging/lab: root, no network),
under a closed loop of streams, half of them streaming. A request is lost when it got no answer or only a part of one.
The simulator takes 20 ms a token, so that requests are always under way; its workers come up in a second, so what a
change of a real engine lasts is not shown, only what it costs in requests.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.staging.conftest import ADDRESSES, wheelhouse_folder  # noqa: E402
from tests.staging.lab import Lab  # noqa: E402
from tests.staging.load import Load  # noqa: E402
from tests.staging.pairs import SLOWLY, make_pairs  # noqa: E402
from tests.staging.site import Ran, Site  # noqa: E402

FLAG = ("--data", "worker.max_running_requests=48")
WRONG = ("--data", "worker.env.SLIPWAY_SIM_FAULTS=wrong-answer")
NEVER_UP = ("--data", "decode.env.SLIPWAY_SIM_FAULTS=dies-loading")
# Verification is as shipped, but for its patience: two cores carry load, hosts, router and workers.
PATIENT = {"verify.request_timeout_s": 120}
LONGEST_S = 1800  # that a run may take on a busy machine
SETTLE_S = 5.0  # the load goes on for so long after the change


@dataclass
class Scenario:
    """planned: it must lose nothing. rc: how the run must end; None: no run is made. change: what is done."""

    name: str
    planned: bool
    rc: int | None
    change: Callable[[Site, Path], Ran | None]


def changed_build(site: Site, folder: Path) -> Ran:
    """The same deployment from a checkout whose simulator is another build, by one comment."""
    copy = folder / "checkout"
    git = ["git", "ls-files", "-z"]
    listed = subprocess.run(git, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    names = [name for name in listed.stdout.split("\0") if name and not name.startswith(("tests/data/", "docs/"))]
    for name in names or _all_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    with (copy / "slipway/agent/simulator/__init__.py").open("a") as file:
        file.write("# another build\n")
    return site.deploy(*FLAG, cwd=copy, timeout=LONGEST_S)


def _all_files() -> list[str]:
    """Of a checkout that is no git repository."""
    tops = ("deploy.py", "roles", "slipway", "templates", "patches", "models", "playbooks", "pyproject.toml")
    found = [path for top in tops for path in (ROOT / top, *(ROOT / top).rglob("*")) if path.is_file()]
    return [str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts]


def killed_worker(site: Site, _folder: Path) -> None:
    """kill -9 of a decode worker; systemd starts it again."""
    site.sh("h2", "systemctl kill --signal=KILL --kill-who=main slipway-staging-decode-1.service")
    time.sleep(10)


def rebooted_host(site: Site, _folder: Path) -> None:
    """A reboot of the host with a prefill and a decode, not of the router's."""
    site.lab["h2"].reboot()
    time.sleep(15)


SCENARIOS = (
    Scenario("a flag of every worker", True, 0, lambda site, _: site.deploy(*FLAG, timeout=LONGEST_S)),
    Scenario("another engine build", True, 0, changed_build),
    Scenario("rollback", True, 0, lambda site, _: site.playbook("rollback", timeout=LONGEST_S)),
    Scenario("a release that answers wrong", True, 1, lambda site, _: site.deploy(*WRONG, timeout=LONGEST_S)),
    Scenario("a release that does not come up", True, 1, lambda site, _: site.deploy(*NEVER_UP, timeout=LONGEST_S)),
    Scenario("kill -9 of a decode worker", False, None, killed_worker),
    Scenario("reboot of a host with a prefill and a decode", False, None, rebooted_host),
)


@contextmanager
def deployed(folder: Path) -> Iterator[Site]:
    """The deployment that is changed."""
    with Lab(ADDRESSES) as lab:
        plain = Site(lab, wheelhouse_folder(), folder, {"service.restart_delay_s": 1})
        data = {"worker.env.SLIPWAY_SIM_TIMING": SLOWLY, "worker.max_total_tokens": 65536, **PATIENT}
        site = make_pairs(plain, folder / "site", data)
        ran = site.deploy()
        assert ran.rc == 0, ran.out
        yield site


def measured(site: Site, scenario: Scenario, streams: int, folder: Path) -> str:
    """One row of the table."""
    with Load(site, streams, folder) as load:
        ran = scenario.change(site, folder)
        time.sleep(SETTLE_S)
    if scenario.rc is not None and (ran is None or ran.rc != scenario.rc):
        raise SystemExit(f"{scenario.name}: exit {ran.rc if ran else None}; must be {scenario.rc}\n{ran and ran.out}")
    kinds = ", ".join(f"{load.lost_of(kind)} of {len(rows)} {kind}" for kind, rows in load.rows.items())
    why = "; ".join(f"{count}x {reason[:60]}" for reason, count in load.failures.most_common(3))
    kind = "planned" if scenario.planned else "fault"
    times = f"{load.lasted_s:.0f} | {load.outage_s:.2f} | {load.longest_s:.1f}"
    return f"| {scenario.name} | {kind} | {load.lost} of {len(load.all_rows)} | {kinds} | {times} | {why} |"


def main() -> int:
    """All scenarios, or those whose name has one of the words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    wanted = [one for one in SCENARIOS if not options.words or any(word in one.name for word in options.words)]
    print("| change | kind | lost requests | by kind | lasted, s | longest without an answer, s "
          "| longest request, s | reasons |\n" + "| --- " * 8 + "|")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="slipway-rollout-") as folder, deployed(Path(folder)) as site:
        for number, scenario in enumerate(wanted):
            print(measured(site, scenario, options.streams, Path(folder) / str(number)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
