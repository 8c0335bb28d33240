"""`slipway explain NAME [INVENTORY]`: why a setting has its value, what a finding's id means, hardware names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from slipway.knowledge.backends import Choice
from slipway.knowledge.explain import Line, explain, names
from slipway.plan.decide import Decided
from slipway.plan.make import Made


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser."""
    parser: argparse.ArgumentParser = commands.add_parser("explain", help="why a setting has its value; asks no host")
    parser.add_argument("name", metavar="NAME", help="a setting, a variable, a finding's id, or `hardware`")
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Print what is known of it; 2 for a name that nothing speaks of."""
    from slipway.commands.opening import made_of

    made = made_of(arguments) if arguments.inventory else None
    if arguments.inventory and made is None:
        return 1
    lines = list(explained(arguments.name, made))
    if not lines:
        print(_unknown(arguments.name, made), file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


def explained(name: str, made: Made | None) -> Iterator[str]:
    """Everything there is to say; nothing for an unknown name. made: the plan to look at, if any."""
    if name == "hardware":
        yield from _hardware()
    yield from _finding_id(name)
    yield from _setting(name, made)


def _setting(name: str, made: Made | None) -> Iterator[str]:
    try:
        listed = explain(name)
    except KeyError:
        yield from _written(name, made)
        return
    if made is None:
        yield from [f"{listed.name}: every row of the tables", *_rows(listed.lines)]
        return
    alike: dict[tuple[str, ...], list[str]] = {}
    for worker, decided in made.decided.items():
        alike.setdefault(_for_workers(name, decided), []).append(worker)
    for body, workers in alike.items():
        few = ", ".join(workers[:3]) + (f" and {len(workers) - 3} more" if len(workers) > 3 else "")
        yield from [f"{listed.name} of {few}", *body]


def _for_workers(name: str, decided: Decided) -> tuple[str, ...]:
    if decided.request is None:
        return ("  the GPU's architecture is not known, so the tables were not asked",)
    found = explain(name, decided.request)
    return tuple(_chosen(found.choice, decided)) + tuple(_rows(line for line in found.lines if line.decides))


def _chosen(choice: Choice | None, decided: Decided) -> Iterator[str]:
    yield f"  with        SGLang {decided.kind.engine.version}, {decided.kind.arch}, {_model(decided)}"
    if choice is None:
        yield "  no row holds here: the engine decides by itself"
    else:
        passed = "passed to the engine" if choice.passed else "left to the engine"
        yield f"  value       {choice.value} ({choice.how}, {passed})"
        yield f"  by itself   {choice.auto_value}"
        yield f"  because     {choice.reason}"
        yield f"  source      {choice.source} (confidence: {choice.confidence})"
        yield from (f"  {problem}" for problem in choice.problems)


def _model(decided: Decided) -> str:
    checkpoint = decided.kind.checkpoint
    return checkpoint.name if checkpoint else "an unknown checkpoint"


def _rows(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        mark = "*" if line.decides else " "
        yield f"  {mark} {line.table} ({line.where}): when {line.when or 'always'}"
        yield f"      {line.says}"
        yield f"      source: {line.source} (confidence: {line.confidence})"


def _written(name: str, made: Made | None) -> Iterator[str]:
    """A setting that no table speaks of, but that the plan sets."""
    plain = name.lstrip("-").replace("-", "_")
    for decision in made.plan.decisions if made else ():
        for setting in decision.settings:
            if setting.name == plain:
                yield f"{plain} of {', '.join(decision.instances[:3])}: {setting.value} ({setting.origin})"


def _finding_id(name: str) -> Iterator[str]:
    from slipway.rules import all_rules, known_others

    for rule in all_rules():
        if rule.id == name:
            yield f"{rule.id} ({rule.severity}): {rule.title}"
            yield from [f"  checks      {rule.checks}", f"  fix         {rule.fix}"]
            yield f"  source      {rule.source} (confidence: {rule.confidence})"
    for other in known_others():
        if other.id == name:
            yield from [f"{other.id} ({other.severity}): {other.says}", f"  found by    {other.where}"]


def _hardware() -> Iterator[str]:
    from slipway.hardware import declare
    from slipway.hardware import names as hardware_names

    yield "hardware: a name, or a mapping with gpu and count. Names:"
    for name in hardware_names():
        found, _ = declare(name)
        yield f"  {name:<24} {found.describe() if found else ''}"


def _unknown(name: str, made: Made | None) -> str:
    from slipway.config.errors import nearest
    from slipway.rules import known_ids

    settings = {setting.name for decision in made.plan.decisions for setting in decision.settings} if made else set()
    close = nearest(name.lstrip("-"), [*names(), *sorted(settings), *sorted(known_ids())])
    hint = f"did you mean {close}?" if close else f"tables speak of {', '.join(names())}"
    return f"nothing is known of {name}{'' if made else ' (name an inventory to look into its plan)'}\n    hint: {hint}"
