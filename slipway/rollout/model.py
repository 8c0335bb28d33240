"""What a rollout is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from slipway.plan.model import Instance

Kind = Literal["start", "green", "restart", "router", "remove", "join"]


@dataclass(frozen=True)
class Policy:
    """How a rollout goes about it.

    strategy: 'rolling', 'recreate' or 'blue-green'. skew: how many workers of one role may be out at the same time.
    drain_s: seconds that a worker's running requests are waited for once the routers send it nothing new.
    apart: why old and new workers must not serve beside one another; () when they may.
    """

    strategy: str
    skew: int
    drain_s: int
    apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class Live:
    """A process of the deployment that runs now. url: where it serves, '' for ranks above 0.

    routed: whether the running routers send to it and take it for healthy; what runs and gets nothing serves nobody.
    """

    name: str
    host: str
    role: str
    url: str
    routed: bool = True

    @property
    def leader(self) -> str:
        """The worker that it is a rank of."""
        return self.name.partition("-rank")[0]


@dataclass(frozen=True)
class Step:
    """One step; the next begins when what this one started has been verified.

    instances: what is started, every rank. leaving: what is taken out of the routers, drained and stopped before.
    reasons: why, by instance. outage: roles that nobody serves from the drain to the end of the step.
    """

    kind: Kind
    instances: tuple[Instance, ...]
    leaving: tuple[Live, ...]
    reasons: Mapping[str, str]
    outage: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Whom it is about: workers rather than their ranks."""
        named = [one.leader for one in self.instances] or [one.leader for one in self.leaving]
        return tuple(dict.fromkeys(named)) or tuple(self.reasons)
