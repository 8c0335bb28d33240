"""Tries patches against a tree of installed files in memory, and gives what would be written.

Nothing is written here, so a conflict leaves everything as it was. Standard library only, Python 3.9+.
A tree is anything with `read(path)` -> bytes, None where there is no such file, and `packages`, its top folders.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from slipway.agent.patch_diff import DiffError, FileDiff, lines_of, read_diff
from slipway.agent.patch_hunks import APPLIES, CONFLICT, CONTAINED, Spot, merged, place

Content = Optional[bytes]  # noqa: UP045 - evaluated by Python 3.9; None: no such file


class PatchError(Exception):
    """Why a series is not applied: sentences for the operator. The tree is as it was."""


@dataclass(frozen=True)
class Patch:
    """A patch as it travels to a host. strip: leading path in the repository of what lies in site-packages."""

    id: str
    sha256: str
    text: str
    strip: str = "python"
    why: str = ""
    upstream: str = ""
    remove_when: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Patch:
        """From a request; the hash is checked. Raises PatchError."""
        patch = cls(**{name: row.get(name, "") for name in cls.__dataclass_fields__})
        found = digest_of(patch.text)
        if found != patch.sha256:
            raise PatchError(
                f"patch {patch.id} has sha256 {found}; must be {patch.sha256}, which the plan was made with"
            )
        return patch


@dataclass(frozen=True)
class Applied:
    """What became of one patch. state: applied or contained. skipped: files outside of the package."""

    patch: Patch
    state: str
    files: tuple[str, ...]
    skipped: tuple[str, ...]
    moved: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def modules(self) -> list[str]:
        """Names by which what it changed is imported."""
        return modules_of([path for path in self.files if path not in self.deleted])

    def record(self) -> dict[str, Any]:
        """For build.json."""
        patch = self.patch
        return {
            "id": patch.id, "sha256": patch.sha256, "why": patch.why, "upstream": patch.upstream,
            "remove_when": patch.remove_when, "state": self.state, "files": list(self.files),
            "skipped": list(self.skipped), "moved": list(self.moved),
        }  # fmt: skip


class Overlay:
    """A tree with changes that are not written yet. modes: of files whose mode is set, in octal."""

    def __init__(self, tree: Any) -> None:
        self.tree, self.packages = tree, tree.packages
        self.changes: dict[str, Content] = {}
        self.modes: dict[str, str] = {}

    def read(self, path: str) -> Content:
        """As it will be."""
        if path in self.changes:
            return self.changes[path]
        content: Content = self.tree.read(path)
        return content


class Folder:
    """A tree on disk: site-packages, or a checkout. Links that lead out of it are not followed."""

    def __init__(self, root: str, packages: Sequence[str]) -> None:
        self.root, self.packages = os.path.realpath(root), tuple(packages)

    def read(self, path: str) -> Content:
        """The file's bytes. Raises PatchError for what is no plain file of the tree."""
        full = os.path.join(self.root, path)
        if not os.path.lexists(full):
            return None
        if os.path.realpath(full) != full or not os.path.isfile(full):
            raise PatchError(f"{path} is a link or no file in {self.root}; only plain files are patched")
        with open(full, "rb") as file:
            return file.read()


