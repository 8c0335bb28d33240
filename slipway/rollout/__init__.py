"""The rollout: in which order what runs becomes what the plan says, without losing a request. Pure."""

from .model import Live, Policy, Step
from .order import due_instances, steps
from .shown import step_lines

__all__ = ["Live", "Policy", "Step", "due_instances", "step_lines", "steps"]
