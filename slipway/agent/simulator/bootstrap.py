"""Prefill's side of a transfer: the bootstrap server that decode asks first, and the store it fetches from.

The bootstrap server speaks SGLang's protocol (`/route`, `/register_dp_rank`, `/query_dp_ranks`, `/health`).
Where SGLang moves KV pages with RDMA or TCP, a second listener on the advertised address hands out the state
of a bootstrap room as JSON at /simulator/kv, so that a wrong advertised address fails as it does for real.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from .logbook import Log
from .mischief import EngineError
from .settings import Settings
from .web import Request, Response, Server, json_response, text_response

OLD_QUERY = ("engine_rank", "target_dp_group", "target_pp_rank")  # before 0.5.8
QUERY = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")
UNROUTABLE = "192.0.2.1"  # TEST-NET-1: given to nobody


class Room:
    """One bootstrap room: decode waits for `state`, prefill waits for `fetched`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.state: asyncio.Future[dict[str, Any] | None] = loop.create_future()
        self.fetched: asyncio.Future[None] = loop.create_future()


class Rooms:
    """The states that prefill has computed and decode has not fetched yet."""

    def __init__(self) -> None:
        self._rooms: dict[int, Room] = {}

    def __len__(self) -> int:
        return len(self._rooms)

    def enter(self, room: int) -> Room:
        """The room, made by whichever side comes first."""
        return self._rooms.setdefault(room, Room())

    def leave(self, room: int) -> None:
        """Forget a room; a decode that still waits in it is told that prefill gave up."""
        left = self._rooms.pop(room, None)
        if left is not None and not left.state.done():
            left.state.set_result(None)

    async def hand_over(self, room: int, state: dict[str, Any], timeout: float) -> None:
        """Offer a state and wait until decode has fetched it."""
        place = self.enter(room)
        if not place.state.done():
            place.state.set_result(state)
        started = time.monotonic()
        try:
            await asyncio.wait_for(asyncio.shield(place.fetched), timeout)
        except asyncio.TimeoutError:  # noqa: UP041  (another class than TimeoutError before Python 3.11)
            waited = time.monotonic() - started
            raise EngineError(500, handshake_failure(room, waited), "InternalServerError") from None


def handshake_failure(room: int, waited: float) -> str:
    """SGLang's own words when decode never came."""
    return (
        f"Prefill bootstrap failed for request rank=0 req.bootstrap_room={room} with exception "
        f"KVTransferError(bootstrap_room={room}): Request {room} timed out after {waited:.1f}s "
        "in KVPoll.Bootstrapping"
    )


