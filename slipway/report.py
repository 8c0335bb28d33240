"""Plans and findings as a person reads them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from slipway.finding import Finding
from slipway.plan.model import Instance, Plan


def finding_lines(findings: Iterable[Finding]) -> list[str]:
    """One line a finding and one for its fix, errors first."""
    order = {"error": 0, "warning": 1, "note": 2}
    lines = []
    for finding in sorted(findings, key=lambda finding: order[finding.severity]):
        lines.append(f"{finding.severity}: {finding.subject}: {finding.message} [{finding.rule}]")
        if finding.fix:
            lines.append(f"    hint: {finding.fix}")
        if finding.source and finding.severity != "note":
            lines.append(f"    source: {finding.source}")
    return lines


def command_line(instance: Instance) -> str:
    """The command line, one flag a line, as it can be pasted into a shell."""
    lines: list[str] = []
    for word in instance.argv:
        quoted = shlex.quote(word)
        if word.startswith("--") or not lines:
            lines.append(quoted)
        else:
            lines[-1] += f" {quoted}"
    return " \\\n        ".join(lines)


def plan_lines(plan: Plan) -> list[str]:
    """Hosts, instances, ports, command lines and environment of the whole plan."""
    lines = [f"Deployment {plan.deployment}" + (" (simulated engine)" if plan.simulated else "")]
    for host in plan.hosts:
        lines += ["", f"{host.name}  {host.address}  {host.manager}, root {host.paths['root']}"]
        lines += [f"  build       {build.id}" for build in host.builds]
        lines += [f"  build       {host.simulator}"] if host.simulator else []
        lines += [f"  checkpoint  {host.checkpoint.path}"] if host.checkpoint else []
        lines += [line for instance in plan.on(host.name) for line in _instance_lines(instance)]
    return [*lines, *([""] if plan.findings else []), *finding_lines(plan.findings)]


def _instance_lines(instance: Instance) -> list[str]:
    ports = ", ".join(f"{use} {port}" for use, port in instance.ports.items())
    gpus = f"  GPUs {','.join(map(str, instance.gpus))}" if instance.gpus else ""
    lines = [f"  {instance.name}  {ports}{gpus}", f"    command: {command_line(instance)}", "    environment:"]
    return lines + [f"        {key}={shlex.quote(value)}" for key, value in sorted(instance.env.items())]


def summary_lines(plan: Plan, question: str, answer: str, stop: str) -> list[str]:
    """What stands at the end of a deploy: endpoints, what runs where, what to try, how to stop."""
    routers = plan.of("router")
    lines = ["", f"Deployment {plan.deployment} serves" + (" (SIMULATED engine)" if plan.simulated else "") + "."]
    lines += [f"  {instance.name:<12} {instance.host:<16} {instance.serves_at}" for instance in plan.instances]
    if answer:
        lines.append(f"  asked: {question}\n  answer: {answer}")
    for router in routers[:1]:
        lines += ["Try it:", f"  {_curl(plan, router, question)}"]
    return [*lines, "Stop it:", f"  {stop}"]


def _curl(plan: Plan, router: Instance, question: str) -> str:
    import json

    served = next((host.checkpoint.served_name for host in plan.hosts if host.checkpoint), "")
    message = {"role": "user", "content": question or "Say hello."}
    body = json.dumps({"model": served, "temperature": 0, "messages": [message]})
    return f"curl -s {router.serves_at}/v1/chat/completions -H 'Content-Type: application/json' -d {shlex.quote(body)}"
