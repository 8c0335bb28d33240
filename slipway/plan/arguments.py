"""Command lines and environments of workers and router: plain values in, lists and dicts out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.builds.recipe import Recipe
from slipway.config.deployment import RouterSettings, WorkerSettings

# Typed settings that become a flag of the same meaning; the release's flag list spells them.
TYPED_FLAGS = {
    "tp": "tp_size",
    "pp": "pp_size",
    "ep": "ep_size",
    "attention_backend": "attention_backend",
    "moe_runner_backend": "moe_runner_backend",
    "kv_cache_dtype": "kv_cache_dtype",
    "quantization": "quantization",
    "page_size": "page_size",
    "context_length": "context_length",
    "mem_fraction_static": "mem_fraction_static",
    "max_running_requests": "max_running_requests",
    "max_total_tokens": "max_total_tokens",
    "cuda_graph_max_bs": "cuda_graph_max_bs",
}
# Sizes of which 1 is what the engine does anyway: left out, so that a command line shows what matters.
_IMPLIED = {"pp_size": 1, "ep_size": 1}


def worker_settings(
    role: str, settings: WorkerSettings, recipe: Recipe | None, places: Mapping[str, Any]
) -> dict[str, Any]:
    """All engine settings of one worker by flag name, the plan's own last so that they win.

    places: model_path, served_model_name, host, port and, for prefill, disaggregation_bootstrap_port.
    """
    typed = {flag: getattr(settings, key) for key, flag in TYPED_FLAGS.items()}
    flags = {key: value for key, value in typed.items() if value is not None and _IMPLIED.get(key) != value}
    merged = {**places, **(recipe.arguments if recipe else {}), **flags, **settings.server_args}
    merged.update(places)
    merged.update(_disaggregation(role, settings, recipe))
    return {key.replace("-", "_"): value for key, value in merged.items() if value is not None}


def _disaggregation(role: str, settings: WorkerSettings, recipe: Recipe | None) -> dict[str, Any]:
    if role == "unified":
        return {}
    chosen = settings.transfer_backend or (recipe.transfer_backend if recipe else None)
    return {"disaggregation_mode": role, "disaggregation_transfer_backend": chosen}


def worker_argv(program: tuple[str, ...], flags: list[str]) -> tuple[str, ...]:
    """The command line: the program, then flags as the release spells them."""
    return (*program, *flags)


def worker_env(
    settings: WorkerSettings, recipe: Recipe | None, address: str, cache: str, tmp: str, gpus: tuple[int, ...]
) -> dict[str, str]:
    """The worker's environment, complete. cache: folder of this build's JIT caches; tmp: of its sockets."""
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # a build is never changed once complete
        "SPT_NOENV": "1",  # process titles must not overwrite the environment, by which we know our processes
        "SGLANG_HOST_IP": address,  # what prefill advertises to decode; the guess is wrong on many hosts
        "TMPDIR": tmp,
        **cache_env(cache),
        **(recipe.environment if recipe else {}),
    }
    if gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in gpus)
    return {**env, **settings.env}


def cache_env(cache: str) -> dict[str, str]:
    """Every JIT cache below one folder: a cache shared between builds serves stale kernels."""
    return {
        "HOME": cache,
        "XDG_CACHE_HOME": f"{cache}/xdg",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "FLASHINFER_WORKSPACE_BASE": f"{cache}/flashinfer",
        "SGLANG_CACHE_DIR": f"{cache}/sglang",
        "SGLANG_DG_CACHE_DIR": f"{cache}/deep_gemm",
        "TVM_FFI_CACHE_DIR": f"{cache}/tvm-ffi",
    }


def router_env(settings: RouterSettings, cache: str) -> dict[str, str]:
    """The router's environment, complete."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SPT_NOENV": "1",  # as for workers
        "HOME": cache,
        **settings.env,
    }


def router_argv(
    python: str, settings: RouterSettings, prefill: list[tuple[str, int]], decode: list[str], unified: list[str]
) -> tuple[str, ...]:
    """The router's command line. prefill: (URL, bootstrap port) each; decode, unified: URLs."""
    workers = [item for url, port in prefill for item in ("--prefill", url, str(port))]
    workers += [item for url in decode for item in ("--decode", url)]
    mode = ["--pd-disaggregation", *workers] if prefill or decode else ["--worker-urls", *unified]
    flags = [
        "--host", settings.host,
        "--port", str(settings.port),
        "--policy", settings.policy,
        "--prometheus-host", settings.host,
        "--prometheus-port", str(settings.metrics_port),
        "--worker-startup-check-interval", "1",
        "--health-check-interval-secs", str(settings.health_check_interval_s),
        "--health-failure-threshold", str(settings.health_failure_threshold),
        "--request-timeout-secs", str(settings.request_timeout_s),
    ]  # fmt: skip
    return (python, "-m", "smg.launch_router", *mode, *flags, *_router_extra(settings.server_args))


def _router_extra(arguments: Mapping[str, Any]) -> list[str]:
    extra: list[str] = []
    for key, value in arguments.items():
        flag = "--" + key.replace("_", "-")
        if value is True:
            extra.append(flag)
        elif value is not None and value is not False:
            extra += [flag, *(str(item) for item in (value if isinstance(value, (list, tuple)) else [value]))]
    return extra
