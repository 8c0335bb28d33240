"""Puts what a rollout was changing on a host back as the current release has it, when nobody confirms the change.

usage: putback arm < REQUEST     before a step: write down what is about to be changed, and start the watcher
       putback watch FOLDER      the watcher, detached: it acts when the controller has been silent for confirm_s
       putback confirm FOLDER    after a step: it holds; answers with what the host did meanwhile, if it did
       putback settle FOLDER     before a run: end what an earlier one left armed, and wait for what is being put back

FOLDER is the deployment's. REQUEST, JSON: folder, deployment, lock (id of the run), confirm_s, watcher (the command
that starts `watch`), instances ({name, files: [{path, mode, user}], stop, start, service, patience_s, tmp, budget_s}),
reload (commands), routers (URLs of this host's), workers (as a router is given them) and ca (whom to trust, in PEM).
A controller is alive as long as it touches the deployment's lock; its silence is measured by this host's clock alone.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import contextlib
import glob
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slipway.agent import audit, files, halt, job, router
from slipway.agent.process import boot_id
from slipway.agent.state import api_key, read_json, service_states
from slipway.agent.verify.client import asked_at, get
from slipway.agent.verify.rungs import started

POLL_S = 1.0
SETTLE_S = 900.0  # that another run waits for what is being put back
CONFIG = re.compile(r"^SLIPWAY_CONFIG=['\"]?([0-9a-f]+)", re.MULTILINE)


def place(folder: str, name: str) -> str:
    """ROOT/deployments/NAME/putback/NAME.json: armed, acting (being put back) or done (the last that was)."""
    return os.path.join(folder, "putback", f"{name}.json")


def write(path: str, data: dict[str, Any]) -> None:
    """Whole or not at all, in a folder that is made when it is not there."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    files.write_whole(path, json.dumps(data))


