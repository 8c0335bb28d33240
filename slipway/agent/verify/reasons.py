"""Why a rung does not hold: one sentence, whatever went wrong."""

from __future__ import annotations

import http.client
import socket
import ssl

TLS_RECORDS = ("\x15\x03", "\x16\x03")  # what an alert and a handshake begin with (RFC 8446, 5.1)


class RungError(Exception):
    """Why a rung does not hold: one sentence."""


class NotYetError(RungError):
    """It may hold in a moment."""


# RemoteDisconnected is a BadStatusLine, so it stands before the cases of TLS. socket.timeout is another class than
# TimeoutError before Python 3.10.
CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
SENTENCES: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    (CLOSED, "the connection was closed without an answer"),
    ((http.client.IncompleteRead,), "the answer was cut in the middle"),
    ((socket.timeout,), "no answer in time"),
    ((ConnectionRefusedError,), "connection refused: nothing listens there"),
)


def reason_of(error: BaseException) -> str:
    """A sentence for what a library raised."""
    for kinds, sentence in SENTENCES:
        if isinstance(error, kinds):
            return sentence
    if isinstance(error, (OSError, http.client.HTTPException)):
        return of_tls(error) or f"no answer: {type(error).__name__} {error}".strip()
    return f"an answer of another shape than expected ({type(error).__name__}: {error})"


def of_tls(error: BaseException) -> str:
    """A sentence when the two ends do not agree on TLS; '' for other errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted here ({error.verify_message}); name the certificate, or the CA that "
            "signed it, in verify.ca_file"
        )
    if isinstance(error, ssl.SSLError):
        return f"the TLS handshake failed ({error.reason or error}): does it speak plain HTTP on this port?"
    if isinstance(error, http.client.BadStatusLine):
        tls = str(error).strip("'\"").startswith(TLS_RECORDS)
        return "it speaks TLS, and the plan has it speak plain HTTP" if tls else "the answer is no HTTP"
    return ""
