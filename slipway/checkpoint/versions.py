"""Which version gates a release opens, with which patches, and where nobody has looked."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from slipway.checkpoint.tables import table

_RELEASE = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.post(\d{1,6})|(a|b|rc|\.dev)\d*)?(?:[+.].*)?$")


def version_key(release: str) -> tuple[int, int, int, int] | None:
    """A release as numbers that compare in order; pre-releases sort before their release.

    None when it is none.
    """
    match = _RELEASE.match(release.strip())
    if match is None:
        return None
    major, minor, patch, post, pre = match.groups()
    return int(major), int(minor), int(patch or 0), -1 if pre else int(post or 0)


@dataclass
class Gates:
    """The gates of one release.

    Remembers which shut or doubtful gates were asked for, to explain a misreading.
    """

    release: str
    patches: frozenset[str] = frozenset()
    everything: bool = False
    shut: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)

    def has(self, name: str) -> bool:
        """Whether the release (or one of its patches) has the behaviour."""
        gate = table("quantization")["gates"][name]
        key = version_key(self.release)
        patched = bool(self.patches & set(gate["patches"]))
        return self.everything or patched or key is None or key >= _key(gate["since"])

    def is_open(self, name: str) -> bool:
        """As `has`, and remembers a shut gate.

        Asked for where the answer decides how a checkpoint is read.
        """
        if self.has(name):
            return True
        _note(self.shut, name)
        if _key(self.release) > _key(table("quantization")["gates"][name]["last_without"]):
            _note(self.doubtful, name)
        return False


def gates_of(release: str, patches: Collection[str] = ()) -> Gates:
    """The gates of a release.

    A release that is no version number (a commit) is taken as the newest one known.
    """
    return Gates(release, frozenset(_patch_name(name) for name in patches))


def every_gate() -> Gates:
    """All gates open: how a checkpoint would be read if each known fault were fixed."""
    return Gates("", everything=True)


def describe_gate(name: str) -> tuple[str, str, str]:
    """What a gate does, how to open it, and where that is known from."""
    gate: dict[str, Any] = table("quantization")["gates"][name]
    fix = f"use SGLang {gate['since']} or newer"
    if gate["patches"]:
        fix += f", or apply patch {' or '.join(gate['patches'])} to this release"
    return str(gate["what"]), fix, str(gate["source"])


def _key(release: str) -> tuple[int, int, int, int]:
    return version_key(release) or (0, 0, 0, 0)


def _note(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)


def _patch_name(name: str) -> str:
    """`patches/PR-25820-nvfp4.diff` -> `pr-25820`; other names only in lower case."""
    match = re.search(r"pr[-_ ]?#?(\d+)", name.lower())
    return f"pr-{match.group(1)}" if match else name.lower()
