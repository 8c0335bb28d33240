"""Behaviour by release, under the name that callers read best: `gates.holds("ready_endpoint", "0.5.18")`."""

from slipway.knowledge.releases import Gate, gate, gate_names, holds

__all__ = ["Gate", "gate", "gate_names", "holds"]