class Bootstrap:
    """Both listeners of a prefill."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.rooms = Rooms()
        self._settings = settings
        self._log = log
        self._ranks: dict[tuple[int, ...], dict[str, Any]] = {}
        self._info: dict[str, Any] = {}
        self._dp_ranks: dict[int, int] = {}
        self._server = Server(self._handle, lambda _request, _status: None, log.line)
        self._store = Server(self._handle_store, lambda _request, _status: None, log.line)

    async def start(self) -> None:
        """Open both ports: the bootstrap port where the engine listens, the store where decode is sent."""
        host, port = (
            str(self._settings.args["host"]),
            int(self._settings.args["disaggregation_bootstrap_port"]),
        )
        await self._server.listen(host, port)
        self._log.line(f"CommonKVBootstrapServer started successfully on {host}:{port}")
        self._store_port = await self._store.listen(self._settings.advertised_ip, 0)

    def register(self) -> None:
        """Register every rank, as the schedulers do once the weights are loaded."""
        if self._settings.faults.on("bootstrap-never-registers"):
            return
        for rank in range(int(self._settings.args["tp_size"])):
            self._put(self._registration(rank))

    def _registration(self, rank: int) -> dict[str, Any]:
        args, faults = self._settings.args, self._settings.faults
        page = int(faults.number("reports-page-size")) if faults.on("reports-page-size") else args["page_size"]
        dtype = faults.text("reports-kv-dtype") if faults.on("reports-kv-dtype") else args["kv_cache_dtype"]
        address = UNROUTABLE if faults.on("advertises-unroutable") else self._settings.advertised_ip
        return {
            "attn_tp_size": args["tp_size"], "attn_tp_rank": rank, "attn_cp_size": 1, "attn_cp_rank": 0,
            "attn_dp_size": 1, "attn_dp_rank": 0, "pp_size": 1, "pp_rank": 0, "system_dp_size": 1,
            "system_dp_rank": 0, "rank_ip": address, "rank_port": self._store_port, "page_size": page,
            "kv_cache_dtype": dtype, "load_balance_method": args["load_balance_method"],
            "simulator_model": self._settings.checkpoint.fingerprint,
        }  # fmt: skip

    def _put(self, data: dict[str, Any]) -> None:
        self._info = {
            "attn_tp_size": data["attn_tp_size"],
            "attn_cp_size": data["attn_cp_size"],
            "dp_size": data["attn_dp_size"] if data["system_dp_size"] == 1 else data["system_dp_size"],
            "pp_size": data["pp_size"],
            "page_size": data["page_size"],
            "kv_cache_dtype": data["kv_cache_dtype"],
            "follow_bootstrap_room": data.get("load_balance_method") in (None, "follow_bootstrap_room"),
            "simulator_model": data.get("simulator_model"),
        }
        group = data["attn_dp_rank"] if data["system_dp_size"] == 1 else data["system_dp_rank"]
        place = (group, data["attn_cp_rank"], data["attn_tp_rank"], data["pp_rank"])
        self._ranks[place] = {"rank_ip": data["rank_ip"], "rank_port": int(data["rank_port"])}

    def _complete(self) -> bool:
        sizes = ("attn_tp_size", "attn_cp_size", "dp_size", "pp_size")
        expected = 1
        for size in sizes:
            expected *= int(self._info.get(size) or 1)
        return bool(self._info) and len(self._ranks) >= expected

    async def _handle(self, request: Request) -> Response:
        if request.path == "/health":
            return text_response("OK")
        if request.path == "/route":
            return self._route(request)
        if request.path == "/register_dp_rank" and request.method == "POST":
            body = request.json()
            self._dp_ranks[int(body["bootstrap_room"])] = int(body["dp_rank"])
            return text_response("OK")
        if request.path == "/query_dp_ranks" and request.method == "POST":
            rooms = [int(room) for room in request.json()["bootstrap_rooms"]]
            return json_response({str(room): self._dp_ranks[room] for room in rooms if room in self._dp_ranks})
        return text_response("404: Not Found", 404)

    def _route(self, request: Request) -> Response:
        if request.method == "PUT":
            try:
                self._put(request.json())
            except (KeyError, TypeError, ValueError) as error:
                return text_response(f"500 Internal Server Error: {error!r}", 500)
            return text_response("OK")
        if request.method != "GET":
            return text_response("Method not allowed", 405)
        place = route_place(request.query)
        if place is None:
            return text_response("Missing inputs for bootstrap server.", 400)
        return self._route_get(place)

    def _route_get(self, place: tuple[int, ...]) -> Response:
        if not self._complete():
            count = len(self._ranks)
            return text_response(f"Prefill server not fully registered yet ({count} workers registered).", 503)
        if set(place) == {-1}:
            return json_response(self._info)
        if place not in self._ranks:
            names = ("dp_rank", "cp_rank", "tp_rank", "pp_rank")
            where = " ".join(f"{name}={place[index]}" for index, name in enumerate(names))
            return text_response(f"Bootstrap info not found for {where}", 404)
        return json_response(self._ranks[place])

    async def _handle_store(self, request: Request) -> Response:
        """Hand the state of a room to decode, as soon as there is one."""
        if request.path != "/simulator/kv":
            return text_response("404: Not Found", 404)
        number = int(request.query.get("room", "-1"))
        room = self.rooms.enter(number)
        try:
            state = await asyncio.shield(room.state)
        except asyncio.CancelledError:  # decode gave up; prefill may never come to this room
            self.rooms.leave(number)
            raise
        if state is None:
            return text_response("Aborted by AbortReq.", 410)
        if not room.fetched.done():
            room.fetched.set_result(None)
        return json_response(state)


def route_place(query: dict[str, str]) -> tuple[int, ...] | None:
    """(dp, cp, tp, pp) from either spelling of the query; None when something is missing."""
    if all(query.get(name) for name in QUERY):
        return tuple(int(query[name]) for name in QUERY)
    if all(query.get(name) for name in OLD_QUERY):
        rank, group, stage = (int(query[name]) for name in OLD_QUERY)
        return (-1, -1, -1, -1) if rank == group == -1 else (group, 0, rank, max(0, stage))
    return None
