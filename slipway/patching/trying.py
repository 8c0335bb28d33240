"""Tries a series against a release: a wheel file, or a folder with the package; nothing is changed or installed."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.agent.patch_tree import Folder, Overlay, PatchError, apply_patch
from slipway.builds.locks import normal
from slipway.builds.wheels import read_name
from slipway.knowledge.versions import Version

from .series import SeriesPatch


class Wheel:
    """The files of a wheel as a tree."""

    def __init__(self, path: Path) -> None:
        self.archive = zipfile.ZipFile(path)
        self.names = set(self.archive.namelist())
        tops = {name.partition("/")[0] for name in self.names if "/" in name}
        self.packages = tuple(sorted(top for top in tops if not top.endswith((".dist-info", ".data"))))

    def read(self, path: str) -> bytes | None:
        """The file's bytes."""
        return self.archive.read(path) if path in self.names else None


@dataclass(frozen=True)
class Tried:
    """How one patch stands. state: applies, contained, conflict, elsewhere (not for the release). text: more of it."""

    patch: SeriesPatch
    state: str
    text: str = ""


def find_wheel(folders: Sequence[Path], distribution: str, release: str) -> Path | None:
    """A wheel of this release in one of the folders, at any depth."""
    for folder in folders:
        for path in sorted(folder.rglob("*.whl")):
            wheel = read_name(path.name)
            if wheel and wheel.name == normal(distribution) and wheel.version == release:
                return path
    return None


def tree_of(place: Path, package: str) -> Wheel | Folder:
    """A wheel file, site-packages, or a checkout, whose package may lie in python/."""
    if place.is_file():
        return Wheel(place)
    root = place / "python" if (place / "python" / package).is_dir() else place
    return Folder(str(root), [package])


def try_series(patches: Sequence[SeriesPatch], tree: Wheel | Folder, release: str) -> list[Tried]:
    """Each patch on top of those before it that apply."""
    overlay, found = Overlay(tree), []
    version = Version.parse(release)
    for patch in patches:
        if version is not None and not patch.releases.holds(version):
            found.append(Tried(patch, "elsewhere", f"for SGLang {patch.releases}"))
            continue
        found.append(_try(overlay, patch, release))
    return found


def _try(overlay: Overlay, patch: SeriesPatch, release: str) -> Tried:
    try:
        applied = apply_patch(overlay, patch.travelling())
    except PatchError as error:
        return Tried(patch, "conflict", str(error))
    if applied.state == "contained":
        return Tried(patch, "contained", f"{release} holds it: remove it from engine.patches for {release} and later")
    skipped = f", {len(applied.skipped)} outside the package left out" if applied.skipped else ""
    return Tried(patch, "applies", f"{len(applied.files)} file(s){skipped}")
