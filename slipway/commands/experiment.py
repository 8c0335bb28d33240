"""`slipway experiment NAME [INVENTORY]`: plans, deploys, verifies and measures variants in turn, and compares them."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipway.agent.step import Claim
    from slipway.experiment.drive import Outcome
    from slipway.experiment.model import Experiment
    from slipway.experiment.planning import Planned
    from slipway.experiment.state import State

FOLDER = "experiments"
STATE, CLAIM, LOGS = "state.json", "claim", "log"
INTERRUPTED = 130
# pyinfra's own table and progress, rungs that hold, and advice that belongs to a deploy by hand.
QUIET = re.compile(r"\s*(\[[^]]+\] (No changes|Success|Connected|Ready:|update|create)|ok  |hint:|Loading:|"
                   r"Operation  |Grand total|\w+ \| )")  # fmt: skip


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser."""
    from slipway.commands.opening import add_inventory

    parser: argparse.ArgumentParser = commands.add_parser(
        "experiment", help="measure variants of a deployment in turn, each verified, and compare them"
    )
    parser.add_argument("name", metavar="NAME", help=f"of {FOLDER}/NAME.yml")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plan", action="store_true", help="only say what would be measured and refused; asks no host")
    what.add_argument("--restore", action="store_true", help="only put the baseline back")
    what.add_argument("--report", action="store_true", help="only report what is measured so far")
    add_inventory(parser, default=None)
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """0: everything measured and the baseline back; 1: not; 130: interrupted."""
    from slipway.commands.opening import overrides_of

    what = next((name for name in ("plan", "restore", "report") if getattr(arguments, name)), "run")
    return conduct(arguments.name, arguments.inventory, overrides_of(arguments), what, arguments.declared)


