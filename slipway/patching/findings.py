"""What is wrong with the patches that an engine is configured with, told before anything is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slipway.agent.patch_diff import DiffError, read_diff
from slipway.config.deployment import EngineSettings
from slipway.config.errors import nearest
from slipway.finding import Finding
from slipway.knowledge import releases
from slipway.knowledge.versions import Version

from .series import FILE, Series, SeriesPatch
from .trying import Tried

UPSTREAM = "sgl-project/sglang#"


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


def _contained(patch: SeriesPatch, release: str, subject: str) -> Iterator[Finding]:
    """A patch whose behaviour the release has, as far as the tables know from when on."""
    version = Version.parse(release)
    names = {patch.id, f"pr-{patch.github_pr.rpartition('#')[2]}" if patch.github_pr.startswith(UPSTREAM) else ""}
    for gate in releases.patched_gates():
        if version is not None and gate.patch in names and gate.span.holds(version):
            text = f"patch {patch.id} is part of SGLang since {gate.span.since}, so {release} holds it"
            fix = f"remove it from engine.patches for {gate.span.since} and later"
            yield Finding("patch-contained", "warning", subject, text, fix, gate.source)


def tried_findings(tried: Iterable[Tried], subject: str, release: str) -> Iterator[Finding]:
    """How patches stand to the release's wheel, which lies in the wheelhouse: told before anything is built."""
    for one in tried:
        if one.state == "contained":
            text = f"patch {one.patch.id}: every hunk of it is in the wheel of SGLang {release}"
            fix = f"remove it from engine.patches for {release} and later"
            yield Finding("patch-contained", "warning", subject, text, fix, one.patch.upstream)
        elif one.state == "conflict":
            fix = "get it anew (slipway patch refresh), or set `releases:` of it"
            yield Finding("patch-conflict", "error", subject, one.text.replace("\n", ";"), fix, one.patch.upstream)


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
    yield from _contained(patch, release, subject)
    try:
        read_diff(patch.text)
    except DiffError as error:
        text = f"patch {patch.id} cannot be applied: {patch.path.rpartition('/')[2]}: {error}"
        yield Finding("patch-malformed", "error", subject, text, error.fix, where)
