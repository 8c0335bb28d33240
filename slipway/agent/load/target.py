"""Where requests go: an OpenAI endpoint, its address resolved once, and the bytes of a request to it."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


class TargetError(Exception):
    """The endpoint cannot be used, and why."""


@dataclass
class Target:
    """An endpoint. name: as the Host header has it. base: path in front of /v1. key: the API key, '' for none."""

    url: str
    name: str
    host: str
    port: int
    base: str
    family: int
    address: Any
    context: ssl.SSLContext | None
    key: str

    def request(self, path: str, body: bytes, method: str = "POST") -> bytes:
        """The bytes of one request, on a connection that ends with it."""
        lines = [
            f"{method} {self.base}{path} HTTP/1.1", f"Host: {self.name}", "Connection: close",
            "Content-Type: application/json", "Accept: text/event-stream, application/json",
            "User-Agent: slipway-load", f"Content-Length: {len(body)}",
        ]  # fmt: skip
        if self.key:
            lines.append(f"Authorization: Bearer {self.key}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def target_of(url: str, key: str = "", insecure: bool = False, ca: str = "") -> Target:
    """The target of a base URL such as http://10.0.0.1:8000 or https://api.example/v1. Raises TargetError.

    insecure: any certificate will do. ca: file with the certificate, or the authority's, that is trusted besides.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise TargetError(f"{url}: not an http:// or https:// address")
    host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    base = parts.path.rstrip("/")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise TargetError(f"{url}: {host} has no address ({error.strerror or error})") from None
    context = tls(insecure, ca) if parts.scheme == "https" else None
    base = base[: -len("/v1")] if base.endswith("/v1") else base
    return Target(url, parts.netloc.rpartition("@")[2], host, port, base, family, address, context, key)


def tls(insecure: bool, ca: str) -> ssl.SSLContext:
    """How to speak TLS."""
    context = ssl.create_default_context()
    if ca:  # as in the ladder: who gives a certificate trusts whoever has it, whatever its name
        context.load_verify_locations(ca)
        context.check_hostname = False
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@dataclass(frozen=True)
class Shape:
    """What every request of a cell has in common. Sizes in tokens. extra: more fields of the body."""

    api: str
    model: str
    output: int
    stream: bool
    ignore_eos: bool
    extra: dict[str, Any]

    def body(self, prompt: str) -> bytes:
        """The JSON body of one request."""
        given: dict[str, Any] = (
            {"messages": [{"role": "user", "content": prompt}]} if self.api == "chat" else {"prompt": prompt}
        )
        body = {"model": self.model, **given, "max_tokens": self.output, "temperature": 0, "stream": self.stream}
        if self.stream:
            body["stream_options"] = {"include_usage": True}
        if self.ignore_eos:
            body["ignore_eos"] = True
        return json.dumps({**body, **self.extra}).encode()
