"""Packages, compilers and caches of the engine build."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.hardware.checks import version
from slipway.knowledge import releases

from .constants import words_of
from .facts import Worker, nearest, package_name
from .registry import worker_rule
from .transfer import real


@worker_rule(
    "python-release",
    "error",
    title="The Python is new enough for the release",
    fix="set engine.python to 3.11 or newer",
    source="METADATA of the wheels (sglang.md 0, G)",
    confidence="source",
)
def python_release(worker: Worker) -> Iterator[str]:
    """The Python of the engine build is at least what the release's wheel asks for."""
    known = releases.get(worker.entry.release)
    for build in worker.whole.host(worker.entry.instance.host).builds:
        least = known.python_min if known else None
        if build.kind == "sglang" and least and version(build.python) < version(least):
            yield f"Python is {build.python}, SGLang {worker.entry.release} needs {least} or newer"


@worker_rule(
    "glibc-old",
    "error",
    title="The system's C library is new enough for the wheels",
    fix="use a newer distribution (Debian 12, Ubuntu 22.04)",
    source="wheel tags manylinux_2_34 (sglang.md G)",
    confidence="source",
)
def glibc_old(worker: Worker) -> Iterator[str]:
    """A host that was asked has the glibc of the release's wheel tags."""
    known = nearest(worker.entry.release)
    glibc = worker.probed.glibc if worker.probed else ""
    least = known.glibc_min or ""
    if version(glibc) and version(least) and version(glibc)[:2] < version(least)[:2] and _engine(worker):
        yield f"glibc is {glibc}, the wheels need {least} or newer"


def _engine(worker: Worker) -> bool:
    return bool(worker.get("engine_kind") == "sglang")


@worker_rule(
    "nvcc-missing",
    "warning",
    title="Kernels that are compiled at first use have a compiler",
    fix="install the CUDA toolkit of the release's major version, or add flashinfer-cubin and flashinfer-jit-cache",
    source="flashinfer#1919, #1781, #1904; vllm#49497; sglang.md G; reported_faults.md 59",
    confidence="issue",
    span="..0.5.23",
)
def nvcc_missing(worker: Worker) -> Iterator[str]:
    """A GPU host that was asked has nvcc, or the build has kernels compiled in advance (0.5.23 brings nvcc itself)."""
    brought = worker.packages.keys() & {*words_of("compiled_packages"), "nvidia-cuda-nvcc"}
    lacking = worker.probed is not None and not worker.probed.nvcc
    if real(worker) and lacking and not brought and not worker.get("env.CUDA_HOME"):
        yield "there is no nvcc: FlashInfer and DeepGEMM compile kernels at their first use"


@worker_rule(
    "nvcc-unseen",
    "warning",
    title="Workers find the compiler where it is",
    fix="set CUDA_HOME under worker.env to the toolkit's folder",
    source="flashinfer#1904; NVIDIA-NeMo/Gym#1405; sglang.md G; reported_faults.md 59",
    confidence="source",
)
def nvcc_unseen(worker: Worker) -> Iterator[str]:
    """An nvcc outside PATH and /usr/local/cuda is named by CUDA_HOME or CUDA_PATH."""
    path = worker.probed.nvcc_path if worker.probed else ""
    folder = path.rpartition("/")[0]
    seen = [*str(worker.get("env.PATH") or "").split(":"), "/usr/local/cuda/bin"]
    told = worker.get("env.CUDA_HOME") or worker.get("env.CUDA_PATH")
    if real(worker) and folder and folder not in seen and not told:
        yield f"nvcc is {path}, which is not on the service's PATH, and CUDA_HOME is not set"


@worker_rule(
    "toolkit-differs",
    "error",
    title="The CUDA toolkit is of the engine's major version",
    fix="install a toolkit of that version and name it by CUDA_HOME",
    source="sgl-project/sglang#22833; reported_faults.md 58",
    confidence="issue",
)
def toolkit_differs(worker: Worker) -> Iterator[str]:
    """The host's nvcc is of a CUDA major version that the release's wheels are built for."""
    majors = nearest(worker.entry.release).cuda_majors
    nvcc = worker.hardware.nvcc if worker.hardware else ""
    built = version(nvcc)[:1]
    if real(worker) and built and majors and built[0] not in majors and not worker.get("env.CUDA_HOME"):
        wanted = " or ".join(str(major) for major in majors)
        yield f"nvcc is {nvcc}, SGLang {worker.entry.release} is built for CUDA {wanted}"


