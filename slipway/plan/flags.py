"""Checks engine settings against the release's flag list and spells them; problems become findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slipway.config.deployment import WorkerSettings
from slipway.finding import Finding
from slipway.knowledge import envs, gates
from slipway.knowledge.flag_values import spell_value
from slipway.knowledge.flags import FlagList

from .arguments import PLANNED, TYPED_FLAGS, plain


def check_settings(known: FlagList, subject: str, settings: Mapping[str, Any]) -> tuple[set[str], list[Finding]]:
    """Names of settings that the release does not accept, and all that is to be said of the settings."""
    problems = known.check_all(settings)
    wrong = {problem.subject for problem in problems if problem.severity == "error"}
    findings = [
        Finding(problem.kind, problem.severity, subject, problem.message, problem.fix, problem.source)
        for problem in problems
        if not (
            problem.kind == "flag-renamed" and plain(problem.subject) in TYPED_FLAGS.values()
        )  # a key keeps its name
    ]
    return wrong, findings + list(_list_borrowed(known, subject))


def _list_borrowed(known: FlagList, subject: str) -> Iterator[Finding]:
    if not known.exact:
        yield Finding("flags-borrowed", "note", subject, known.note, "", known.source)


def spell(known: FlagList, settings: Mapping[str, Any]) -> list[str]:
    """Settings that were found right, as argv of the release; what it does not have is left out."""
    meant = (known.translate(name, value) for name, value in settings.items())
    return [word for found in meant if found is not None for word in spell_value(found[0], found[1])]


def planned_twice(known: FlagList, subject: str, settings: WorkerSettings) -> list[Finding]:
    """server_args that the plan or a key of its own decides: two places for one thing would contradict."""
    found = []
    for name in settings.server_args:
        flag = known.find(name)
        meant = flag.dest if flag else plain(name)
        if meant in PLANNED:
            text, fix = f"server_args sets {name}, which the plan sets itself", f"it is decided by {PLANNED[meant]}"
            found.append(Finding("flag-planned", "error", subject, text, fix))
        elif plain(name) in _typed(settings) and settings.server_args[name] is not None:
            text = f"{plain(name)} is set by a key of its own and by server_args"
            found.append(Finding("flag-twice", "error", subject, text, "keep one of them"))
    return found


def _typed(settings: WorkerSettings) -> set[str]:
    keys = {**TYPED_FLAGS, "transfer_backend": "disaggregation_transfer_backend"}
    return {flag for key, flag in keys.items() if getattr(settings, key) is not None}


def env_findings(release: str, subject: str, settings: WorkerSettings) -> list[Finding]:
    """What is wrong with variables that the user set; those of other programs are not judged.

    Of secrets the names alone: what they hold is not known here.
    """
    problems = envs.check_all(settings.env, release) + envs.check_names(settings.secret_env, release)
    return [
        Finding(problem.kind, problem.severity, subject, problem.message, problem.fix, problem.source)
        for problem in problems
    ]


def list_of(release: str, learnt: Mapping[str, FlagList]) -> FlagList:
    """The flag list of a release: as learnt from a built engine, else as shipped."""
    return learnt.get(release) or FlagList.for_release(release)


def clean_exit(release: str) -> str:
    """How a clean stop of the engine ends: '0', or 'SIGKILL' for releases that end by killing themselves."""
    return "0" if gates.holds("sigterm_exit_status_zero", release) else "SIGKILL"


def without(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The settings but those named."""
    left_out = set(names)
    return {key: value for key, value in settings.items() if key not in left_out}
