"""Decides once for all workers that are alike: backends, flags, memory, and whether the checkpoint is read right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.checkpoint import AsRead, check_capability, check_quantization_flag
from slipway.finding import Finding
from slipway.knowledge.backends import Choice, Request, environment, problems, resolve
from slipway.knowledge.flags import FlagList
from slipway.memory import MemoryPlan
from slipway.memory.roofline import Roofline

from .arguments import configured, worker_settings
from .choices import choice_findings, request_of
from .figures import memory_of, roofline_of, split_of
from .flags import check_settings, env_findings, list_of, planned_twice, spell, without
from .kind import Kind
from .model import Decision, Setting


@dataclass(frozen=True)
class Decided:
    """What holds for workers of one kind. flags: argv of their common settings. env: what build and tables need."""

    kind: Kind
    known: FlagList
    request: Request | None
    choices: tuple[Choice, ...]
    settings: tuple[Setting, ...]
    flags: tuple[str, ...]
    env: Mapping[str, str]
    read: AsRead | None
    memory: MemoryPlan | None
    roofline: Roofline | None
    findings: tuple[Finding, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The common settings by name."""
        return {setting.name: setting.value for setting in self.settings}


def decide(kind: Kind, names: Sequence[str], learnt: Mapping[str, FlagList]) -> Decided:
    """Decide for the workers `names`, which are all of this kind. learnt: flag lists of built engines, by release."""
    subject = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    release, known = kind.engine.version, list_of(kind.engine.version, learnt)
    read = kind.checkpoint.as_read(release, kind.engine.patches) if kind.checkpoint else None
    request = request_of(kind, read, configured(kind.settings)) if kind.arch else None
    choices = resolve(request) if request else ()
    settings = worker_settings(kind.role, kind.settings, release, kind.recipe, choices)
    values = {setting.name: setting.value for setting in settings}
    wrong, flag_findings = check_settings(known, subject, values)
    effective = {**_by_default(choices), **values}
    memory = memory_of(kind, effective, subject) if kind.arch != "cpu" else None
    findings = [
        *_unknown(kind, subject),
        *_reading(kind, read, subject),
        *choice_findings(problems(choices), read, subject),
        *planned_twice(known, subject, kind.settings),
        *flag_findings,
        *env_findings(release, subject, kind.settings),
        *(memory.findings if memory else split_of(kind, effective, subject)),
    ]
    env = {**(kind.recipe.environment if kind.recipe else {}), **environment(choices)}
    flags = tuple(spell(known, without(values, wrong)))
    bound = roofline_of(kind, effective)
    return Decided(kind, known, request, choices, settings, flags, env, read, memory, bound, tuple(findings))


def _by_default(choices: Sequence[Choice]) -> dict[str, Any]:
    """What the engine takes by itself, where that is known."""
    return {choice.name: choice.value for choice in choices if choice.kind == "flag" and choice.value is not None}


def _unknown(kind: Kind, subject: str) -> Iterator[Finding]:
    if kind.checkpoint is None and kind.source:
        text = f"nothing is known of the checkpoint {kind.source}: backends and memory are left to the engine"
        fix = "set model.facts to a folder with its config.json, hf_quant_config.json and safetensors index"
        yield Finding("checkpoint-unread", "warning", subject, text, fix)
    if not kind.arch:
        text = "the GPU's architecture is not known: backends are left to the engine"
        yield Finding("architecture-unknown", "warning", subject, text, "set `hardware:` of its host")


def _reading(kind: Kind, read: AsRead | None, subject: str) -> Iterator[Finding]:
    """How the release reads the checkpoint, and whether this GPU and what the user wrote go with that."""
    if read is None:
        return
    yield from read.findings
    written = configured(kind.settings).get("quantization")
    for finding in check_quantization_flag(read, str(written or "")):
        yield Finding(finding.rule, finding.severity, subject, finding.message, finding.fix, finding.source)
    if kind.capability:
        yield from check_capability(read, float(kind.capability), subject)


def described(decided: Decided, names: Sequence[str]) -> Decision:
    """As the plan records it."""
    checkpoint = decided.kind.checkpoint
    method = decided.read.method if decided.read else ""
    model = f"{checkpoint.name}, read as {method or 'unquantized'}" if checkpoint else ""
    return Decision(
        instances=tuple(names),
        role=decided.kind.role,
        release=decided.kind.engine.version,
        arch=decided.kind.arch,
        model=model,
        settings=decided.settings,
        choices=decided.choices,
        memory=decided.memory,
        roofline=decided.roofline,
    )
