"""Gets the diff of a pull request, whole and really a diff, or says why not. Runs on the controller; Python 3.9+."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from slipway.agent.patch_diff import DiffError, read_diff

GITHUB = "https://github.com"
MOST_BYTES = 32 * 1024 * 1024
HINTS = {
    401: "it may be private",
    403: "it may be private, or asked too often",
    404: "check OWNER/REPO#N; it may be private",
    429: "asked too often; try again later",
}


class FetchError(Exception):
    """A sentence for the operator: what could not be had, and what to do."""


def address_of(pull: str, server: str = GITHUB) -> str:
    """Where the diff over all commits of OWNER/REPO#N is. Raises FetchError for another spelling."""
    match = re.fullmatch(r"([A-Za-z0-9-]+/[A-Za-z0-9._-]+)#(\d+)", pull)
    if match is None:
        raise FetchError(f"got {pull!r}; must be OWNER/REPO#N, such as sgl-project/sglang#25820")
    return f"{server.rstrip('/')}/{match[1]}/pull/{match[2]}.diff"


def fetch_diff(address: str, timeout_s: float = 60) -> bytes:
    """The diff's bytes, read through once so that it is known to be one. Raises FetchError."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise FetchError(f"{address}: only http and https are fetched")
    data = _body(address, timeout_s)
    try:
        read_diff(data.decode("utf-8", "surrogateescape"))
    except DiffError as error:
        raise FetchError(f"{address} answered with {len(data)} bytes that are no diff to apply: {error}") from None
    return data


def _body(address: str, timeout_s: float) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=timeout_s) as answer:
            data: bytes = answer.read(MOST_BYTES + 1)
            announced = int(answer.headers.get("Content-Length") or len(data))
    except urllib.error.HTTPError as error:
        with error:
            raise FetchError(f"{address} answered {error.code}; {HINTS.get(error.code, 'try again later')}") from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise FetchError(f"{address} cannot be reached: {why}; without a network, put the diff into patches/") from None
    if len(data) > MOST_BYTES:
        raise FetchError(f"{address} is longer than {MOST_BYTES} bytes; is it the right pull request?")
    if len(data) < announced:  # a read with a limit ends early without an error
        raise FetchError(f"{address} was cut after {len(data)} of {announced} bytes; try again")
    return data
