"""Slipway's functional core: config in, plan out. Pure; only `slipway.agent` touches the world."""

__version__ = "0.1.0"
