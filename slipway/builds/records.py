"""Reads build.json of builds, lists them, and tells two apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def read_records(engines: Path) -> list[dict[str, Any]]:
    """What is known of each build in ROOT/engines, by name."""
    return [read_record(path) for path in sorted(engines.iterdir()) if path.is_dir()] if engines.is_dir() else []


def read_record(folder: Path) -> dict[str, Any]:
    """One build; `complete` tells whether it counts."""
    try:
        record: dict[str, Any] = json.loads((folder / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = {}
    return {"id": folder.name, **record, "complete": (folder / "complete").is_file()}


def row_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """One line of the list."""
    patches = ", ".join(patch["id"] for patch in record.get("patches", [])) or "-"
    seconds = f"{record['seconds']:.0f} s" if "seconds" in record else "-"
    state = "complete" if record["complete"] else "INCOMPLETE"
    return (record["id"], state, patches, record.get("finished", "-"), seconds, record.get("host", "-"))


HEAD = ("BUILD", "STATE", "PATCHES", "FINISHED", "TOOK", "HOST")


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """What decides the contents of two builds and differs, one line each: - of the first, + of the second."""
    for key in sorted({*one.get("inputs", {}), *other.get("inputs", {})} - {"patches", "requirements"}):
        pair = [json.dumps(side.get("inputs", {}).get(key), sort_keys=True) for side in (one, other)]
        if pair[0] != pair[1]:
            yield f"{key}: {pair[0]} -> {pair[1]}"
    for name, key in (("requirement", _requirements), ("patch", _patches)):
        before, after = key(one), key(other)
        yield from (f"- {name} {text}" for text in before if text not in after)
        yield from (f"+ {name} {text}" for text in after if text not in before)


def _requirements(record: Mapping[str, Any]) -> list[str]:
    text = record.get("inputs", {}).get("requirements", "")
    lines = (line.split(" ")[0].rstrip("\\").strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "--"))]


def _patches(record: Mapping[str, Any]) -> list[str]:
    return [
        f"{one['id']} (sha256 {one['sha256'][:12]}, {one['state']}): {one['why']}" for one in record.get("patches", [])
    ]
