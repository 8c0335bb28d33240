"""Runs the product on a GPU machine that has been brought all it needs: python3 -m hardware.h200 STAGE... --out FOLDER

Stages, in this order; each call does those that it is told, as time on such a machine comes in pieces:
  prepare        Slipway's own environment, from the packed wheels; what the machine is, as Slipway's probe reads it
  aggregated     one unified worker on one GPU: deploy, again (nothing may change), sweep
  disaggregated  one prefill and one decode: deploy, verify (the answers are the aggregated ones), sweep
  experiment     experiments/h200-transfer.yml: NIXL against Mooncake, one thing changed
  change         one flag changed by a rollout, under load
  wrong          a release that answers wrong, put back by the rollout itself
  killed         a decode worker killed: what clients see, and how long until they are served again
  by-hand        the same command lines without Slipway, measured in turns with the deployed ones
  larger         a model of a real shape with random weights: made there, deployed, swept
  destroy        nothing of it is left: no process, no GPU memory in use
With one GPU, prefill and decode share it. --packed names the folder that hardware.pack made (wheels/, controller/).
A stage that fails is told and the next one goes on; the exit status is the number of stages that failed.
Rehearsed without a GPU by tests/hardware: --simulated.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hardware.machine import AGGREGATED, Data, Machine, StageError

WRONG = "wrong-tiny"
QUESTION = "What is 17*23? Answer with the number only."
RECOVER_S = 240


def prepare(machine: Machine) -> None:
    """Slipway's own environment, and the machine as its probe reads it."""
    machine.make_environment()
    probe = machine.run(str(machine.python), "-m", "slipway.agent.hardware", str(machine.root), name="probe")
    (machine.out / "probe.json").write_text(probe, encoding="utf-8")
    machine.run("nvidia-smi", name="nvidia-smi")


def aggregated(machine: Machine) -> None:
    """One unified worker."""
    machine.pyinfra("deploy.py", what="deploy aggregated", inventory=AGGREGATED)
    again = machine.pyinfra("deploy.py", what="deploy aggregated again", inventory=AGGREGATED)
    if "Slipway: 0 change(s)" not in again:
        raise StageError("the second deploy changed something")
    machine.keep_answers("aggregated")
    machine.pyinfra("playbooks/bench.py", what="sweep aggregated", data={"label": "aggregated"}, inventory=AGGREGATED)


def disaggregated(machine: Machine) -> None:
    """One prefill, one decode, answering as the aggregated worker did."""
    machine.pyinfra("deploy.py", what="deploy disaggregated")
    if machine.keep_answers("disaggregated") != machine.answers("aggregated"):
        raise StageError("the disaggregated answers are not the aggregated ones")
    machine.pyinfra("playbooks/bench.py", what="sweep disaggregated", data={"label": "disaggregated"})
    machine.pyinfra("playbooks/status.py", what="status")


def experiment(machine: Machine) -> None:
    """The transfer as the one thing that changes."""
    machine.pyinfra("playbooks/experiment.py", what="experiment", data={"name": "h200-transfer"})


def change(machine: Machine) -> None:
    """One flag changed while clients are served. With one worker a role the outage is announced and counted."""
    with machine.load("change"):
        machine.pyinfra("deploy.py", what="change a flag under load", data={"decode.max_running_requests": 48})


def wrong(machine: Machine) -> None:
    """A checkpoint whose weights were damaged before its manifest was written: every check of files passes."""
    before = machine.release()
    data: Data = {"model.path": str(machine.damaged_model(WRONG))}
    if machine.simulated:  # it reads no weights
        data["worker.env"] = {"SLIPWAY_SIM_FAULTS": "wrong-answer"}
    with machine.load("wrong"):
        said = machine.pyinfra("deploy.py", what="deploy a wrong release", fails=True, data=data)
    if "known" not in said:
        raise StageError("the wrong release failed for another reason than its answers")
    if machine.release() != before:
        raise StageError(f"release {machine.release()} is current after a failed one; must be {before}")
    if machine.ask(QUESTION) != "391":
        raise StageError(f"after the rollback 17*23 is {machine.ask(QUESTION)!r}")


