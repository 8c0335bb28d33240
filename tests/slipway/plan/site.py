"""An inventory put together in a test, and plans of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway.front import Opened, open_groups
from slipway.plan.facts import HostFacts, read_facts
from slipway.plan.make import Made
from slipway.plan.model import Instance, Plan

DATA = Path(__file__).parents[2] / "data"
V4 = "deepseek-v4-flash-nvfp4"
ONE_HOST = {"prefill": ["gpu1"], "decode": ["gpu1"], "router": ["gpu1"]}


def opened(folder: Path, groups: Mapping[str, Sequence[str]], settings: Mapping[str, Any], **more: Any) -> Opened:
    """settings: group_vars/all.yml. more: other files of group_vars or host_vars, by stem; both are JSON, so YAML."""
    hosts = {host for names in groups.values() for host in names}
    for stem, content in {"all": settings, **more}.items():
        kind = "host_vars" if stem in hosts else "group_vars"
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / f"{stem}.yml").write_text(json.dumps(content))
    write_series(folder, settings.get("engine", {}).get("patches", ()))
    return open_groups(folder / "inventory.py", groups, {})


def write_series(folder: Path, ids: Sequence[str]) -> None:
    """A series beside the inventory with these patches; what they change does not matter to a plan."""
    text = "--- a/python/sglang/x.py\n+++ b/python/sglang/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    rows = [{"id": name, "file": f"{name}.diff", "sha256": digest, "why": "needed by the test"} for name in ids]
    (folder / "patches").mkdir(exist_ok=True)
    (folder / "patches" / "series.yml").write_text(json.dumps({"patches": rows}))
    for row in rows:
        (folder / "patches" / row["file"]).write_text(text)


def model(name: str) -> dict[str, str]:
    """A checkpoint of tests/data that lies on the hosts already."""
    return {"host_path": f"/models/{name}", "facts": str(DATA / "checkpoints" / name)}


def campaign(
    release: str, *, hardware: Any = "8xRTX PRO 6000", patches: Sequence[str] = (), **worker: Any
) -> dict[str, Any]:
    """group_vars of the campaign that the project comes from: DeepSeek-V4-Flash-NVFP4, TP 4 + 4."""
    return {
        "hardware": hardware,
        "engine": {
            "version": release,
            "patches": list(patches),
            "extra_packages": ["mooncake-transfer-engine-cuda13==0.3.13"],
        },
        "model": model(V4),
        "worker": {"tp": 4, "mem_fraction_static": 0.9, **worker},
    }


def made(folder: Path, groups: Mapping[str, Sequence[str]], settings: Mapping[str, Any], **more: Any) -> Made:
    """The plan without asking hosts, with what led to it."""
    return opened(folder, groups, settings, **more).make({})


def planned(folder: Path, groups: Mapping[str, Sequence[str]], settings: Mapping[str, Any], **more: Any) -> Plan:
    """The plan without asking hosts."""
    return made(folder, groups, settings, **more).plan


def probed(name: str) -> HostFacts:
    """Facts of a captured probe."""
    return read_facts(json.loads((DATA / "hardware" / f"{name}.json").read_text()))


def instance(plan: Plan, name: str) -> Instance:
    return next(one for one in plan.instances if one.name == name)


def flags(plan: Plan, name: str) -> dict[str, str]:
    """Flags of an instance's command line, with their values as one text."""
    found: dict[str, str] = {}
    current = ""
    for word in instance(plan, name).argv:
        if word.startswith("--"):
            current = word
            found[current] = ""
        elif current:
            found[current] = f"{found[current]} {word}".strip()
    return found


def rules(plan: Plan, severity: str | None = None) -> list[str]:
    return [finding.rule for finding in plan.findings if severity in (None, finding.severity)]
