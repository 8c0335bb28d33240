"""Findings about what the engine's build is made of, told before anything is built."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.builds.lanes import lane_findings
from slipway.builds.locks import Locks, name_of, unhashed, wrong_entries
from slipway.builds.recipe import Build, recipe_named
from slipway.builds.wheels import pinned
from slipway.config.deployment import EngineSettings
from slipway.finding import Finding

from .model import HostPlan

LOCKING = "uv pip compile --generate-hashes makes one; or leave engine.lock out, and it is resolved"


def build_findings(engine: EngineSettings, host: HostPlan, locks: Locks) -> Iterator[Finding]:
    """What is wrong with the lock, or still to be done about it; what a base Python makes impossible."""
    build = next((build for build in host.builds if build.kind == "sglang"), None)
    if build is None:
        return
    yield from _named(engine, build, host.name, locks)
    yield from _base(build, host.name)
    yield from lane_findings(engine, host.name)
    if build.wants_lock:
        text = f"the packages of {build.id} are not locked yet; with its lock it gets another name"
        yield Finding("lock-wanted", "note", host.name, text, "a deploy resolves it once; slipway resolve does so now")


def _named(engine: EngineSettings, build: Build, subject: str, locks: Locks) -> Iterator[Finding]:
    """What is wrong with the file that engine.lock names."""
    text = locks.named.get(engine.lock or "")
    if engine.lock and text is None:
        yield Finding("lock-missing", "error", subject, f"engine.lock {engine.lock}: no such file", LOCKING)
    if text is None:
        return
    wrong, bare = wrong_entries(text), unhashed(build.requirements)
    if wrong:
        found = f"engine.lock {engine.lock}: {wrong[0][:80]!r} is no NAME==VERSION with hashes"
        yield Finding("lock-malformed", "error", subject, found, LOCKING)
    elif bare:
        found = f"engine.lock {engine.lock}: {_few(bare)} without a hash, and without a wheel in engine.wheelhouse"
        yield Finding("lock-unhashed", "error", subject, found, "put the wheel there, or add its hashes to the lock")
    yield from _engine_line(engine, build, subject, text)


def _engine_line(engine: EngineSettings, build: Build, subject: str, text: str) -> Iterator[Finding]:
    """The lock is one of the engine, in the version that is asked for."""
    distribution, packages = recipe_named(build.recipe).distribution, pinned(text)
    found = packages.get(distribution)
    if not engine.git and found != engine.version:
        have = f"has {distribution}=={found}" if found else f"has no {distribution}"
        fix = f"make it for {distribution}=={engine.version}, or set engine.version"
        yield Finding("lock-engine", "error", subject, f"engine.lock {engine.lock} {have}", fix)
    absent = [line for line in engine.extra_packages if name_of(line) not in packages]
    if absent:
        words = f"engine.lock {engine.lock} has no {', '.join(absent)}, which engine.extra_packages asks for"
        yield Finding("lock-incomplete", "error", subject, words, "make the lock anew with them")


def _base(build: Build, subject: str) -> Iterator[Finding]:
    """A base Python brings torch; a release whose torch nobody knows cannot be checked."""
    if build.base and not build.base.packages:
        text = f"engine.base_python is set, and the recipe {build.recipe} does not say what it must bring"
        yield Finding("base-python", "error", subject, text, "leave engine.base_python out")


def _few(lines: list[str]) -> str:
    names = [line.split(" ")[0] for line in lines]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
