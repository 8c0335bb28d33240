"""What must hold before a build is complete: it is the version that was asked for, it imports, its packages agree.

`inside` runs in the build's own Python. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

NO_IMPORT = "the build does not import"
FLAGS = "sglang.srt.server_args"  # imported by every real engine; it knows the flags
NVIDIA = "/dev/nvidiactl"  # there whenever the driver is loaded
NOT_MET = re.compile(r"^(?:The package `([^`]+)` requires|([A-Za-z0-9._-]+) \S+ (?:requires|has requirement) )")


def inside(request: Mapping[str, Any]) -> str:
    """What is wrong, '' when nothing: version, imports; the flag list is written beside the build."""
    wrong = wrong_version(request.get("distribution", ""), request.get("version", "")) or wrong_base(request)
    for name in [] if wrong else request["imports"]:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - a module may even exit
            traceback.print_exc(file=sys.stdout)
            why = f"{name}: {type(error).__name__}: {error}".strip().replace("\n", "; ")
            return f"{NO_IMPORT}: {why}"
    wrong = wrong or wrong_driver(sys.modules.get("torch"), os.path.exists(NVIDIA)) or missing_tools(request)
    if not wrong and FLAGS in sys.modules and os.access(request["path"], os.W_OK):
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


def wrong_driver(torch: Any, gpus: bool) -> str:
    """Whether the driver can run what torch was built for; nothing to say without torch, CUDA or a GPU.

    Neither question makes a CUDA context, so no memory is taken from what serves.
    """
    built = getattr(getattr(torch, "version", None), "cuda", None)
    if not built or not gpus:
        return ""
    driver = driver_cuda()
    if driver and driver // 1000 < int(str(built).partition(".")[0]):
        have = f"{driver // 1000}.{driver % 1000 // 10}"
        return f"torch {torch.__version__} is built for CUDA {built}; the driver has CUDA {have}: install a newer one"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} for CUDA {built} finds no GPU, though there are some: see nvidia-smi"
    return ""


def driver_cuda() -> int:
    """The newest CUDA that the driver serves, as 13000 for 13.0; 0 when it does not tell.

    Asked of the driver's library itself: torch has no public question for it (2.11.0, on a real H200, lacks the one
    that older releases had).
    """
    found = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(found))
    except (OSError, AttributeError):
        return 0
    return found.value


def missing_tools(request: Mapping[str, Any]) -> str:
    """Compilers that kernels are made with at run time, where the unit's environment looks for them."""
    for tool in request.get("tools") or []:
        brought = [name for name in tool.get("unless", []) if installed(name)]
        places = [os.path.expandvars(place) for place in tool.get("places", [])]
        path = os.pathsep.join([os.environ.get("PATH", ""), *(place for place in places if "$" not in place)])
        if not brought and not any(shutil.which(name, path=path) for name in tool["names"]):
            looked = f"PATH{''.join(', ' + place for place in tool.get('places', []))}"
            return f"no {' or '.join(tool['names'])} in {looked}: {tool['why']}"
    return ""


def installed(name: str) -> bool:
    """Whether a package is there."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


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
