"""What runs where, as far as hosts still answer: for runs that end because some of them do not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import gevent
from pyinfra.api.host import Host

from roles.probe import inline
from roles.remote import execute
from slipway.config.deployment import Deployment
from slipway.plan.facts import read_facts
from slipway.plan.paths import host_paths, host_root

HINT = (
    "hint: nothing is lost, every host keeps its releases and what it serves. When {names} answers again the same "
    "command goes on; to serve without it until then, take it out of the inventory and deploy"
)


def unreachable(hosts: Mapping[str, Host], deployment: Deployment, missing: list[str]) -> str:
    """What to tell an operator whose run cannot reach some hosts: which, what the others run, what to do."""
    jobs = {name: gevent.spawn(_looked, hosts[name], deployment, name) for name in hosts if name not in missing}
    gevent.joinall(list(jobs.values()))
    found = {name: job.value or {} for name, job in jobs.items()}
    lines = [f"cannot reach {', '.join(missing)}; nothing was changed on any host"]
    lines += [f"    {line}" for name, one in found.items() for line in _stands(name, one)]
    lines += [f"    {name}: {_expected(name, found)}" for name in missing]
    return "\n".join([*lines, f"    {HINT.format(names=', '.join(missing))}"])


def _looked(host: Host, deployment: Deployment, name: str) -> dict[str, Any]:
    """What one host says; {} when it says nothing that can be read."""
    try:
        facts = read_facts(_answer(host, "hardware", {}))
        root = host_root(deployment.host(name), facts)
        current = f"{host_paths(root, deployment.host(name).deployment)['deployment']}/current"
        request = {"files": [current], "deployment": deployment.host(name).deployment}
        plan = execute(host, ["cat", f"{current}/plan.json"])
        return {
            "state": _answer(host, "state", request),
            "current": current,
            "plan": json.loads("\n".join(plan.stdout)) if plan.ok else {},
        }
    except (ValueError, IndexError, KeyError, TypeError):
        return {}


def _answer(host: Host, program: str, request: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(execute(host, [*inline(program), json.dumps(request)]).stdout[-1])
    return answer


def _stands(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    if not found:
        yield f"{name}: does not say what it runs"
        return
    live = ", ".join(sorted(found["state"]["live"])) or "nothing"
    yield f"{name}: {_release(found) or 'no release'} is current; running: {live}"


def _release(found: Mapping[str, Any]) -> str:
    target = found["state"]["files"][found["current"]].get("target", "") if found else ""
    return f"release {target.rpartition('/')[2]}" if target else ""


def _expected(name: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """What a release that is current elsewhere has on a host that does not answer."""
    for one in found.values():
        there = [row["name"] for row in one.get("plan", {}).get("instances", ()) if row.get("host") == name]
        if there:
            return f"does not answer; {_release(one)} has {', '.join(sorted(there))} there"
    return "does not answer"