def digest_of(text: str) -> str:
    """SHA-256 of a diff's bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def apply_series(overlay: Overlay, patches: Sequence[Patch]) -> list[Applied]:
    """Apply the patches in order, each onto what the ones before it made. Raises PatchError."""
    return [apply_patch(overlay, patch) for patch in patches]


def apply_patch(overlay: Overlay, patch: Patch) -> Applied:
    """Apply one patch as a whole: every hunk, or none because the tree holds them all. Raises PatchError."""
    inside, skipped = split(patch, overlay.packages)
    judged = [_judge(overlay, file, old, new) for file, old, new in inside]
    state = _agreed(patch, [(path, spot) for path, spots, _ in judged for spot in spots])
    moved: list[str] = []
    if state == "applied":
        for path, spots, changes in judged:
            overlay.changes.update(changes)
            moved += [f"{path} hunk {spot.hunk.number}: by {spot.moved:+} lines" for spot in spots if spot.moved]
        overlay.modes.update({new: file.mode for file, _, new in inside if new and file.mode})
    return became(patch, state, inside, skipped, moved)


def became(
    patch: Patch, state: str, inside: Sequence[Inside], skipped: Sequence[str], moved: Sequence[str] = ()
) -> Applied:
    """What is recorded of a patch whose files are `inside`."""
    files = tuple(new or old or "" for _, old, new in inside)
    deleted = tuple(old for _, old, new in inside if old and not new)
    return Applied(patch, state, files, tuple(skipped), tuple(moved), deleted)


def judge_patch(overlay: Overlay, patch: Patch) -> set[str]:
    """The states of its hunks, whatever they are."""
    judged = [_judge(overlay, *one) for one in split(patch, overlay.packages)[0]]
    return {spot.state for _, spots, _ in judged for spot in spots}


Inside = tuple[FileDiff, Optional[str], Optional[str]]  # noqa: UP045 - evaluated by Python 3.9


def split(patch: Patch, packages: Sequence[str]) -> tuple[list[Inside], list[str]]:
    """Files below `strip` and in one of the packages, with their paths there; paths of all others."""
    try:
        files = read_diff(patch.text)
    except DiffError as error:
        raise PatchError(f"patch {patch.id}: {error}") from None
    inside: list[Inside] = []
    skipped = []
    for file in files:
        old, new = (_stripped(name, patch.strip, packages) for name in (file.old, file.new))
        if (old or new) and file.binary:
            raise PatchError(f"patch {patch.id}, line {file.line}: {file.path} is binary; leave it out of the diff")
        if old or new:
            inside.append((file, old, new))
        else:
            skipped.append(file.path)
    if not inside:
        of = ", ".join(skipped[:3])
        raise PatchError(
            f"patch {patch.id} changes nothing of {', '.join(packages)} (only {of}); it is for another repository, "
            f"or `strip: {patch.strip or '(nothing)'}` is not the folder that holds the package"
        )
    return inside, skipped


def _stripped(name: str | None, strip: str, packages: Sequence[str]) -> str | None:
    """The path in site-packages; None outside of it."""
    prefix = f"{strip}/" if strip else ""
    if name is None or not name.startswith(prefix):
        return None
    rest = name[len(prefix) :]
    return rest if "/" in rest and rest.partition("/")[0] in packages else None


Judged = tuple[str, list[Spot], dict[str, Content]]


def _judge(overlay: Overlay, file: FileDiff, old: str | None, new: str | None) -> Judged:
    """Path, how each hunk stands, and the contents that there will be."""
    before = overlay.read(old) if old else None
    after = overlay.read(new) if new and new != old else None
    path = new or old or ""
    if old and new and old != new and before is None and after is not None:  # renamed already
        spots = place(_lines(after), file.hunks)
        return path, [_held(spot) for spot in spots] or [_whole(file, CONTAINED)], {}
    if after is not None:
        held = not old and "".join(_lines(after)) == "".join(line for hunk in file.hunks for line in hunk.new)
        return path, [_whole(file, CONTAINED if held else CONFLICT, "no such file", "the file")], {}
    if old and before is None:
        gone = new is None
        return path, [_whole(file, CONTAINED if gone else CONFLICT, "the file", "no such file")], {}
    return _judge_content(file, before, old, new)


def _judge_content(file: FileDiff, before: Content, old: str | None, new: str | None) -> Judged:
    lines = _lines(before or b"")
    spots = place(lines, file.hunks)
    result = _bytes(merged(lines, spots))
    changes: dict[str, Content] = {}
    if old and old != new:
        changes[old] = None
    if new:
        changes[new] = result
    elif result:
        spots = [*spots, _whole(file, CONFLICT, "the file to be empty then", f"{len(_lines(result))} more lines")]
    return new or old or "", spots or [_whole(file, APPLIES)], changes


def _held(spot: Spot) -> Spot:
    """Of a file that was renamed already: hunks that would still apply are a conflict, not a guess."""
    if spot.state != APPLIES:
        return spot
    words = "them in the file as it was named before"
    return Spot(spot.hunk, CONFLICT, spot.at, 0, spot.at + 1, words, "the file renamed already, without this change")


def _whole(file: FileDiff, state: str, expected: str = "", found: str = "") -> Spot:
    """For a file without hunks, or as a whole."""
    from slipway.agent.patch_diff import Hunk

    nothing = Hunk(0, file.line, 0, (), 0, (), 0, 0)
    return Spot(file.hunks[0] if file.hunks else nothing, state, 0, 0, 1, expected, found)


def _agreed(patch: Patch, spots: Sequence[tuple[str, Spot]]) -> str:
    """What all hunks agree on. Raises PatchError with every hunk that does not fit."""
    states = {spot.state for _, spot in spots}
    if states == {CONTAINED}:
        return "contained"
    if states == {APPLIES}:
        return "applied"
    lines = [_conflict_line(path, spot) for path, spot in spots if spot.state == CONFLICT]
    if CONTAINED in states:
        held = [f"{path} hunk {spot.hunk.number}" for path, spot in spots if spot.state == CONTAINED]
        lines.append(f"  the tree holds already: {', '.join(held)}; get the patch anew for this release")
    raise PatchError("\n".join([f"patch {patch.id} (sha256 {patch.sha256[:12]}) does not apply:", *lines]))


def _conflict_line(path: str, spot: Spot) -> str:
    where = f"  {path}:{spot.line}: hunk {spot.hunk.number} (line {spot.hunk.line} of the diff)"
    return f"{where}: expected {spot.expected}, found {spot.found}"


def _lines(content: bytes) -> list[str]:
    return lines_of(content.decode("utf-8", "surrogateescape"))


def _bytes(lines: Sequence[str]) -> bytes:
    return "".join(lines).encode("utf-8", "surrogateescape")


def rewrite_record(overlay: Overlay, record: str) -> None:
    """Make RECORD, the wheel's list of its files with hash and size, true of what will be there."""
    rows = list(csv.reader(io.StringIO((overlay.read(record) or b"").decode("utf-8"))))
    known = {row[0]: row for row in rows if row}
    for path, content in sorted(overlay.changes.items()):
        known.pop(path, None)
        if content is not None:
            known[path] = [path, "sha256=" + _encoded(content), str(len(content))]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(known.values())
    overlay.changes[record] = text.getvalue().encode("utf-8")


def _encoded(content: bytes) -> str:
    """A hash as RECORD spells it: URL-safe base64 without padding."""
    return urlsafe_b64encode(hashlib.sha256(content).digest()).decode("ascii").rstrip("=")


def modules_of(paths: Sequence[str]) -> list[str]:
    """Names by which patched files are imported; scripts that import runs away with are left out."""
    names = [path[: -len(".py")].replace("/", ".") for path in paths if path.endswith(".py")]
    found = [name[: -len(".__init__")] if name.endswith(".__init__") else name for name in names]
    return [name for name in found if not name.endswith("__main__") and all(p.isidentifier() for p in name.split("."))]
