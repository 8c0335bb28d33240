"""Effective settings: what a worker says that it runs with, beside what the plan gave it. Only differences are told."""

from __future__ import annotations

import re
from typing import Any

from slipway.agent.verify.client import get, wanted
from slipway.agent.verify.reasons import RungError
from slipway.agent.verify.wiring import server_info

SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE)
MOST = 8  # differences that are shown
# Values that the engine itself replaces by others that mean the same (srt/server_args.py, 0.5.13 to 0.5.23).
SAME = {
    ("disaggregation_transfer_backend", "mooncake_tcp"): ("mooncake",),
    ("kv_cache_dtype", "bf16"): ("bfloat16",),
    ("kv_cache_dtype", "bfloat16"): ("bf16",),
    ("load_balance_method", "auto"): ("follow_bootstrap_room", "round_robin"),
}


def settings_equal(subject: dict[str, Any]) -> str:
    """Every setting of the plan is the effective one."""
    info = server_info(subject)
    check_build(subject, info)
    told = {name: told_as(subject, name, info) for name in subject["settings"]}
    unknown = sorted(name for name, found in told.items() if found not in info)
    wrong = [
        f"{name} is {shown(name, info[told[name]])}; the plan's is {shown(name, value)}"
        for name, value in sorted(subject["settings"].items())
        if name not in unknown and not agrees(name, value, info[told[name]])
    ]
    if wrong:
        more = f" and {len(wrong) - MOST} more" if len(wrong) > MOST else ""
        raise RungError(f"{len(wrong)} effective setting(s) differ from the plan: {'; '.join(wrong[:MOST])}{more}")
    return f"{len(told) - len(unknown)} settings as planned" + (f"; not told: {', '.join(unknown)}" if unknown else "")


def told_as(subject: dict[str, Any], name: str, info: dict[str, Any]) -> str:
    """The name under which a worker tells a setting of the plan."""
    return name if name in info else str(subject.get("renamed", {}).get(name, name))


def check_build(subject: dict[str, Any], info: dict[str, Any]) -> None:
    """The release that answers is the plan's."""
    found, planned = str(info.get("version", "")).partition("+")[0], subject.get("release", "")
    if found and planned and found != planned:
        raise RungError(f"it is release {found}; the plan's is {planned}")


def agrees(name: str, planned: Any, found: Any) -> bool:
    """Whether an effective value is what was asked for, or what the engine makes of that."""
    if planned is None or planned == "auto":
        return True
    if found == planned or str(found) == str(planned):
        return True
    if isinstance(planned, (int, float)) and isinstance(found, (int, float)):
        return abs(float(planned) - float(found)) < 1e-9
    return str(found) in SAME.get((name, str(planned)), ())


def shown(name: str, value: Any) -> str:
    """A value as text; never one that may be a secret."""
    return "(not shown)" if SECRET.search(name) and isinstance(value, str) else repr(value)


def model_named(subject: dict[str, Any]) -> str:
    """The worker serves the plan's model under the plan's name."""
    served = [row["id"] for row in wanted(subject, get(subject, "/v1/models"), "/v1/models").json()["data"]]
    if subject["model"] not in served:
        raise RungError(f"it serves {', '.join(served) or 'nothing'}; must serve {subject['model']}")
    return f"serves {subject['model']}"


def metrics_there(subject: dict[str, Any]) -> str:
    """Metrics are there where they were asked for: what watches it later would see nothing and raise no alarm."""
    if not subject["settings"].get("enable_metrics"):
        return "not asked for"
    reply = get(subject, "/metrics")
    names = reply.text.count("\n# TYPE ") + reply.text.startswith("# TYPE ")
    if reply.status != 200 or not names:
        raise RungError(f"/metrics answers {reply.status} with {names} metrics, although --enable-metrics was given")
    return f"{names} metrics"
