"""Plans and findings as a person reads them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from slipway.builds.recipe import Build
from slipway.finding import Finding
from slipway.knowledge.backends import Choice
from slipway.memory import MemoryPlan
from slipway.plan.model import Decision, HostPlan, Instance, Plan
from slipway.plan.secrets import API_KEY
from slipway.plan.urls import url_of

MOST_ROWS = 16  # of a table; a plan is read in a minute, --full has every row
BAR = 40  # characters


def finding_lines(findings: Iterable[Finding]) -> list[str]:
    """One line a finding and one for its fix, errors first; equal findings about several subjects are one."""
    order = {"error": 0, "warning": 1, "note": 2}
    alike: dict[tuple[str, ...], list[str]] = {}
    for finding in sorted(findings, key=lambda finding: order[finding.severity]):
        key = (finding.severity, finding.message, finding.rule, finding.fix, finding.source)
        alike.setdefault(key, []).append(finding.subject)
    lines = []
    for (severity, message, rule, fix, source), subjects in alike.items():
        lines.append(f"{severity}: {_few(subjects)}: {message} [{rule}]")
        lines += [f"    hint: {fix}"] if fix else []
        lines += [f"    source: {source}"] if source and severity != "note" else []
    return lines


def _few(names: Sequence[str], most: int = 4) -> str:
    """Names in a row, cut after the first few."""
    unique = list(dict.fromkeys(names))
    rest = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(unique[:most]) + rest


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


def plan_lines(plan: Plan, full: bool = False) -> list[str]:
    """The plan: hosts, instances, what was decided and why, findings; then command lines and environments.

    full: every row, every step of the arithmetic, every instance's command; else one of each kind.
    """
    lines = [_title(plan), "", *_host_table(plan, full), "", *_instance_table(plan, full)]
    for body, workers in _decisions(plan, full).items():
        lines += ["", f"{_few(workers)}: {body[0]}", *body[1:]]
    lines += ["", *finding_lines(plan.findings)] if plan.findings else []
    for instance in plan.instances if full else _examples(plan):
        lines += ["", *_command_lines(instance)]
    return lines


def _title(plan: Plan) -> str:
    engine = "simulated engine" if plan.simulated else "SGLang"
    releases = ", ".join(dict.fromkeys(decision.release for decision in plan.decisions))
    counts = f"{len(plan.hosts)} host(s), {len(plan.instances)} instance(s)"
    return f"Deployment {plan.deployment}: {counts}, {engine} {releases}".rstrip()


def _host_table(plan: Plan, full: bool) -> list[str]:
    rows = [
        (host.name, host.address, host.manager, host.paths["root"], host.hardware or "hardware not known")
        for host in plan.hosts
    ]
    lines = table(("HOST", "ADDRESS", "MANAGER", "ROOT", "HARDWARE"), rows, full)
    builds = dict.fromkeys(build for host in plan.hosts for build in _builds(host))
    checkpoints = dict.fromkeys(host.checkpoint.path for host in plan.hosts if host.checkpoint)
    lines += [f"build       {build}" for build in builds]
    return [*lines, *(f"checkpoint  {path}" for path in checkpoints)]


def _builds(host: HostPlan) -> list[str]:
    return [*map(_build, host.builds), *([host.simulator] if host.simulator else [])]


def _build(build: Build) -> str:
    """A build with what distinguishes it from the plain wheels of its release."""
    patches = ", ".join(patch.id for patch in build.patches)
    source = f" from commit {build.git.commit[:12]}" if build.git else ""
    return build.id + source + (f" with {patches}" if patches else "")


def _instance_table(plan: Plan, full: bool) -> list[str]:
    rows = [(one.name, one.host, gpu_span(one.gpus), _ports(one), _serves(one), one.placed) for one in plan.instances]
    return table(("INSTANCE", "HOST", "GPUS", "PORTS", "SERVES AT", "GPUS BECAUSE"), rows, full)


def _ports(instance: Instance) -> str:
    ports = [f"{use} {port}" for use, port in instance.ports.items()]
    return ", ".join([*ports, *(f"({use} {port})" for use, port in instance.reserved.items())])


def _serves(instance: Instance) -> str:
    return url_of(instance) or f"rank {instance.rank} of {instance.leader}"


def gpu_span(gpus: Sequence[int]) -> str:
    """GPU indices, runs shortened: 0-3,6; a dash for none."""
    from slipway.placement.place import span

    return span(gpus) if gpus else "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], full: bool = True) -> list[str]:
    """Columns as wide as their widest cell; columns that are empty everywhere are left out."""
    shown = rows if full else rows[:MOST_ROWS]
    kept = [at for at in range(len(head)) if any(row[at] not in ("", "-") for row in shown)]
    cells = [[row[at] for at in kept] for row in (head, *shown)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(kept))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return [*lines, *([f"... and {len(rows) - len(shown)} more (--full)"] if len(rows) > len(shown) else [])]


def _decisions(plan: Plan, full: bool) -> dict[tuple[str, ...], list[str]]:
    """What was decided, with the workers it holds for: prefill and decode often run with the same."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for decision in plan.decisions:
        alike.setdefault(tuple(_decision_lines(decision, full)), []).extend(decision.instances)
    return alike


