"""Applies the patches of a build to the packages that were installed for it.

usage: patch REQUEST.json, with keys site (site-packages), distribution (whose files they are) and patches.
In memory first: files are written when every patch fits. Every file is replaced, never written into, because it may
be a hard link into a cache. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import csv
import glob
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from slipway.agent.patch_tree import Applied, Folder, Overlay, Patch, PatchError, apply_series, rewrite_record

NEW = ".slipway-new"


def patch_wheel(site: str, distribution: str, patches: Sequence[Patch]) -> list[Applied]:
    """Patch an installed distribution and keep its RECORD true. Raises PatchError; nothing is changed then."""
    record = find_record(site, distribution)
    overlay = Overlay(Folder(site, packages_of(os.path.join(site, record))))
    applied = apply_series(overlay, patches)
    if overlay.changes:
        rewrite_record(overlay, record)
    write(site, overlay)
    return applied


def find_record(site: str, distribution: str) -> str:
    """Path of the distribution's RECORD below site-packages. Raises PatchError."""
    wanted = re.sub(r"[-_.]+", "_", distribution).lower()
    for path in sorted(glob.glob(os.path.join(glob.escape(site), "*.dist-info", "RECORD"))):
        folder = os.path.basename(os.path.dirname(path))
        if re.sub(r"[-_.]+", "_", folder.partition("-")[0]).lower() == wanted:
            return f"{folder}/RECORD"
    raise PatchError(f"{distribution} is not installed in {site}, so it cannot be patched")


def packages_of(record: str) -> list[str]:
    """Top folders that a wheel brought, by its RECORD."""
    with open(record, encoding="utf-8", newline="") as file:
        tops = {row[0].partition("/")[0] for row in csv.reader(file) if row and "/" in row[0]}
    return sorted(top for top in tops if top != ".." and not top.endswith((".dist-info", ".data")))


def write(root: str, overlay: Overlay) -> None:
    """Everything beside its place first, then into place: a full disk changes nothing."""
    for path, content in overlay.changes.items():
        if content is not None:
            _prepare(os.path.join(root, path), content, overlay.modes.get(path))
    for path, content in overlay.changes.items():
        full = os.path.join(root, path)
        if content is None:
            os.remove(full)
        else:
            os.replace(full + NEW, full)


def _prepare(full: str, content: bytes, mode: str | None) -> None:
    """The new file beside the old one, with its mode unless the patch sets another."""
    old = os.stat(full).st_mode & 0o777 if os.path.exists(full) else 0o644
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full + NEW, "wb") as file:
        file.write(content)
    os.chmod(full + NEW, int(mode, 8) & 0o777 if mode else old)


def lines_about(applied: Sequence[Applied], version: str) -> list[str]:
    """What the operator should know: patches that are no longer needed, files that were left out."""
    lines = []
    for one in applied:
        if one.state == "contained":
            lines.append(f"patch {one.patch.id}: {version} contains it, so it is skipped; remove it from "
                         f"engine.patches for {version} and later")  # fmt: skip
        else:
            lines.append(f"patch {one.patch.id}: applied to {len(one.files)} file(s)")
        if one.skipped:
            lines.append(f"patch {one.patch.id}: not part of the package: {', '.join(one.skipped[:6])}")
        lines += [f"patch {one.patch.id}: moved: {text}" for text in one.moved[:6]]
    return lines


def main(arguments: list[str]) -> int:
    """Patch what the request says, by hand; a build does the same by itself."""
    with open(arguments[0], encoding="utf-8") as file:
        request: dict[str, Any] = json.load(file)
    try:
        patches = [Patch.of(row) for row in request["patches"]]
        applied = patch_wheel(request["site"], request["distribution"], patches)
    except PatchError as error:
        print(f"error: {error}")
        return 1
    print("\n".join(lines_about(applied, request["distribution"])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
