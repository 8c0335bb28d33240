"""Memory of one instance: what its weights, KV cache and reserve take on each GPU, and whether that fits."""

from slipway.memory.layout import Layout, Use
from slipway.memory.outcome import Line, MemoryPlan
from slipway.memory.plan import plan_memory, weights_per_gpu

__all__ = ["Layout", "Line", "MemoryPlan", "Use", "plan_memory", "weights_per_gpu"]