def conduct(
    name: str, inventory: str | None, data: Mapping[str, Any], what: str = "run", declared: bool = False
) -> int:
    """What command and playbook share. data: overrides that hold for every variant. Exit code as of run.

    declared: plan by `hardware:` alone, also for this machine.
    """
    from slipway.agent.step import BusyError
    from slipway.bench.errors import BenchError
    from slipway.config.errors import InvalidConfigError
    from slipway.experiment.state import StateError

    try:
        conductor = Conductor(name, inventory, data, declared)
        return {"plan": conductor.plan, "restore": conductor.restore, "report": conductor.report,
                "run": conductor.run}[what]()  # fmt: skip
    except (InvalidConfigError, StateError, BusyError, BenchError) as error:
        print(error if isinstance(error, InvalidConfigError) else f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        again = command_of(name, inventory, data)
        print(f"\ninterrupted. Go on: {again}; put the baseline back: {again} --restore", file=sys.stderr)
        return INTERRUPTED


def command_of(name: str, inventory: str | None, data: Mapping[str, Any]) -> str:
    """What goes on with this experiment, to be pasted."""
    words = [word for key, value in data.items() for word in ("--data", f"{key}={json.dumps(value)}")]
    return shlex.join(["slipway", "experiment", *words, name, *([inventory] if inventory else [])])


class Conductor:
    """One experiment on one inventory: its plans, its files, its steps."""

    def __init__(self, name: str, inventory: str | None, data: Mapping[str, Any], declared: bool) -> None:
        """Raises InvalidConfigError."""
        from slipway.experiment.load import load_experiment
        from slipway.experiment.planning import plan_experiment
        from slipway.front import project_root
        from slipway.local import local_facts

        self.project = project_root()
        self.experiment: Experiment = load_experiment(self.project / FOLDER, name)
        named = Path(inventory) if inventory else self.project / (self.experiment.inventory or "inventory.py")
        self.inventory, self.data = named.resolve(), dict(data)
        self.bench = self.inventory.parent / "bench"
        self.folder = self.bench / name
        self.planned: list[Planned] = plan_experiment(
            self.experiment, self.inventory, self.data, lambda one: {} if declared else local_facts(one.deployment)
        )

    def plan(self) -> int:
        """Print every variant, with what refuses it; 1 when the baseline is refused."""
        from slipway.experiment.showing import plan_lines

        print("\n".join(plan_lines(self.experiment, self.planned)))
        return 1 if self.planned[0].refused else 0

    def run(self) -> int:
        """Go on from wherever the last run ended."""
        from slipway.experiment.drive import Drive
        from slipway.experiment.showing import plan_lines

        with Hosts(self) as world:
            state = self.state()
            print("\n".join(plan_lines(self.experiment, self.planned)), flush=True)
            well = Drive(self.experiment, self.planned, state, world).run()
        return max(self.report(), 0 if well else 1)

    def restore(self) -> int:
        """Put the baseline back, whatever was measured."""
        from slipway.experiment.drive import Drive

        with Hosts(self) as world:
            return 0 if Drive(self.experiment, self.planned, self.state(), world).restore() else 1

    def state(self) -> State:
        """As kept, or the first. Raises StateError."""
        from slipway.experiment.drive import first_state
        from slipway.experiment.state import StateError, fingerprint, from_text

        path, print_of = self.folder / STATE, fingerprint(self.experiment, self.data)
        if not path.is_file():
            return first_state(self.experiment, self.planned, print_of)
        try:
            return from_text(path.read_text(encoding="utf-8"), self.experiment, print_of)
        except StateError as error:
            fix = f"give the experiment another name, or move {self.folder} and {self.folder}.* away"
            raise StateError(f"{path} {error}; {fix}") from None

    def report(self) -> int:
        """Compare what is measured, print it, and write report.md and report.html; 1 when there is nothing yet."""
        from slipway.commands.report import write
        from slipway.experiment.showing import closing_lines, report_of

        results = self.results()
        if not results:
            print(f"{self.experiment.name}: nothing is measured yet", file=sys.stderr)
            return 1
        outcome, report = report_of(self.experiment, self.state(), results)
        paths = write(self.folder, report)
        print("\n".join(closing_lines(outcome)))
        print("\n".join(f"written: {path}" for path in paths))
        return 0

    def results(self) -> dict[str, Any]:
        """By variant, of those that have any; each is marked with what it is, so that `bench diff` knows its lever."""
        from slipway.bench.folder import EXPERIMENT, labels, read_result

        known, found = set(labels(self.bench)), {}
        for one in self.experiment.variants:
            label = self.experiment.label(one.name)
            if label in known:
                row = {"experiment": self.experiment.name, "variant": one.name, "levels": dict(one.levels),
                       "levers": list(one.own.keys)}  # fmt: skip
                replace(self.bench / label / EXPERIMENT, json.dumps(row, indent=1) + "\n")
                found[one.name] = read_result(self.bench, label)
        return found


class Hosts:
    """The world of drive.World: pyinfra runs of deploy.py and playbooks/bench.py, and files beside the results."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._claim: Claim | None = None
        self._campaign: dict[str, str] = {}  # what steps are told, so that the deployment's lock stays with us
        self._locked = False

    def __enter__(self) -> Hosts:
        from slipway.agent.process import new_campaign
        from slipway.agent.step import Claim

        self._campaign = new_campaign(f"experiment {self._conductor.experiment.name}")
        (self._conductor.folder / LOGS).mkdir(parents=True, exist_ok=True)
        self._claim = Claim(str(self._conductor.folder / CLAIM), self.say)
        return self

    def __exit__(self, *_: object) -> None:
        if self._locked:
            self._unlock()
        if self._claim:
            self._claim.release()

    def _unlock(self) -> None:
        """The deployment is everybody's again."""
        if not self._pyinfra(self._conductor.planned[0], self._conductor.data, "playbooks/unlock.py", "unlock").ok:
            self.say("the lock could not be given back everywhere; it counts as dead once this process has ended")

    def deploy(self, planned: Planned) -> Outcome:
        """deploy.py: converges, climbs the ladder, records the release."""
        return self._pyinfra(planned, planned.data, "deploy.py", f"deploy-{planned.variant.name}")

    def measure(self, planned: Planned, label: str, number: int) -> Outcome:
        """playbooks/bench.py: refuses what does not verify, re-attaches to a sweep that is under way."""
        sweep = {"bench.sweep": self._conductor.experiment.sweep} if self._conductor.experiment.sweep else {}
        asked = {**planned.data, **sweep, "label": label, "repeats": number}
        return self._pyinfra(planned, asked, "playbooks/bench.py", f"bench-{planned.variant.name}-{number}")

    def rounds(self, label: str) -> int:
        """As done.json says."""
        from slipway.bench.folder import ended_rounds

        return ended_rounds(self._conductor.bench / label)

    def save(self, state: State) -> None:
        """Beside the results."""
        from slipway.experiment.state import to_text

        replace(self._conductor.folder / STATE, to_text(state))

    def say(self, text: str) -> None:
        """On the terminal, at once."""
        print(f"==> {text}", flush=True)

    def _pyinfra(self, planned: Planned, data: Mapping[str, Any], program: str, name: str) -> Outcome:
        from slipway.agent.step import run_logged
        from slipway.experiment.drive import Outcome

        words = [word for key, value in data.items() for word in ("--data", f"{key}={json.dumps(value)}")]
        command = [sys.executable, "-m", "pyinfra", "-y", *words, str(planned.inventory), program]
        log = self._conductor.folder / LOGS / f"{name}.log"
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {shlex.join(command)}\n")
        self._locked = True
        code, lines = run_logged(command, str(log), show, self._claim, str(self._conductor.project), self._campaign)
        if code:
            self.say(f"{program} ended with {code}; all it said: {log}")
        return Outcome(code == 0, lines)


def show(line: str) -> None:
    """Of a step's output what Slipway says of what happens; the log has all."""
    if line.startswith("    ") and not QUIET.match(line):
        print(f"    {line.strip()[:200]}", flush=True)


def replace(path: Path, text: str) -> None:
    """Whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
