"""Where a server is asked: with the scheme that its flags make it speak."""

from __future__ import annotations

from slipway.agent.verify.client import speaks_tls

from .model import Instance


def url_of(instance: Instance) -> str:
    """Its base URL with the scheme that it speaks."""
    return instance.serves_at.replace("http://", "https://", 1) if speaks_tls(instance.argv) else instance.serves_at
