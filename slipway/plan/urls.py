"""Where a server is asked: with the scheme that its flags make it speak."""

from __future__ import annotations

from .model import Instance

# By these flags a server speaks TLS: SGLang's and the router's.
TLS_FLAGS = ("--ssl-certfile", "--tls-cert-path")


def url_of(instance: Instance) -> str:
    """Its base URL with the scheme that it speaks."""
    tls = any(word.partition("=")[0] in TLS_FLAGS for word in instance.argv)
    return instance.serves_at.replace("http://", "https://", 1) if tls else instance.serves_at
