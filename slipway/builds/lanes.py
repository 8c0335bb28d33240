"""Lanes: packages that exist once for each CUDA major version; a build takes those that fit its torch (lanes.yml)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from slipway.config.deployment import EngineSettings
from slipway.finding import Finding
from slipway.knowledge import releases

from .locks import name_of


@cache
def _lanes() -> Mapping[str, Any]:
    text = resources.files("slipway.builds").joinpath("lanes.yml").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


def lane_of(engine: EngineSettings) -> str:
    """'cuda13', 'cuda12' or 'none', by the torch of the engine's release."""
    majors = releases.nearest(engine.version).cuda_majors if engine.device == "cuda" else ()
    return f"cuda{majors[0]}" if majors else "none"


def left_out(engine: EngineSettings) -> tuple[str, ...]:
    """Packages of other lanes that are not installed though something asks for them."""
    return tuple(_lanes().get(lane_of(engine), {}).get("left_out", ()))


def lane_findings(engine: EngineSettings, subject: str) -> Iterator[Finding]:
    """Packages that were asked for and are of another lane."""
    lane = lane_of(engine)
    instead = _lanes().get(lane, {}).get("instead", {})
    for line in engine.extra_packages:
        if name_of(line) in instead:
            other = instead[name_of(line)]
            built = f"built for CUDA {lane[4:]}" if lane != "none" else "without CUDA"
            text = f"engine.extra_packages has {line}; the torch of SGLang {engine.version} here is {built}"
            fix = f"use {other} instead" if other else "take it out: there is none without CUDA"
            yield Finding("package-lane", "error", subject, text, fix, str(_lanes()["source"]))
