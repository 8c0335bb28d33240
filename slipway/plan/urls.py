"""Where a server is asked: with the scheme that its flags make it speak."""

from __future__ import annotations

from slipway.agent.verify.client import asked_at

from .model import Instance


def url_of(instance: Instance) -> str:
    """Its base URL with the scheme that it speaks."""
    return asked_at(instance.serves_at, instance.argv)
