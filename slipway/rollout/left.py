"""Hosts that the inventory has no more: nobody stops what an earlier release started there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.finding import Finding
from slipway.plan.model import Plan


def left_behind(before: Mapping[str, Any], plan: Plan) -> Iterator[Finding]:
    """A warning for each host of a recorded plan that this one lacks."""
    known = {host.name for host in plan.hosts}
    for host in before.get("hosts", ()):
        names = [one["name"] for one in before["instances"] if one["host"] == host["name"]]
        if host["name"] not in known and names:
            text = f"the current release runs {', '.join(names)} there, and the inventory has the host no more: that "
            text += "goes on, holds its GPUs, and no router of this plan sends to it"
            fix = "destroy it there with an inventory that has just this host, or put the host back under that name"
            yield Finding("host-left-behind", "warning", str(host["name"]), text, fix)
