"""What must hold before a build is complete: it is the version that was asked for, it imports, its packages agree.

`inside` runs in the build's own Python. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

FLAGS = "sglang.srt.server_args"  # imported by every real engine; it knows the flags
NOT_MET = re.compile(r"^(?:The package `([^`]+)` requires|([A-Za-z0-9._-]+) \S+ (?:requires|has requirement) )")


def inside(request: Mapping[str, Any]) -> str:
    """What is wrong, '' when nothing: version, imports; the flag list is written beside the build."""
    wrong = wrong_version(request.get("distribution", ""), request.get("version", "")) or wrong_base(request)
    for name in [] if wrong else request["imports"]:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - a module may even exit
            traceback.print_exc(file=sys.stdout)
            return f"{name}: {type(error).__name__}: {error}".strip().replace("\n", "; ")
    if not wrong and FLAGS in sys.modules:
        write_flags(os.path.join(request["path"], "flags.json"))
    return wrong


def wrong_version(distribution: str, version: str) -> str:
    """A resolver, a mirror or a shallow clone may bring another version than was asked for."""
    if not distribution or not version:
        return ""
    try:
        found = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return f"{distribution} {version} was asked for and is not installed"
    asked = found.partition("+")[0] == version.partition("+")[0]
    return "" if asked else f"{distribution} {found} was installed; must be {version}"


def wrong_base(request: Mapping[str, Any]) -> str:
    """What the base Python brings must be what the release was made for; '' when it is, or when there is no base."""
    base = request.get("base") or {}
    for name, wanted in sorted(base.get("packages", {}).items()):
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"{base['python']} has no {name}; the release needs {wanted} (engine.base_python)"
        if found.partition("+")[0] != wanted.partition("+")[0]:
            return f"{base['python']} has {name} {found}; the release needs {wanted} (engine.base_python)"
    majors = base.get("cuda_majors") or []
    return wrong_cuda(base["python"], majors) if majors else ""


def wrong_cuda(python: str, majors: Sequence[int]) -> str:
    """Whether torch is built for one of the CUDA majors that the release's kernels are."""
    built = str(getattr(importlib.import_module("torch").version, "cuda", None))
    if built.partition(".")[0] in [str(major) for major in majors]:
        return ""
    wanted = " or ".join(str(major) for major in majors)
    return f"torch of {python} is built for CUDA {built}; the release's kernels are for CUDA {wanted}"


def unmet(output: str, known: Mapping[str, str], own: Sequence[str]) -> list[str]:
    """Lines of pip's or uv's check about packages that are ours, other than those whose gaps are known."""
    found = ((NOT_MET.match(line), line) for line in output.splitlines())
    named = ((normal(match[1] or match[2]), line) for match, line in found if match)
    return [line for name, line in named if name in own and name not in known]


def normal(name: str) -> str:
    """A package name as all its spellings compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def write_flags(path: str) -> None:
    """The flags of the built engine; an engine that hides them is told, and its release's list is used."""
    from slipway.agent import flag_list

    try:
        text = json.dumps(flag_list.read_flags(), sort_keys=True)
    except Exception as error:  # noqa: BLE001 - whatever another release's parser raises
        print(f"its flag list cannot be read: {type(error).__name__}: {error}")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    found = inside(json.loads(sys.argv[1]))
    print(found)
    sys.exit(1 if found else 0)
