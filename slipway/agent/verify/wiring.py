"""Rungs between instances: decode finds prefill, the router has the plan's workers, every pair works."""

from __future__ import annotations

import ipaddress
import itertools
import random
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

from slipway.agent.verify.answers import completes, opening
from slipway.agent.verify.client import call, get, wanted
from slipway.agent.verify.matching import matches
from slipway.agent.verify.questions import GREETING, answered, body_of, path_of, sane
from slipway.agent.verify.reasons import NotYetError, RungError, reason_of

# SGLang's decode asks so (srt/disaggregation/common/conn.py of 0.5.13): all -1 for what prefill is, then a rank.
WHOLE = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
FIRST_RANK = "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0"
SAME = ("page_size", "kv_cache_dtype")
PAIRS_AT_ONCE = 8


def bootstrap_found(subject: dict[str, Any]) -> str:
    """From decode's host: each prefill has registered, agrees with this decode, and is where it says it is."""
    mine = server_info(subject)
    for prefill in subject["prefills"]:
        name, url = prefill["name"], prefill["bootstrap"]
        reply = get(subject, WHOLE, url)
        if reply.status != 200:
            raise NotYetError(f"{name}: its bootstrap {url} answers {reply.status}: {reply.text[:120]}")
        check_agreement(name, reply.json(), mine)
        rank = wanted(subject, get(subject, FIRST_RANK, url), f"{name}: /route of rank 0").json()
        check_advertised(prefill, rank, subject["address"])
    return f"{len(subject['prefills'])} prefill registered, at the address that they advertise"


def server_info(subject: dict[str, Any]) -> dict[str, Any]:
    """A worker's own settings; the older endpoint where the newer is not there."""
    reply = get(subject, "/server_info")
    if reply.status == 404:
        reply = get(subject, "/get_server_info")
    found: dict[str, Any] = wanted(subject, reply, "/server_info").json()
    return found


def check_agreement(name: str, prefill: dict[str, Any], mine: dict[str, Any]) -> None:
    """What decode compares at first contact, where a difference ends it or corrupts in silence."""
    for key in SAME:
        theirs, ours = prefill.get(key), mine.get(key)
        if theirs is not None and ours is not None and theirs != ours:
            raise RungError(f"{name} registered {key} {theirs!r}; this decode has {ours!r}: they must be equal")


def check_advertised(prefill: dict[str, Any], rank: dict[str, Any], here: str) -> None:
    """The address that decode is sent to leads to the prefill."""
    address, port, name = str(rank["rank_ip"]), int(rank["rank_port"]), prefill["name"]
    cure = "set SGLANG_HOST_IP to an address that decode can reach"
    if prefill.get("advertised") and address != prefill["advertised"]:
        raise RungError(f"{name} sends decode to {address}; must be {prefill['advertised']}: {cure}")
    if useless(address) and address != here:
        raise RungError(f"{name} sends decode to {address}, which leads nowhere from another host: {cure}")
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError as error:
        raise RungError(
            f"{name} sends decode to {address}:{port}, which cannot be reached ({error}): {cure}"
        ) from error


def useless(address: str) -> bool:
    """Whether an address means something else on every host."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address == "localhost"
    return parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local


def router_ready(subject: dict[str, Any]) -> str:
    """GET /readiness is 200, which needs a healthy worker of each role; older routers know only /health."""
    reply = get(subject, "/readiness")
    if reply.status == 404:
        wanted(subject, get(subject, "/health"), "/health")
        return "/health 200; this router has no /readiness, so only its workers and requests tell"
    if reply.status != 200:
        raise NotYetError(f"/readiness answers {reply.status}: {reply.text[:200]}; a role has no healthy worker")
    return "/readiness 200"


def router_workers(subject: dict[str, Any]) -> dict[str, bool] | None:
    """URL -> healthy; None when this router does not tell (the mini load balancer of sglang_router)."""
    reply = get(subject, "/workers")
    if reply.status == 404:
        older = get(subject, "/list_workers")  # sglang_router before 0.2, which does not say who is healthy
        return None if older.status == 404 else {str(url).rstrip("/"): True for url in older.json()["urls"]}
    rows = wanted(subject, reply, "/workers").json()["workers"]
    return {row["url"].rstrip("/"): bool(row.get("is_healthy")) for row in rows}


def worker_counts(subject: dict[str, Any]) -> str:
    """The router's healthy workers are exactly the plan's."""
    found = router_workers(subject)
    if found is None:
        return "this router does not list its workers: only requests through it tell"
    for role, urls in sorted(subject["expected_workers"].items()):
        for url in urls:
            if not found.get(url.rstrip("/")):
                state = "is not healthy for it" if url.rstrip("/") in found else "is not known to it"
                raise NotYetError(f"{role} {url} {state}; the router has {summary(found)}")
    extra = set(found) - {url.rstrip("/") for urls in subject["expected_workers"].values() for url in urls}
    if extra:
        raise RungError(f"the router also sends to {', '.join(sorted(extra))}, which the plan does not have")
    return ", ".join(f"{len(urls)} {role}" for role, urls in sorted(subject["expected_workers"].items()) if urls)


def summary(found: dict[str, bool]) -> str:
    """The router's workers in a few words."""
    return ", ".join(f"{url} {'healthy' if ok else 'unhealthy'}" for url, ok in sorted(found.items())) or "no worker"


