"""Command lines and environments of workers and router: plain values in, lists and dicts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipway.builds.recipe import Recipe
from slipway.config.deployment import RouterSettings, WorkerSettings
from slipway.knowledge import gates
from slipway.knowledge.backends import Choice

from .model import Setting

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
# Flags that the plan sets itself, and the key by which a user decides them.
PLANNED = {
    "model_path": "model.path or model.host_path",
    "served_model_name": "model.name",
    "host": "address",
    "port": "port",
    "disaggregation_bootstrap_port": "bootstrap_port",
    "disaggregation_mode": "the inventory's groups",
    "nccl_port": "nothing: the plan gives each worker its own",
    "dist_init_addr": "address",
    "nnodes": "nnodes",
    "node_rank": "nnodes",
    "tp_size": "tp",
    "pp_size": "pp",
    "ep_size": "ep",
    "dp_size": "dp",
    "attn_dp_size": "dp",
    "enable_dp_attention": "dp_attention",
    "base_gpu_id": "gpus",
    "gpu_id_step": "gpus",
}


def plain(name: str) -> str:
    """A flag's name without its dashes: attention_backend for --attention-backend."""
    return str(name).lstrip("-").replace("-", "_")


def configured(settings: WorkerSettings) -> dict[str, Any]:
    """What the user wrote about the engine, by flag name; None where a flag shall not be passed."""
    typed = {flag: getattr(settings, key) for key, flag in TYPED_FLAGS.items()}
    flags = {key: value for key, value in typed.items() if value is not None and _IMPLIED.get(key) != value}
    if settings.transfer_backend:
        flags["disaggregation_transfer_backend"] = settings.transfer_backend
    return {**flags, **{plain(key): value for key, value in settings.server_args.items()}}


def worker_settings(
    role: str, settings: WorkerSettings, release: str, recipe: Recipe | None, choices: Sequence[Choice]
) -> tuple[Setting, ...]:
    """The engine settings of workers that are alike, each with its origin; who comes later wins.

    Without what differs between them: addresses, ports, paths and ranks.
    """
    written = configured(settings)
    table = {choice.name: choice.value for choice in choices if choice.kind == "flag" and choice.how == "table"}
    layers = [
        ("recipe", {**(recipe.arguments if recipe else {}), **_transfer(recipe)}),
        ("configured", {**_parallel(settings, release), **written}),
        ("table", {name: value for name, value in table.items() if name not in written}),
    ]
    found: dict[str, Setting] = {}
    for origin, values in layers:
        found.update({name: Setting(name, value, origin) for name, value in values.items()})
    transfer = found.pop("disaggregation_transfer_backend", None)
    pair = [Setting("disaggregation_mode", role, "configured"), *([transfer] if transfer else [])]
    kept = [*found.values(), *(pair if role != "unified" else [])]
    return tuple(setting for setting in kept if setting.value is not None)


def _transfer(recipe: Recipe | None) -> dict[str, Any]:
    backend = recipe.transfer_backend if recipe else None
    return {"disaggregation_transfer_backend": backend} if backend else {}


def _parallel(settings: WorkerSettings, release: str) -> dict[str, Any]:
    """Data parallelism as the release spells it."""
    if settings.dp == 1:
        return {}
    if not settings.dp_attention:
        return {"dp_size": settings.dp}
    if gates.holds("attn_dp_size_flag", release):
        return {"attn_dp_size": settings.dp}
    return {"dp_size": settings.dp, "enable_dp_attention": True}


def worker_env(
    settings: WorkerSettings,
    needed: Mapping[str, str],
    address: str,
    cache: str,
    tmp: str,
    gpus: tuple[int, ...],
    programs: Sequence[str] = (),
) -> dict[str, str]:
    """The worker's environment, complete.

    needed: by the build and the chosen backends; what the user wrote wins over it. address: of its host, which
    prefill advertises. cache: folder of this build's JIT caches; tmp: of its sockets. programs: folders that come
    first in PATH: kernels are compiled with the build's own ninja.
    """
    env = {
        "PATH": ":".join([*programs, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # a build is never changed once complete
        "SPT_NOENV": "1",  # process titles must not overwrite the environment, by which we know our processes
        "SGLANG_HOST_IP": address,  # what prefill advertises to decode; the guess is wrong on many hosts
        "TMPDIR": tmp,
        **cache_env(cache),
        **needed,
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


def keyed(program: tuple[str, ...], adder: str) -> tuple[str, ...]:
    """The program behind `adder`, the file that gives it its API key (templates/keyed.py.j2); both without `-m`."""
    return (program[0], adder, *(word for word in program[1:] if word != "-m"))


def router_argv(
    program: tuple[str, ...],
    settings: RouterSettings,
    prefill: list[tuple[str, int]],
    decode: list[str],
    unified: list[str],
) -> tuple[str, ...]:
    """The router's command line. program: how it begins. prefill: (URL, bootstrap port) each; decode, unified: URLs."""
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
        "--cb-timeout-duration-secs", str(settings.circuit_open_s),
        "--request-timeout-secs", str(settings.request_timeout_s),
        "--shutdown-grace-period-secs", str(settings.drain_s),
    ]  # fmt: skip
    paired = bool(prefill or decode)
    breaker = not paired if settings.circuit_breaker is None else settings.circuit_breaker
    flags += [] if breaker else ["--disable-circuit-breaker"]
    return (*program, *mode, *flags, *_router_extra(settings.server_args))


def _router_extra(arguments: Mapping[str, Any]) -> list[str]:
    extra: list[str] = []
    for key, value in arguments.items():
        flag = "--" + key.replace("_", "-")
        if value is True:
            extra.append(flag)
        elif value is not None and value is not False:
            extra += [flag, *(str(item) for item in (value if isinstance(value, (list, tuple)) else [value]))]
    return extra
