"""From the configuration to what the client is asked: every cell of a sweep, in order. Refuses what cannot fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.bench.errors import BenchError
from slipway.config.deployment import BenchSettings, thawed
from slipway.config.errors import nearest
from slipway.knowledge import gates
from slipway.plan.model import Plan
from slipway.plan.urls import url_of

WORKERS = ("prefill", "decode", "unified")
READY_S = 120  # how long a cell waits for a router that does not answer before it is void
_AS_CONFIGURED = (
    "sweep", "client", "api", "processes", "slo", "ignore_eos", "flush", "details", "seed", "extra", "timeout_s",
    "silence_s",
)  # fmt: skip


def sweep_request(plan: Plan, settings: BenchSettings, label: str, tokenizer: str | None) -> dict[str, Any]:
    """What the client reads as sweep.json. Raises BenchError.

    tokenizer: where tokenizer.json may lie on the client's host.
    """
    cells = list(_cells(settings))
    _check_room(plan, cells, settings.sweep)
    return {
        "label": label,
        "cells": cells,
        "url": _router_url(plan),
        "model": next((host.checkpoint.served_name for host in plan.hosts if host.checkpoint), plan.deployment),
        "tokenizer": tokenizer,
        "engine": engine_client(plan, settings.host) if settings.client == "engine" else None,
        "gpus": gpu_counts(plan),
        "workers": [{"name": one.name, "role": one.role, "url": url_of(one)} for one in plan.serving(*WORKERS)],
        "insecure": False,
        "ready_s": READY_S,
        **{name: thawed(getattr(settings, name)) for name in _AS_CONFIGURED},
    }


def _cells(settings: BenchSettings) -> Iterator[dict[str, int]]:
    """Cells shape by shape, by rising concurrency as written."""
    if settings.sweep not in settings.sweeps:
        close = nearest(settings.sweep, settings.sweeps)
        hint = f"; did you mean {close}?" if close else ""
        raise BenchError(
            f"bench.sweep: got {settings.sweep}; must be one of {', '.join(sorted(settings.sweeps))}, "
            f"the names in bench.sweeps{hint}"
        )
    sweep = settings.sweeps[settings.sweep]
    for prompt, answer in sweep["shapes"]:
        for concurrency, prompts in _loads(settings.sweep, sweep):
            yield {
                "input": prompt, "output": answer, "concurrency": concurrency, "prompts": prompts,
                "warmups": sweep["warmups"] * concurrency,
            }  # fmt: skip


def _loads(name: str, sweep: Mapping[str, Any]) -> list[tuple[int, int]]:
    """(concurrency, prompts) pairs. Raises BenchError."""
    levels, prompts = sweep["concurrency"], sweep["prompts"]
    counts = [prompts * level for level in levels] if isinstance(prompts, int) else list(prompts)
    if len(counts) != len(levels):
        raise BenchError(
            f"bench.sweeps.{name}: {len(counts)} numbers of prompts for {len(levels)} concurrencies; "
            "there must be one for each, or one number that is multiplied by the concurrency"
        )
    small = [f"{count} prompts at C={level}" for level, count in zip(levels, counts, strict=True) if count < level]
    if small:
        raise BenchError(f"bench.sweeps.{name}: {small[0]} never reach that concurrency; ask for as many at least")
    return list(zip(levels, counts, strict=True))


def _check_room(plan: Plan, cells: list[dict[str, int]], name: str) -> None:
    """A shape that is longer than the context would be refused by the engine, request by request."""
    known = [one.settings.get("context_length") for one in plan.serving("decode", "unified")]
    limit = min((int(value) for value in known if value), default=0)
    for cell in cells:
        asked = cell["input"] + cell["output"]
        if limit and asked > limit:
            raise BenchError(
                f"bench.sweeps.{name}: {cell['input']} + {cell['output']} tokens do not fit the workers' context of "
                f"{limit}; choose shorter shapes, or raise context_length"
            )


def _router_url(plan: Plan) -> str:
    routers = plan.of("router")
    if not routers:
        raise BenchError("the plan has no router to send requests to; put a host into the group router")
    return url_of(routers[0])


def engine_client(plan: Plan, host: str | None) -> dict[str, Any]:
    """The engine's own benchmark on the client's host: how to call it. Raises BenchError."""
    name = host or next((router.host for router in plan.of("router")), "")
    found = next((one for one in plan.hosts if one.name == name), None)
    builds = [build for build in found.builds if build.kind == "sglang"] if found else []
    if not found or not builds or not found.checkpoint:
        raise BenchError(
            f"bench.client engine: {name} has no SGLang build and checkpoint; set bench.host to a worker's host, "
            "or bench.client to builtin"
        )
    known = gates.holds("benchmark_serving_module", builds[0].version)
    return {
        "python": f"{found.paths['engines']}/{builds[0].id}/venv/bin/python",
        "module": "sglang.benchmark.serving" if known else "sglang.bench_serving",
        "tokenizer": found.checkpoint.path,
        "env": _client_environment(plan, builds[0].id),
    }


def _client_environment(plan: Plan, build: str) -> dict[str, str]:
    """The variables that importing the build needs, as its workers have them."""
    workers = [one for one in plan.instances if one.build == build]
    wanted = ("SGLANG_USE_CPU_ENGINE", "HF_HUB_OFFLINE")
    return {name: one.env[name] for one in workers[:1] for name in wanted if name in one.env}


def gpu_counts(plan: Plan) -> dict[str, int]:
    """GPUs in all, and those that compute prompts and tokens; unified workers do both."""
    gpus = {role: {(one.host, gpu) for one in plan.of(role) for gpu in one.gpus} for role in WORKERS}
    prefill, decode = gpus["prefill"] | gpus["unified"], gpus["decode"] | gpus["unified"]
    return {"all": len(prefill | decode), "prefill": len(prefill), "decode": len(decode)}