def reached(subject: dict[str, Any]) -> str:
    """A known answer from where we are, when a way leads to the router at all."""
    parts = urlsplit(subject["url"])
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), timeout=5).close()
    except OSError as error:
        return f"no way leads from the controller to {parts.netloc} ({error}), so nothing was asked from here"
    return completes(subject)


def pairs_work(subject: dict[str, Any]) -> str:
    """Every prefill with every decode, asked as the router asks: the router itself only tries some of them."""
    chosen, total = pairs_of(subject)
    wrong: list[str] = []
    gate = threading.Semaphore(PAIRS_AT_ONCE)

    def one(pair: tuple[dict[str, Any], ...]) -> None:
        with gate:
            wrong.extend(filter(None, [pair_wrong(dict(subject), pair)]))

    threads = [threading.Thread(target=one, args=(pair,), daemon=True) for pair in chosen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise RungError(f"{len(wrong)} of {len(chosen)} pairs do not work: {sorted(wrong)[0]}")
    kind = "pairs" if any(len(pair) > 1 for pair in chosen) else "workers"
    part = f" of {total}, each worker at least once (verify.pairs)" if total > len(chosen) else ""
    return f"{len(chosen)} {kind}{part} answer" + (" rightly" if "expect" in opening(subject) else "")


def pairs_of(subject: dict[str, Any]) -> tuple[list[tuple[dict[str, Any], ...]], int]:
    """The pairs to try and how many there are: all, or so many that each worker is in one. Unified ones go alone."""
    by_role = {role: [worker for worker in subject["workers"] if worker["role"] == role]
               for role in ("prefill", "decode", "unified")}  # fmt: skip
    every: list[tuple[dict[str, Any], ...]] = list(itertools.product(by_role["prefill"], by_role["decode"]))
    every += [(worker,) for worker in by_role["unified"]]
    if len(every) <= subject["pairs"]:
        return every, len(every)
    width = max(len(by_role["prefill"]), len(by_role["decode"]), len(by_role["unified"]))
    each = [tuple(workers[index % len(workers)] for workers in by_role.values() if workers) for index in range(width)]
    return each, len(every)


def pair_wrong(subject: dict[str, Any], pair: tuple[dict[str, Any], ...]) -> str:
    """What is wrong with a pair; '' when nothing is."""
    name = " with ".join(worker["name"] for worker in pair)
    try:
        return right_answer(subject, name, pair)
    except RungError as error:
        return f"{name}: {error}"
    except Exception as error:  # noqa: BLE001 - one pair must not hide the others
        return f"{name}: {reason_of(error)}"


def right_answer(subject: dict[str, Any], name: str, pair: tuple[dict[str, Any], ...]) -> str:
    """Send one request to both at the same moment, with where they meet; the answer is the last one's."""
    row, limit = opening(subject), subject["max_tokens"]
    body = {**body_of(subject, row, limit), **meeting(pair)}
    replies: dict[int, Any] = {}

    def send(number: int) -> None:
        try:
            replies[number] = call(dict(subject), "POST", path_of(subject), body, pair[number]["url"])
        except Exception as error:  # noqa: BLE001 - told below, in the thread that judges
            replies[number] = error

    threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(len(pair))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, worker in reversed(list(enumerate(pair))):  # decode knows more of what went wrong between them
        if isinstance(replies[number], BaseException):
            return f"{name}: {worker['name']}: {reason_of(replies[number])}"
        wanted(subject, replies[number], worker["name"])
    answer = sane(answered(replies[len(pair) - 1], limit, subject), limit)
    if "expect" in row and not matches(answer.text, row, bool(subject.get("plain"))):
        return f"{name}: {row['question']!r} -> {answer.text[:80]!r}; must be {row['expect']!r}"
    return ""


def meeting(pair: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """What the router adds to a request for a pair."""
    if len(pair) == 1:
        return {}
    host = urlsplit(pair[0]["url"]).hostname
    room = random.getrandbits(62)
    return {"bootstrap_host": host, "bootstrap_port": pair[0]["bootstrap_port"], "bootstrap_room": room}


__all__ = ["GREETING", "bootstrap_found", "pairs_work", "reached", "router_ready", "worker_counts"]
