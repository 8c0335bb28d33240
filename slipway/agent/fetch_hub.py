"""The Hub as a checkpoint is fetched from it: what a commit holds, and the bytes of one file, resumed where they ended.

The one module of the agent that needs a package: huggingface_hub, which the build `hub` brings. It is imported when
it is first used, so that everything else here runs with any Python 3.9+.
"""

from __future__ import annotations

import gc
import os
import ssl
import sys
import urllib.request
from functools import cached_property
from typing import Any, cast
from urllib.parse import quote, urlsplit

from slipway.agent.fetch_http import Address, TransferError
from slipway.agent.fetch_http import read as read_http

SIGNS = ("X-Error-Code", "X-Error-Message")  # headers in which the Hub says why it refuses
DISABLED = "Access to this resource is disabled."  # as X-Error-Message; huggingface_hub 2.4.0, utils/_http.py


class HubError(TransferError):
    """A sentence for the operator about the Hub."""


class Client:
    """One repository at one endpoint. token: '' for none; it is sent to the Hub and nowhere else."""

    def __init__(self, endpoint: str, repo: str, token: str = "", timeout_s: float = 30.0) -> None:
        self.endpoint, self.repo, self.token = endpoint.rstrip("/"), repo, token
        self.hub, self.timeout_s = library(timeout_s), timeout_s

    @cached_property
    def api(self) -> Any:
        """What tells of a repository. Its import is 0.2 s, which a fetch of known files does without."""
        return self.hub.HfApi(endpoint=self.endpoint, token=self.token or False)

    def commit(self, revision: str) -> str:
        """The commit that a branch, a tag or a commit's own id stands for now."""
        try:
            return str(self.api.model_info(self.repo, revision=revision).sha)
        except Exception as error:
            raise self.explained(error, revision) from error

    def files(self, commit: str) -> dict[str, tuple[int, str]]:
        """Every file of a commit: size, and 'sha256:HEX' of large ones or 'git:HEX' of small ones.

        As HfApi.list_repo_tree asks (huggingface_hub 2.4.0), without its import.
        """
        url = f"{self.endpoint}/api/models/{self.repo}/tree/{quote(commit, safe='')}"
        try:
            rows = list(self.hub.utils.paginate(url, {"recursive": True, "expand": False}, self._headers()))
        except Exception as error:
            raise self.explained(error, commit) from error
        try:
            return {row["path"]: (row["size"], listed_hash(row)) for row in rows if row["type"] == "file"}
        except (KeyError, TypeError, AttributeError) as error:
            text = f"{self.endpoint} lists the files of {self.repo} in a form that is not the Hub's ({error!r})"
            raise HubError(f"{text}; it is no mirror of it: correct model.endpoint") from error

    def _headers(self) -> dict[str, str]:
        found: dict[str, str] = self.hub.utils.build_hf_headers(token=self.token or False)
        return found

    def read(self, commit: str, name: str, sink: Any, resume: int, size: int, large: bool = False) -> None:
        """Write the rest of a file, from byte `resume` on, to `sink`. Raises TransferError; what came stays in there.

        large: whether the file lies in a store of its own, as those do that the Hub lists with a sha256.
        """
        url = self.hub.file_download.hf_hub_url(self.repo, name, revision=commit, endpoint=self.endpoint)
        headers = self._headers()
        try:
            address = self._located(url, headers) if large else None
            if address is None:
                self.hub.file_download.http_get(url, sink, resume_size=resume, headers=headers, expected_size=size)
                return
        except TransferError:
            raise
        except Exception as error:
            raise self.explained(error, commit, name) from error
        read_http(address, f"{self.repo}/{name}", sink, resume, self.timeout_s)

    def _located(self, url: str, headers: dict[str, str]) -> Address | None:
        """Where the bytes are; None where a proxy stands between, which huggingface_hub knows how to pass."""
        found = self.hub.file_download.get_hf_file_metadata(
            url, headers=headers, token=self.token or False, timeout=self.timeout_s, retry_on_errors=True
        )
        parts = urlsplit(found.location)
        if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(parts.hostname or ""):
            return None
        if parts.netloc != urlsplit(url).netloc:  # the address is signed; the token is for the Hub alone
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        return Address(found.location, headers, tls_context)

    def explained(self, error: Exception, revision: str, name: str = "") -> HubError:
        """Any fault of the Hub, of the way there or of the disk, as one sentence that says what to do."""
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", 0)
        code, said = (response.headers.get(name, "") if response is not None else "" for name in SIGNS)
        parts = urlsplit(str(response.url) if response is not None else self.endpoint)  # redirects may lead elsewhere
        what = f"{self.repo}{'/' + name if name else ''}"
        for sign, text in self._refusals(revision, what, said, f"{parts.scheme}://{parts.netloc}").items():
            if sign in (code, said, status):
                return HubError(text)
        if status == 429:
            text = f"{self.endpoint} still answers 429 (too many requests) after waiting as told; run this again later"
            return HubError(text, passing=True)
        if status >= 500:
            return HubError(f"{self.endpoint} answers {status} for {what}; it is the Hub's fault", passing=True)
        return self._of_the_way(error, what)

    def _refusals(self, revision: str, what: str, said: str, place: str) -> dict[Any, str]:
        """By X-Error-Code or X-Error-Message, else by status; none of them passes by waiting."""
        page = f"{self.endpoint}/{self.repo}"
        token = "the token may not read it" if self.token else "it is private and model.token names no token"
        return {
            "GatedRepo": f"{self.repo} is gated and this account was not let in: accept its conditions at {page}, "
            "and let model.token name a token of that account",
            "RepoNotFound": f"there is no repository {self.repo} at {self.endpoint}, or {token}; check model.repo",
            "RevisionNotFound": f"{self.repo} has no revision {revision}; check model.revision",
            "EntryNotFound": f"{what} is listed but not there; the repository is damaged at this commit",
            401: f"{self.endpoint} refused the token for {self.repo} (401): it has expired or is mistyped; renew what "
            "model.token names",
            DISABLED: f"{self.endpoint} has disabled {self.repo} (403), for whatever token; choose another model.repo",
            403: self._forbidden(what, said, place),
            404: f"{self.endpoint} has no {what} (404); check model.repo and model.endpoint",
        }

    def _forbidden(self, what: str, said: str, place: str) -> str:
        """A 403 that is no gate: the Hub says why in X-Error-Message, a proxy or firewall on the way does not."""
        right = "the token has no right to read it" if self.token else "it wants a token and model.token names none"
        grant = f"let model.token name a token that may read {self.repo} (a fine-grained one lists what it may read)"
        if said:
            return f"{place} forbids {what} (403: {one_line(said)}); most likely {right}: {grant}"
        likely = f"most likely a proxy or firewall on the way refuses it, else {right}"
        way = f"have {place} let through to this host, or set model.endpoint to a mirror"
        return f"{place} forbids {what} (403) and gives no reason; {likely}: {way}; else {grant}"

    def _of_the_way(self, error: Exception, what: str) -> HubError:
        kind = type(error).__name__
        if kind == "ProxyError":
            fix = "ask whoever runs it to let this host through, correct the proxy variables of the environment"
            text = f"{what}: the proxy on the way to {self.endpoint} answers {one_line(str(error))}"
            return HubError(f"{text}; {fix}, or set model.endpoint to a mirror", passing=str(error)[:1] == "5")
        if "Timeout" in kind:
            return HubError(f"{what}: {self.endpoint} sent nothing for too long", passing=True)
        if "Consistency check" in str(error):
            return HubError(f"{what}: the transfer ended early", passing=True)
        if "Connect" in kind or "Protocol" in kind or "Network" in kind or "Read" in kind:
            return HubError(f"{what}: the connection to {self.endpoint} failed ({kind})", passing=True)
        return HubError(f"{what}: {one_line(str(error)) or kind}")