def killed(machine: Machine) -> None:
    """kill -9 to the decode worker; the service manager starts it again."""
    pid = machine.pid("decode-0")
    with machine.load("killed"):
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        while machine.ask(QUESTION, timeout=10) != "391":
            if time.monotonic() - began > RECOVER_S:
                raise StageError(f"no right answer {RECOVER_S} s after decode-0 was killed")
            time.sleep(0.5)
        machine.note("decode-0 killed: right answers again", time.monotonic() - began)
    if machine.pid("decode-0") == pid:
        raise StageError("decode-0 was not killed")
    machine.pyinfra("deploy.py", what="deploy after the kill")


def by_hand(machine: Machine) -> None:
    """Slipway must cost nothing."""
    plan, result = machine.home / "current/plan.json", machine.out / "by-hand.json"
    machine.run(str(machine.python), "-m", "hardware.by_hand", str(plan), str(result), name="by hand")


def larger(machine: Machine) -> None:
    """1.3 billion random weights: what it says means nothing, how fast it says it does."""
    folder = machine.scratch / "random-1.5b"
    if not folder.is_dir():
        machine.run(machine.torch_python, "-m", "hardware.random_model", str(folder), name="make random weights")
    data: Data = {"model.path": str(folder), "model.name": "random-1.5b", "worker.mem_fraction_static": 0.35}
    machine.pyinfra("deploy.py", what="deploy random-1.5b", data=data)
    machine.pyinfra("playbooks/bench.py", what="sweep random-1.5b", data={**data, "label": "random-1.5b"})


def destroy(machine: Machine) -> None:
    """Nothing is left."""
    machine.pyinfra("playbooks/destroy.py", what="destroy")
    time.sleep(3)
    if machine.root.exists():
        raise StageError(f"{machine.root} is still there: {sorted(path.name for path in machine.root.iterdir())}")
    if machine.processes():
        raise StageError(f"processes are left: {machine.processes()}")
    apps = machine.run("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader", name="GPU apps")
    if apps.strip() and not machine.simulated:
        raise StageError(f"GPU memory is in use: {apps}")


STAGES: dict[str, Callable[[Machine], None]] = {
    "prepare": prepare, "aggregated": aggregated, "disaggregated": disaggregated, "experiment": experiment,
    "change": change, "wrong": wrong, "killed": killed, "by-hand": by_hand, "larger": larger, "destroy": destroy,
}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("stages", nargs="+", choices=STAGES, metavar="STAGE")
    found.add_argument("--out", type=Path, required=True, help="folder for results, logs and what was printed")
    found.add_argument("--packed", type=Path, required=True, help="what hardware.pack made")
    found.add_argument("--scratch", type=Path, default=Path("/var/tmp/slipway-h200"), help="folder for models")
    found.add_argument("--root", type=Path, default=Path("/opt/slipway"))
    found.add_argument("--simulated", action="store_true", help="with the simulated engine, to rehearse")
    found.add_argument("--data", action="append", default=[], metavar="KEY=VALUE", help="as pyinfra's --data")
    return found


def main(arguments: list[str]) -> int:
    """Do the stages; how many failed."""
    options = parser().parse_args(arguments)
    machine = Machine.of(options)
    failed = [name for name in options.stages if not done(machine, name)]
    machine.collect()
    print(f"{len(options.stages) - len(failed)} of {len(options.stages)} stages done", *failed, flush=True)
    return len(failed)


def done(machine: Machine, name: str) -> bool:
    """Whether a stage held; why not is printed and kept."""
    print(f"== {name}", flush=True)
    began = time.monotonic()
    error = ""
    try:
        STAGES[name](machine)
    except (StageError, OSError, ValueError, subprocess.SubprocessError) as failure:
        error = f"{type(failure).__name__}: {failure}"
        print(f"   FAILED: {error}", flush=True)
    machine.record(name, time.monotonic() - began, error)
    return not error


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
