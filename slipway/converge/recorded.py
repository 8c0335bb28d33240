"""What a release keeps of a host's files, and what must lie there again when the release is put back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slipway.plan.model import Plan
from slipway.services.interface import RenderedFile

from .wanted import Secrets, Wanted, wanted_on


def record_texts(wanted: Wanted, plan_text: str, known_answers: list[dict[str, str]]) -> dict[str, str]:
    """Name in the release -> text. Sealed files are named and not kept: their text is a secret."""
    names = _names(wanted.files)
    rows = [
        {"name": names[file.path], "path": file.path, "mode": file.mode, "user": file.user, "role": file.role,
         "sealed": file.sealed}
        for file in wanted.files
    ]  # fmt: skip
    reads = {name: list(paths) for name, paths in wanted.reads.items()}
    index = {"files": rows, "configs": wanted.configs, "reads": reads}
    kept = {f"files/{names[file.path]}": file.text for file in wanted.files if not file.sealed}
    return {
        "plan.json": plan_text,
        "files.json": json.dumps(index, indent=1, sort_keys=True) + "\n",
        "known_answers.json": json.dumps(known_answers) + "\n",
        **kept,
    }


def _names(files: tuple[RenderedFile, ...]) -> dict[str, str]:
    """Path -> a name of its own: that of the file, with a number in front where two are alike."""
    names: dict[str, str] = {}
    for file in files:
        name = file.path.rpartition("/")[2]
        names[file.path] = f"{len(names)}-{name}" if name in names.values() else name
    return names


def wanted_again(plan: Plan, host: str, record: Mapping[str, Any], secrets: Secrets) -> Wanted:
    """As the host was left by the release: its very files, whatever templates and defaults have become since.

    record: what the release keeps for this host. secrets: as they are now; a release holds none.
    """
    now = wanted_on(plan, host, secrets)
    sealed = {file.path: file for file in now.files if file.sealed}
    files = tuple(
        sealed[row["path"]] if row["sealed"] and row["path"] in sealed
        else RenderedFile(row["path"], row["text"], row["mode"], row["user"], row["role"], row["sealed"])
        for row in record["files"]
    )  # fmt: skip
    reads = {name: tuple(paths) for name, paths in record["reads"].items()}
    return replace(now, files=files, configs=dict(record["configs"]), reads=reads)