def listed_hash(row: dict[str, Any]) -> str:
    """Of a file in a listing: 'sha256:HEX' of a large one, 'git:HEX' of a small one."""
    large = row.get("lfs")
    return f"sha256:{large['oid']}" if large else f"git:{row['oid']}"


def one_line(text: str) -> str:
    """What others say, as part of one sentence of ours: its first line, cut short."""
    return "".join(text.strip().splitlines()[:1])[:200].rstrip(" .")


def library(timeout_s: float) -> Any:
    """huggingface_hub with its environment out of the way: no implicit token, no cache, no bars, no offline mode."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        os.environ.pop(name, None)
    switches = ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_DISABLE_PROGRESS_BARS")
    os.environ.update(dict.fromkeys((*switches, "HF_HUB_DISABLE_TELEMETRY"), "1"))
    try:
        import huggingface_hub
        from huggingface_hub import constants, file_download, utils
    except ImportError as error:
        raise HubError(f"this Python has no huggingface_hub ({error}); the build `hub` brings it") from None
    constants.HF_HUB_DOWNLOAD_TIMEOUT = timeout_s  # type: ignore[assignment]
    constants.DOWNLOAD_CHUNK_SIZE = None  # type: ignore[assignment]  # as they come: a cut loses what a chunk gathers
    utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # the last line of the log is the progress
    _ = file_download
    gc.freeze()  # what is imported stays: it need not be looked through again, at the end either
    return huggingface_hub


def tls_context() -> ssl.SSLContext:
    """As huggingface_hub trusts: its HTTP library brings certificates to hosts that have none."""
    made = getattr(sys.modules.get("httpx2"), "create_ssl_context", ssl.create_default_context)()
    return cast(ssl.SSLContext, made)
