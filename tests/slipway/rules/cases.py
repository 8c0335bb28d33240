"""Cases of rules: real plans from small changes of one baseline."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from slipway.checkpoint import Inspection, read_checkpoint
from slipway.config.load import load
from slipway.finding import Finding
from slipway.hardware import HostHardware, Interface, RdmaDevice
from slipway.hardware.model import Limit
from slipway.plan.evidence import Evidence
from slipway.plan.make import Known, Made, make
from slipway.plan.model import Files
from slipway.rules import all_rules, check
from tests.slipway.checkpoint.checkpoints import changed, files_of

FOLDER = Path(__file__).parents[2] / "data" / "rules"
OWN = ("groups", "host_vars", "checkpoint", "config", "probe", "also")
RULES = {rule.id for rule in all_rules()}
SHAPES = {"rdma": RdmaDevice, "limits": Limit, "interfaces": Interface}


@cache
def baseline() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "baseline.yml").read_text())
    return found


@cache
def cases_of(rule: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = yaml.safe_load((FOLDER / f"{rule}.yml").read_text())
    return found


def files() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yml") if path.stem != "baseline")


def deep(base: Any, change: Any) -> Any:
    """`change` over `base`; mappings are merged, everything else is replaced."""
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    return {**base, **{key: deep(base.get(key), value) for key, value in change.items()}}


def made_of(case: Mapping[str, Any]) -> Made:
    """The plan of a case, by the loader and planner that users get."""
    base = baseline()
    groups = case.get("groups", base["groups"])
    written = deep(base["all"], {key: value for key, value in case.items() if key not in OWN})
    name = case.get("checkpoint", base["checkpoint"])
    written = deep({"model": {"path": name}}, written)
    hosts = {host for members in groups.values() for host in members}
    own = {host: data for host, data in deep(base["host_vars"], case.get("host_vars", {})).items() if host in hosts}
    with tempfile.TemporaryDirectory() as folder:
        for host, data in [("all", written), *own.items()]:
            kind = "group_vars" if host == "all" else "host_vars"
            (Path(folder) / kind).mkdir(exist_ok=True)
            (Path(folder) / kind / f"{host}.yml").write_text(yaml.safe_dump(data))
        deployment = load(Path(folder), groups, {}, Path(folder))
    return make(deployment, known_of([name, *_models(own)], case.get("config", {})))


def _models(own: Mapping[str, Any]) -> list[str]:
    return [data["model"]["path"] for data in own.values() if "path" in data.get("model", {})]


def known_of(names: list[str], config: Mapping[str, Any]) -> Known:
    return Known(
        files={name: Files(name, {"config.json": (1, name.encode().hex())}) for name in names},
        checkpoints={name: inspection(name, json.dumps(config)) for name in names},
    )


@cache
def inspection(name: str, config: str) -> Inspection:
    keys = json.loads(config)
    texts = changed(name, "config.json", **keys) if keys else files_of(name)
    checkpoint = read_checkpoint(texts, name=name)
    return Inspection(checkpoint, {}, checkpoint.findings)


def evidence_of(case: Mapping[str, Any]) -> Evidence:
    """What rules judge, with hosts as if they had been asked where the case says so."""
    evidence = made_of(case).evidence
    if "probe" not in case:
        return evidence
    only = case["probe"].get("only")
    known = {
        host: probed(hardware, case["probe"]) if only in (None, host) else hardware
        for host, hardware in evidence.hardware.items()
    }
    by_hosts = {
        entry.instance.name: tuple(known[host] for host in evidence.hardware if host in hosts_of(evidence, entry))
        for entry in evidence.instances
    }
    entries = tuple(replace(entry, hardware=by_hosts[entry.instance.name]) for entry in evidence.instances)
    return replace(evidence, hardware=known, instances=entries)


def hosts_of(evidence: Evidence, entry: Any) -> list[str]:
    return [instance.host for instance in evidence.plan.instances if instance.leader == entry.instance.name]


def probed(hardware: HostHardware, fields: Mapping[str, Any]) -> HostHardware:
    changes = {key: shaped(key, value) for key, value in fields.items() if key != "only"}
    return replace(hardware, **{"origin": "probe", "nvcc": "13.0", "nvcc_path": "/usr/local/cuda/bin/nvcc", **changes})


def shaped(key: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    shape = SHAPES.get(key)
    return tuple(shape(**item) if shape else item for item in value)


def findings_of(case: Mapping[str, Any]) -> list[Finding]:
    return _findings(json.dumps(case))


@cache
def _findings(case: str) -> list[Finding]:
    read = json.loads(case)
    if "probe" in read:
        return check(evidence_of(read))
    return [finding for finding in made_of(read).plan.findings if finding.rule in RULES]
