"""What is wrong with the patches that an engine is configured with, told before anything is built."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.agent.patch_diff import DiffError, read_diff
from slipway.config.deployment import EngineSettings
from slipway.config.errors import nearest
from slipway.finding import Finding
from slipway.knowledge.versions import Version

from .series import FILE, Series, SeriesPatch


def patch_findings(engine: EngineSettings, subject: str, series: Series | None) -> list[Finding]:
    """Ids that the series does not have, patches for other releases, diffs that cannot be read; half a git build."""
    found, known = list(_git(engine, subject)), series or Series()
    for name in engine.patches if series is not None else ():
        patch = known.get(name)
        found += _of(patch, engine.version, subject) if patch else [_unknown(name, subject, known)]
    return found


def _git(engine: EngineSettings, subject: str) -> Iterator[Finding]:
    """A repository without a commit, or the other way about, would be ignored in silence."""
    if bool(engine.git) != bool(engine.commit):
        have, lacks = ("git", "commit") if engine.git else ("commit", "git")
        text = f"engine.{have} is set without engine.{lacks}"
        yield Finding("engine-git", "error", subject, text, f"set engine.{lacks} too, or remove engine.{have}")
    if engine.git and engine.wheelhouse:
        text = "engine.git is set with engine.wheelhouse, whose hosts have no network to clone by"
        yield Finding("engine-git", "error", subject, text, "keep one of them")


def _unknown(name: str, subject: str, series: Series) -> Finding:
    close = nearest(name, series.ids())
    have = ", ".join(series.ids()) or "none"
    fix = f"did you mean {close}?" if close else "slipway patch add OWNER/REPO#N adds one"
    return Finding("patch-unknown", "error", subject, f"engine.patches names {name}; {FILE} has {have}", fix)


def _of(patch: SeriesPatch, release: str, subject: str) -> Iterator[Finding]:
    where = f"{FILE}:{patch.line}"
    version = Version.parse(release)
    if version is not None and not patch.releases.holds(version):
        text = f"patch {patch.id} is for SGLang {patch.releases}, not for {release} ({where})"
        fix = f"remove it from engine.patches for {release}, or set `releases:` after slipway patch check"
        yield Finding("patch-release", "error", subject, text, fix, patch.upstream)
    try:
        read_diff(patch.text)
    except DiffError as error:
        text = f"patch {patch.id} cannot be applied: {patch.path.rpartition('/')[2]}: {error}"
        yield Finding("patch-malformed", "error", subject, text, error.fix, where)