def arm(request: dict[str, Any]) -> dict[str, Any]:
    """Note what the current release has of what is about to be changed, and watch. armed: the instances' names."""
    folder = request["folder"]
    settle(folder)
    known = [one for one in request["instances"] if one["name"] in planned(folder)]
    if not known and not request["workers"]:
        return {"armed": []}  # nothing of this served before
    ident = f"{request['lock']}-{time.monotonic_ns()}"
    write(place(folder, "armed"), {**request, "id": ident, "instances": known, "boot": boot_id()})
    done = subprocess.run(request["watcher"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        os.unlink(place(folder, "armed"))
        return {"armed": [], "error": done.stdout.strip()[-300:]}
    return {"armed": [one["name"] for one in known]}


def watched(folder: str) -> list[str]:
    """Names of the instances that a watcher would put back."""
    armed = read_json(place(folder, "armed"))
    return [one["name"] for one in armed.get("instances", [])] if armed.get("boot") == boot_id() else []


def planned(folder: str) -> dict[str, dict[str, Any]]:
    """Instances of the current release, by name."""
    plan = read_json(os.path.join(folder, "current", "plan.json"))
    return {one["name"]: one for one in plan.get("instances", [])}


def confirm(folder: str) -> dict[str, Any]:
    """The change holds. back: what the host has put back by itself before it heard so."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place(folder, "armed"))
        return {"back": []}
    wait_acting(folder)
    done = read_json(place(folder, "done"))
    return {"back": done.get("names", []), "detail": done.get("detail", "")}


def settle(folder: str) -> dict[str, Any]:
    """Nothing is armed and nothing is being put back. waited: seconds."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place(folder, "armed"))
    began = time.monotonic()
    wait_acting(folder)
    for name in ("acting", "done"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place(folder, name))
    return {"waited": round(time.monotonic() - began, 1)}


def wait_acting(folder: str) -> None:
    """Until no watcher acts; one that a reboot ended left only its file."""
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        acting = read_json(place(folder, "acting"))
        if not acting or job.started(acting["pid"]) != acting["started"]:
            return
        time.sleep(0.2)


def watch(folder: str) -> None:
    """Until the change is confirmed, another run takes over, or the controller has been silent for too long."""
    request = read_json(place(folder, "armed"))
    if request and silent(folder, request) and claim(folder, request):
        act(folder, request)


def silent(folder: str, request: dict[str, Any]) -> bool:
    """Wait; whether it is for us to act."""
    path = os.path.join(folder, "lock")
    touched, heard = 0, time.monotonic()
    while read_json(place(folder, "armed")).get("id") == request["id"]:
        holder = read_json(path).get("id", request["lock"])  # given back unconfirmed is silence too
        if holder != request["lock"]:
            return False
        with contextlib.suppress(OSError):
            now = os.stat(path).st_mtime_ns
            if now != touched:
                touched, heard = now, time.monotonic()
        if time.monotonic() - heard > request["confirm_s"]:
            return True
        time.sleep(POLL_S)
    return False


def claim(folder: str, request: dict[str, Any]) -> bool:
    """Exactly one of confirming and putting back happens."""
    write(place(folder, "acting"), {"pid": os.getpid(), "started": job.started(os.getpid()), "id": request["id"]})
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place(folder, "armed"))
        return True
    os.unlink(place(folder, "acting"))
    return False


def act(folder: str, request: dict[str, Any]) -> None:
    """Put all of it back, then say how that went."""
    names = [one["name"] for one in request["instances"]] or ["routers"]
    note(request, names, "begun", f"no sign of life of the controller for {request['confirm_s']} s")
    try:
        detail = "; ".join(put_back(folder, request))
        result = "ok"
    except (OSError, ValueError, KeyError, BackError) as error:
        detail, result = f"{type(error).__name__}: {error}", "failed"
    note(request, names, result, detail)
    write(place(folder, "done"), {"names": names, "result": result, "detail": detail})
    os.unlink(place(folder, "acting"))


class BackError(Exception):
    """What could not be put back, in one sentence."""


def note(request: dict[str, Any], names: list[str], result: str, reason: str) -> None:
    """One line in the audit, by this host itself."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = {"when": when, "who": "the host itself", "from": socket.gethostname(), "run": request["lock"],
            "what": "put back", "step": f"put back {', '.join(names)}", "result": result, "reason": reason}  # fmt: skip
    audit.append({"folder": request["folder"], "lines": [line]})


def put_back(folder: str, request: dict[str, Any]) -> Iterator[str]:
    """Files first, then the processes that do not run what these say, then the routers. Says what was done."""
    before = planned(folder)
    for one in request["instances"]:
        restore(folder, one)
    for command in request["reload"]:
        call(command)
    due = [one for one in request["instances"] if not as_before(folder, one)]
    with ThreadPoolExecutor() as pool:  # each may take as long as its longest request
        list(pool.map(lambda one: stop(request, one), due))
    for one in due:
        for command in one["start"]:
            call(command, may_fail=True)  # reset-failed and the like; whether it runs is looked at below
    for one in request["instances"]:
        rung = healthy(one, before[one["name"]], config_of(folder, one), request.get("ca"))
        yield f"{one['name']} {'was started anew' if one in due else 'ran on'}, {rung}"
    for url in request["routers"]:
        key = api_key(sorted(glob.glob(os.path.join(folder, "services", "*.secret"))))
        add = list(when_healthy(request["workers"], request.get("ca")))
        told = {"url": url, "add": add, "timeout_s": 60, "key": key, "ca": request.get("ca")}
        answer = router.told(told)
        yield f"router {url}: {answer['error'] or 'has ' + ', '.join(sorted(answer['workers']))}"


def restore(folder: str, one: dict[str, Any]) -> None:
    """The instance's files as the current release has them; secrets, which no release holds, stay as they are."""
    known = {row["path"]: row for row in read_json(os.path.join(folder, "current", "files.json")).get("files", [])}
    for file in one["files"]:
        row = known.get(file["path"])
        if row and not row["sealed"]:
            text = text_of(os.path.join(folder, "current", "files", row["name"]))
            files.write({**file, "mode": row["mode"], "user": row["user"] or file["user"], "text": text})


def config_of(folder: str, one: dict[str, Any]) -> str:
    """The configuration that the current release has for it; '' when it has none."""
    known = read_json(os.path.join(folder, "current", "files.json")).get("files", [])
    for row in known:
        if os.path.basename(row["path"]) == f"{one['name']}.env":
            found = CONFIG.search(text_of(os.path.join(folder, "current", "files", row["name"])))
            return found.group(1) if found else ""
    return ""


def text_of(path: str) -> str:
    """A file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def as_before(folder: str, one: dict[str, Any]) -> bool:
    """Whether it runs with that configuration: it was not stopped yet."""
    service = one["service"]
    state = service_states({**service, "names": [service["name"]]})[service["name"]]
    return bool(state["state"] == "running" and state.get("config") == config_of(folder, one))


def stop(request: dict[str, Any], one: dict[str, Any]) -> None:
    """End it and all that it left. Raises BackError."""
    told = {"deployment": request["deployment"], "instance": one["name"], "service": one["service"],
            "commands": one["stop"], "patience_s": one["patience_s"], "tmp": one["tmp"]}  # fmt: skip
    left = halt.halt(told)["alive"]
    if left:
        raise BackError(f"{one['name']} could not be stopped: processes {left} stay")


def call(command: list[str], may_fail: bool = False) -> None:
    """Run one of the manager's commands. Raises BackError when it must succeed and does not."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode and not may_fail:
        raise BackError(f"{' '.join(command)[:160]} failed: {done.stdout.strip()[-300:]}")


def healthy(one: dict[str, Any], before: dict[str, Any], config: str, ca: str | None) -> str:
    """Wait until it is as well as a worker or router must be. Raises BackError."""
    url = asked_at(before["serves_at"], before.get("argv", []))
    subject = {"name": one["name"], "url": url, "address": before["address"], "config": config,
               "ports": before["ports"], "service": one["service"], "timeout_s": 20, "ca": ca,
               "serves": before["rank"] == 0}  # fmt: skip
    end = time.monotonic() + one["budget_s"]
    while True:
        last = started(subject)[-1]
        if last["ok"]:
            return f"rung {last['rung']} holds"
        if time.monotonic() > end:
            raise BackError(f"{one['name']} did not come up in {one['budget_s']} s: {last['rung']}: {last['detail']}")
        time.sleep(POLL_S)


def when_healthy(workers: list[dict[str, Any]], ca: str | None) -> Iterator[dict[str, Any]]:
    """Each worker once it answers that it is well; those of other hosts are put back by these."""
    for worker in workers:
        end = time.monotonic() + worker["budget_s"]
        while time.monotonic() < end and not well(worker["url"], ca):
            time.sleep(POLL_S)
        yield {key: value for key, value in worker.items() if key != "budget_s"}


def well(url: str, ca: str | None) -> bool:
    """Whether a worker's /health is 200."""
    try:
        return get({"url": url, "timeout_s": 20, "ca": ca}, "/health").status == 200
    except (OSError, http.client.HTTPException):
        return False


def main(arguments: list[str]) -> int:
    """One call; answers are one JSON line."""
    action = arguments[0]
    if action == "arm":
        print(json.dumps(arm(json.load(sys.stdin))))
    elif action == "watch":
        watch(arguments[1])
    else:
        print(json.dumps({"confirm": confirm, "settle": settle}[action](arguments[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
