"""The rollout: in which order what runs becomes what the plan says, without losing a request. Pure."""

from .green import Green, green_of, only_green, with_green, with_room
from .left import left_behind
from .mixing import apart
from .model import Live, Policy, Step
from .order import due_instances, replaced_workers, steps
from .shown import step_lines

__all__ = [
    "Green",
    "Live",
    "Policy",
    "Step",
    "apart",
    "due_instances",
    "green_of",
    "left_behind",
    "only_green",
    "replaced_workers",
    "step_lines",
    "steps",
    "with_green",
    "with_room",
]
