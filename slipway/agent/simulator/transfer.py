"""Decode's side of a transfer: find prefill over its bootstrap, check that both agree, fetch the state."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from .logbook import Log
from .mischief import EngineError, forever
from .settings import Settings
from .web import call

ROUTE_TIMEOUT_S = 5.0
RETRY_S = 0.25
KV_TIMEOUT = "in KVPoll.WaitingForInput"


@dataclass(frozen=True)
class Rendezvous:
    """Where a request's state is: what the router adds to the request body."""

    host: str
    port: int
    room: int


class Receiver:
    """Fetches states for decode, and remembers what it learnt about each prefill."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._stores: dict[str, str] = {}
        self._done = 0

    async def fetch(self, at: Rendezvous) -> dict[str, Any]:
        """The state of a room; EngineError after the time-out, or at once when both sides disagree."""
        faults = self._settings.faults
        if faults.on("transfer-hangs"):
            await forever()
        self._done += 1
        if faults.beyond("transfer-errors", self._done):
            raise self._failed(at, "Failed to get kvcache from prefill instance, it might be dead")
        state = await self._fetch_before(time.monotonic() + self._settings.bootstrap_timeout_s, at)
        if faults.on("transfer-slow"):
            await asyncio.sleep(faults.number("transfer-slow"))
        if faults.on("transfer-fails"):
            self._failed(at, "Transfer failed with status -1: session is not alive")
        return state

    async def _fetch_before(self, deadline: float, at: Rendezvous) -> dict[str, Any]:
        while True:
            try:
                return await self._attempt(at, deadline - time.monotonic())
            except OSError as error:
                forgotten = self._forget(f"{at.host}:{at.port}")
                if isinstance(error, ConnectionResetError):
                    raise self._failed(at, f"Losing connection with prefill instance ({at.host}:{at.port})") from None
                if forgotten:
                    continue
                self._log.scheduler(f"Error fetching prefill server info from bootstrap: {error}")
            if time.monotonic() + RETRY_S > deadline:
                spent = self._settings.bootstrap_timeout_s
                raise self._failed(at, f"Request {at.room} timed out after {spent:.1f}s {KV_TIMEOUT}")
            await asyncio.sleep(RETRY_S)

    def _forget(self, address: str) -> bool:
        """Whether something was known of a prefill that is there no more: SGLang's decode drops it by heartbeat."""
        stale = self._settings.faults.on("stale-prefill")
        return not stale and self._stores.pop(address, None) is not None

    async def _attempt(self, at: Rendezvous, left: float) -> dict[str, Any]:
        store = await self._store(f"{at.host}:{at.port}")
        status, body = await call("GET", f"http://{store}/simulator/kv?room={at.room}", max(0.1, left))
        if status != 200:
            raise self._failed(at, body.decode("utf-8", "replace"))
        state: dict[str, Any] = json.loads(body)
        return state

    async def _store(self, address: str) -> str:
        """Where prefill hands out states; asked once, then remembered."""
        if address not in self._stores:
            info = await self._route(address, (-1, -1, -1, -1))
            self._agree(info)
            rank = await self._route(address, (0, 0, 0, 0))
            self._stores[address] = f"{rank['rank_ip']}:{rank['rank_port']}"
        return self._stores[address]

    async def _route(self, address: str, place: tuple[int, int, int, int]) -> dict[str, Any]:
        dp, cp, tp, pp = place
        query = f"prefill_dp_rank={dp}&prefill_cp_rank={cp}&target_tp_rank={tp}&target_pp_rank={pp}"
        status, body = await call("GET", f"http://{address}/route?{query}", ROUTE_TIMEOUT_S)
        if status != 200:
            raise OSError(f"Failed to get prefill server info: {status}, {body.decode('utf-8', 'replace')}")
        info: dict[str, Any] = json.loads(body)
        return info

    def _agree(self, info: dict[str, Any]) -> None:
        """The checks of SGLang's decode at first contact, and one for the model, which SGLang lacks."""
        args = self._settings.args
        self._same("Page size", "page_size", info.get("page_size"), args["page_size"])
        self._same("KV cache dtype", "kv_cache_dtype", info.get("kv_cache_dtype"), args["kv_cache_dtype"])
        self._same("Model", "model", info.get("simulator_model"), self._settings.checkpoint.fingerprint)
        if info.get("attn_tp_size") != args["tp_size"]:
            self._log.scheduler("Performance is NOT guaranteed when using different TP sizes for non-MLA models. ")

    def _same(self, what: str, name: str, prefill: Any, decode: Any) -> None:
        if prefill is None or prefill == decode:
            return
        flag = {"page_size": "--page-size", "kv_cache_dtype": "--kv-cache-dtype"}.get(name, "--model-path")
        message = (
            f"{what} mismatch: prefill server has {name}={prefill}, but decode server has {name}={decode}. "
            f"Both servers must use the same {flag} value."
        )
        self._log.traceback(f"RuntimeError: {message}")
        raise EngineError(500, f"Internal server error: {message}", "InternalServerError")

    def _failed(self, at: Rendezvous, reason: str) -> EngineError:
        """Log a failed transfer in SGLang's words and make the error that the client gets."""
        message = (
            f"Decode transfer failed for request rank=0 decode_req.req.bootstrap_room={at.room} "
            f"with exception KVTransferError(bootstrap_room={at.room}): {reason}"
        )
        self._log.scheduler(message)
        return EngineError(500, message, "InternalServerError")
