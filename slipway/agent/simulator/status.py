"""What the engine says about itself: /server_info, /model_info, /v1/models, loads and gauges."""

from __future__ import annotations

import time
from typing import Any

from .engine import Engine
from .settings import Settings


def server_info(engine: Engine) -> dict[str, Any]:
    """The effective server arguments, as SGLang lists them, and the state of the scheduler."""
    settings = engine.settings
    args = {**settings.args, "simulated": True}
    if settings.faults.on("server-info-differs"):
        args["tp_size"] = int(args["tp_size"]) * 2
        args["attention_backend"] = "torch_native"
    state = {
        **args,
        "last_gen_throughput": engine.throughput,
        "memory_usage": {"weight": 0.0, "kvcache": 0.0, "token_capacity": settings.capacity, "graph": 0.0},
        "effective_max_running_requests_per_dp": settings.max_running,
    }
    return {
        **args,
        "status": "ready",
        "max_total_num_tokens": settings.capacity,
        "max_req_input_len": settings.max_input,
        "internal_states": [state],
        "version": settings.release,
        "kv_events": None,
    }


def model_info(settings: Settings) -> dict[str, Any]:
    """The model, as a router reads it when it registers a worker."""
    config = settings.checkpoint.config
    return {
        "model_path": settings.args["model_path"],
        "tokenizer_path": settings.args["tokenizer_path"],
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": settings.args["weight_version"],
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": config.get("model_type"),
        "architectures": config.get("architectures"),
        "simulated": True,
    }


def model_card(settings: Settings) -> dict[str, Any]:
    """One entry of /v1/models."""
    name = settings.model_name
    return {
        "id": name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": settings.context_length,
    }


def load(engine: Engine) -> dict[str, Any]:
    """One rank's entry of /v1/loads."""
    settings, running, waiting = engine.settings, len(engine.running), len(engine.queue)
    used = engine.usage()
    return {
        "dp_rank": 0,
        "timestamp": time.time(),
        "num_running_reqs": running,
        "num_waiting_reqs": waiting,
        "num_waiting_uncached_tokens": 0,
        "num_used_tokens": used,
        "num_total_tokens": used,
        "max_total_num_tokens": settings.capacity,
        "token_usage": used / settings.capacity,
        "gen_throughput": engine.throughput,
        "cache_hit_rate": 0.0,
        "utilization": running / settings.max_running,
        "max_running_requests": settings.max_running,
        "memory": {
            "weight_gb": 0.0,
            "kv_cache_gb": 0.0,
            "graph_gb": 0.0,
            "token_capacity": settings.capacity,
        },
        "disaggregation": {"mode": settings.args["disaggregation_mode"], **pd_queues(engine)},
        "queues": {"waiting": waiting, "grammar": 0, "paused": 0, "retracted": 0},
    }


def old_load(engine: Engine) -> list[dict[str, Any]]:
    """/get_load, which SGLang dropped in 0.5.21."""
    now = load(engine)
    return [
        {
            "dp_rank": 0,
            "num_reqs": now["num_running_reqs"] + now["num_waiting_reqs"],
            "num_waiting_reqs": now["num_waiting_reqs"],
            "num_tokens": now["num_total_tokens"],
            "num_pending_tokens": 0,
            "ts_tic": time.perf_counter(),
        }
    ]


def pd_queues(engine: Engine) -> dict[str, int]:
    """The four queues of disaggregation."""
    rooms = len(engine.bootstrap.rooms) if engine.bootstrap is not None else 0
    return {
        "prefill_bootstrap_queue_reqs": 0,
        "prefill_inflight_queue_reqs": rooms,
        "decode_prealloc_queue_reqs": 0,
        "decode_transfer_queue_reqs": engine.transferring,
    }


def gauges(engine: Engine) -> dict[str, float]:
    """The gauges of /metrics."""
    settings, used = engine.settings, engine.usage()
    return {
        "num_running_reqs": float(len(engine.running)),
        "num_queue_reqs": float(len(engine.queue)),
        "num_used_tokens": float(used),
        "token_usage": used / settings.capacity,
        "kv_used_tokens": float(used),
        "kv_available_tokens": float(settings.capacity - used),
        "max_total_num_tokens": float(settings.capacity),
        "context_len": float(settings.context_length),
        "page_size": float(settings.args["page_size"]),
        "gen_throughput": engine.throughput,
        "cache_hit_rate": 0.0,
        "num_retracted_reqs": 0.0,
        "engine_startup_time": settings.load_s + settings.warmup_s,
        **{f"num_{name}": float(value) for name, value in pd_queues(engine).items()},
    }