@worker_rule(
    "flashinfer-versions-differ",
    "error",
    title="FlashInfer's packages are of one version",
    fix="pin all of them to the release's flashinfer-python",
    source="lightseekorg/tokenspeed#284; flashinfer#4869; sgl-project/sglang#37377, #22741; reported_faults.md 61",
    confidence="issue",
)
def flashinfer_versions_differ(worker: Worker) -> Iterator[str]:
    """flashinfer-cubin and flashinfer-jit-cache in extra_packages have the version of the release's flashinfer."""
    pinned = worker.pins.get("flashinfer-python", "")
    known = worker.packages
    for name in words_of("compiled_packages"):
        found = known.get(name)
        if found and pinned and found.partition("+")[0] != pinned:
            yield f"{name} is {found}, SGLang {worker.entry.release} pins flashinfer-python {pinned}"


@worker_rule(
    "pin-overridden",
    "error",
    title="Packages that the release pins keep their version",
    fix="take it out of engine.extra_packages",
    source="sgl-project/sglang#5100, #18203, #14327, #8654; kvcache-ai/sglang#33; reported_faults.md 56",
    confidence="issue",
)
def pin_overridden(worker: Worker) -> Iterator[str]:
    """extra_packages names no package that the release pins to another version: kernels fit one torch only."""
    pins = worker.pins
    for line in worker.engine.extra_packages:
        name, found = package_name(line), line.partition("==")[2]
        if pins.get(name) not in (None, found) and _engine(worker):
            yield f"{line} in extra_packages, SGLang {worker.entry.release} pins {name} {pins[name]}"


@worker_rule(
    "package-unpinned",
    "warning",
    title="Every package of a build has a version",
    fix="write NAME==VERSION under engine.extra_packages",
    source="reported_faults.md 23, 28, 56 (one lock)",
    confidence="inferred",
)
def package_unpinned(worker: Worker) -> Iterator[str]:
    """Every line of extra_packages names a version, so that a build made again is the same."""
    loose = [line for line in worker.engine.extra_packages if "==" not in line]
    others = [line for line in loose if not package_name(line).startswith(("mooncake-transfer-engine", "nixl"))]
    if others:
        yield f"extra_packages: {', '.join(others)} without a version"


@worker_rule(
    "cache-shared",
    "warning",
    title="Compiled kernels of a build are its own",
    fix="take the variable out of env: the plan gives each build a folder",
    source="sglang.md G (do not share across versions or architectures); reported_faults.md 61, 63",
    confidence="inferred",
)
def cache_shared(worker: Worker) -> Iterator[str]:
    """Folders of compiled kernels lie in the deployment's own cache."""
    for name, path in _moved_caches(worker):
        if not path.startswith(words_of("passing_folders")):
            yield f"{name} is {path}: kernels of another build or GPU may be loaded from there"


@worker_rule(
    "cache-not-kept",
    "warning",
    title="Compiled kernels outlive a restart",
    fix="take the variable out of env",
    source="sgl-project/sglang#9867, #13187; deepseek-ai/DeepEP#678; reported_faults.md 63",
    confidence="issue",
)
def cache_not_kept(worker: Worker) -> Iterator[str]:
    """Folders of compiled kernels are not on a file system that a reboot empties."""
    for name, path in _moved_caches(worker):
        if path.startswith(words_of("passing_folders")):
            yield f"{name} is {path}: the 10 to 20 minutes of compilation come back with every reboot"


def _moved_caches(worker: Worker) -> Iterator[tuple[str, str]]:
    own = worker.whole.host(worker.entry.instance.host).paths["cache"]
    for name in words_of("cache_variables"):
        path = worker.entry.instance.env.get(name, "")
        if path and not path.startswith(own):
            yield name, path


@worker_rule(
    "needed-variable-overridden",
    "warning",
    title="Variables that the GPU and the backends need are not undone",
    fix="take it out of env",
    source="slipway/knowledge/backends.yml environment (each row has its source)",
    confidence="inferred",
)
def needed_variable_overridden(worker: Worker) -> Iterator[str]:
    """A variable that the backend tables set has their value."""
    for name, choice in worker.entry.choices.items():
        found = worker.entry.instance.env.get(name)
        if choice.kind == "environment" and found is not None and found != str(choice.value):
            yield f"{name} is {found}; needed is {choice.value}: {choice.reason} ({choice.source})"