def _decision_lines(decision: Decision, full: bool) -> list[str]:
    """What workers of one kind run with, each value with who says so; but for their role, which the name says."""
    lines = [", ".join(filter(None, [f"SGLang {decision.release}", decision.arch, decision.model]))]
    why = {choice.name: choice for choice in decision.choices}
    settings = [one for one in decision.settings if one.name != "disaggregation_mode"]
    rows = [(f"  {one.name}", _value(one.value), _origin(one.origin, why.get(one.name))) for one in settings]
    given = {one.name for one in settings}
    rows += [_environment_row(choice) for choice in decision.choices if choice.kind == "environment"]
    rows += [
        (f"  {choice.name}", _value(choice.value), "engine default" + _because(choice))
        for choice in decision.choices
        if choice.kind == "flag" and choice.name not in given and _worth(choice)
    ]
    lines += table(("  SETTING", "VALUE", "FROM"), rows)
    return lines + _memory_lines(decision.memory, full)


def _environment_row(choice: Choice) -> tuple[str, str, str]:
    return (f"  {choice.name}", _value(choice.value), "environment" + _because(choice))


def _worth(choice: Choice) -> bool:
    """An engine's default is worth a line when something is known of it."""
    return choice.value not in (None, "none", "auto")


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _origin(origin: str, choice: Choice | None) -> str:
    return origin + (_because(choice) if choice and origin == "table" else "")


def _because(choice: Choice) -> str:
    return f": {choice.reason} ({choice.confidence})"


def _memory_lines(memory: MemoryPlan | None, full: bool) -> list[str]:
    if memory is None or not memory.lines:
        return []
    wrong = any(finding.severity != "note" for finding in memory.findings)
    steps = [f"    {line}" for line in memory.lines] if full or wrong else []
    return [memory_bar(memory), *steps]


def memory_bar(memory: MemoryPlan) -> str:
    """One GPU's memory as a bar: weights #, request state +, KV =, free for graphs and activations a dot."""
    total = memory.reserve_left / (1 - memory.fraction) if memory.fraction < 1 else memory.usable
    parts = [("#", memory.weights), ("+", memory.state), ("=", max(memory.kv, 0.0))]
    drawn = "".join(sign * round(BAR * size / total) for sign, size in parts)[:BAR]
    gib = 2**30
    words = (
        f"weights {memory.weights / gib:.1f}, KV {memory.kv / gib:.1f} ({memory.tokens:,} tokens {memory.kv_dtype}), "
        f"left {memory.reserve_left / gib:.1f} of {total / gib:.1f} GiB"
    )
    return f"  memory [{drawn:.<{BAR}}] {words}"


def _examples(plan: Plan) -> list[Instance]:
    """One worker of each kind with all its ranks, and one router."""
    leaders = {decision.instances[0] for decision in plan.decisions}
    leaders |= {router.name for router in plan.of("router")[:1]}
    return [instance for instance in plan.instances if instance.leader in leaders]


def _command_lines(instance: Instance) -> list[str]:
    lines = [f"{instance.name} on {instance.host}", f"    command: {command_line(instance)}", "    environment:"]
    return lines + [f"        {key}={shlex.quote(value)}" for key, value in sorted(instance.env.items())]


def failure_lines(deployment: str, why: str, serves: str, evidence: Sequence[str], look: str) -> list[str]:
    """What stands at the end of a run whose rollout failed. serves: what runs now; look: the command that shows it."""
    lines = ["", f"Deployment {deployment}: NOT changed as asked.", f"  why: {why}", f"  now: {serves}"]
    lines += [f"  evidence: {place}" for place in evidence]
    return [*lines, "Look at what runs:", f"  {look}"]


def summary_lines(plan: Plan, question: str, answer: str, stop: str) -> list[str]:
    """What stands at the end of a deploy: endpoints, what runs where, what to try, how to stop."""
    routers = plan.of("router")
    lines = ["", f"Deployment {plan.deployment} serves" + (" (SIMULATED engine)" if plan.simulated else "") + "."]
    lines += [f"  {instance.name:<12} {instance.host:<16} {_serves(instance)}" for instance in plan.instances]
    if answer:
        lines.append(f"  asked: {question}\n  answer: {answer}")
    for router in routers[:1]:
        lines += ["Try it:", f"  {_curl(plan, router, question)}"]
    return [*lines, "Stop it:", f"  {stop}"]


def _curl(plan: Plan, router: Instance, question: str) -> str:
    served = next((host.checkpoint.served_name for host in plan.hosts if host.checkpoint), "")
    message = {"role": "user", "content": question or "Say hello."}
    body = json.dumps({"model": served, "temperature": 0, "messages": [message]})
    head = f"-H 'Content-Type: application/json'{_key_head(router)}"
    return f"curl -s {url_of(router)}/v1/chat/completions {head} -d {shlex.quote(body)}"


def _key_head(router: Instance) -> str:
    """The shell finds the API key where the controller does, so it is not printed."""
    place = router.secrets.get(API_KEY, {})
    if not place:
        return ""
    found = f"${place['env']}" if "env" in place else f"$(cat {shlex.quote(place['file'])})"
    return f' -H "Authorization: Bearer {found}"'
