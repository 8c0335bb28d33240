"""Climbs the verification ladder from where it runs: each rung presumes the one below.

usage: verify < REQUEST, JSON: workers (list) and router (or null); answers one JSON line per rung as it is done:
{"rung", "subject", "ok", "seconds", "detail"}. Standard library only, Python 3.9+.
Process states are read by the caller, who knows the service manager; they come in each worker's `service`.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from slipway.agent.state import service_states


class RungError(Exception):
    """Why a rung does not hold: one sentence."""


class NotYetError(RungError):
    """It may hold in a moment."""


Rung = tuple[str, Callable[[dict[str, Any]], str]]


def climb(subject: dict[str, Any], rungs: list[Rung]) -> Iterator[dict[str, Any]]:
    """Results rung by rung, ending with the first that does not hold."""
    for name, check in rungs:
        began = time.monotonic()
        ok, detail = attempt(check, subject)
        row = {"rung": name, "subject": subject["name"], "ok": ok, "detail": detail,
               "seconds": round(time.monotonic() - began, 3)}  # fmt: skip
        yield {**row, "answers": subject["answers"]} if name == "known-answers" and ok else row
        if not ok:
            return


def attempt(check: Callable[[dict[str, Any]], str], subject: dict[str, Any]) -> tuple[bool, str]:
    """Run one rung; whatever goes wrong in it is a reason, not a traceback."""
    try:
        return True, check(subject)
    except RungError as error:
        return False, str(error)
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer: {type(error).__name__} {error}".strip()
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return False, f"an answer of another shape than expected ({type(error).__name__}: {error})"


def process_runs(subject: dict[str, Any]) -> str:
    """The service manager says it runs, and it runs what the plan says."""
    service = service_states({**subject["service"], "names": [subject["service"]["name"]]})
    state = service[subject["service"]["name"]]
    if state["state"] != "running":
        raise RungError(f"the process is {state['state']} ({state.get('detail', '')})")
    if state.get("config") not in (None, subject["config"]):
        raise RungError(f"it runs configuration {state['config']}; the plan's is {subject['config']}")
    return f"pid {state['pid']}"


def ports_open(subject: dict[str, Any]) -> str:
    """Every port of the plan accepts a connection."""
    for use, port in sorted(subject["ports"].items()):
        try:
            socket.create_connection((subject["address"], port), timeout=5).close()
        except OSError as error:
            raise RungError(f"port {port} ({use}) on {subject['address']}: {error}") from error
    return ", ".join(f"{use} {port}" for use, port in sorted(subject["ports"].items()))


def health_ok(subject: dict[str, Any]) -> str:
    """GET /health is 200; on a worker that runs a one-token generation."""
    status, body = get(subject["url"] + "/health", subject["timeout_s"])
    if status != 200:
        raise RungError(f"/health answers {status}: {body[:200]}")
    return "/health 200"


def settled(check: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """A rung that may need a moment: the router looks at its workers by intervals, and rests open circuits."""

    def rung(subject: dict[str, Any]) -> str:
        end = time.monotonic() + subject["settle_s"]
        while True:
            try:
                return check(subject)
            except (NotYetError, OSError, http.client.HTTPException):
                if time.monotonic() > end:
                    raise
            time.sleep(0.5)

    return rung


def router_ready(subject: dict[str, Any]) -> str:
    """GET /readiness is 200, which needs a healthy worker of each role."""
    status, body = get(subject["url"] + "/readiness", subject["timeout_s"])
    if status != 200:
        raise NotYetError(f"/readiness answers {status}: {body[:200]}; a role has no healthy worker")
    return "/readiness 200"


def worker_counts(subject: dict[str, Any]) -> str:
    """The router's healthy workers are exactly the plan's."""
    _, body = get(subject["url"] + "/workers", subject["timeout_s"])
    rows = json.loads(body)["workers"]
    found = {row["url"].rstrip("/"): bool(row.get("is_healthy")) for row in rows}
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


def completes(subject: dict[str, Any]) -> str:
    """One completion within the limit: a server can be healthy and never answer."""
    began = time.monotonic()
    text = ask(subject, "Say hello.", max_tokens=16)
    if not text.strip():
        raise RungError("the completion is empty")
    return f"a completion in {time.monotonic() - began:.2f} s"


def known_answers(subject: dict[str, Any]) -> str:
    """Every known answer at temperature 0; the first wrong one is shown beside the right one."""
    wrong, answers = [], {}
    for row in subject["known_answers"]:
        answer = answers[row["question"]] = ask(subject, row["question"], subject["max_tokens"])
        if answer.strip() != row["answer"].strip():
            wrong.append(f"{row['question']!r} -> {answer.strip()[:120]!r}; must be {row['answer'][:120]!r}")
    total = len(subject["known_answers"])
    if wrong:
        raise RungError(f"{len(wrong)} of {total} known answers are wrong: {wrong[0]}")
    subject["answers"] = answers
    return f"{total} of {total} known answers right" if total else "no known answers for this checkpoint"


def streams(subject: dict[str, Any]) -> str:
    """A streamed answer arrives in pieces, ends with [DONE], and says what the unstreamed one says."""
    question = subject["known_answers"][0]["question"] if subject["known_answers"] else "Say hello."
    whole = ask(subject, question, subject["max_tokens"])
    pieces, done = stream(subject, question)
    if not done:
        raise RungError(f"the stream ended without [DONE] after {len(pieces)} pieces")
    if "".join(pieces).strip() != whole.strip():
        raise RungError(f"streamed {''.join(pieces)[:80]!r}, unstreamed {whole[:80]!r}")
    return f"streamed in {len(pieces)} pieces"


WORKER_RUNGS: list[Rung] = [("process", process_runs), ("ports", ports_open), ("health", health_ok)]
ROUTER_RUNGS: list[Rung] = [
    ("process", process_runs), ("ports", ports_open), ("readiness", settled(router_ready)),
    ("workers", settled(worker_counts)), ("completion", settled(completes)), ("known-answers", known_answers),
    ("streaming", streams),
]  # fmt: skip


def worker_rungs(subject: dict[str, Any]) -> list[Rung]:
    """All of them for who serves; ranks above 0 answer /health 200 whatever they do, so that rung proves nothing."""
    return WORKER_RUNGS if subject.get("serves", True) else [rung for rung in WORKER_RUNGS if rung[0] != "health"]


def request(method: str, url: str, timeout: float, body: dict[str, Any] | None = None) -> http.client.HTTPResponse:
    """One HTTP request without proxies: what is asked for is on the plan's own addresses."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    data = json.dumps(body).encode() if body is not None else None
    connection.request(method, parts.path or "/", data, {"Content-Type": "application/json"} if data else {})
    return connection.getresponse()


def get(url: str, timeout: float) -> tuple[int, str]:
    """Status and text of a GET."""
    with request("GET", url, timeout) as response:
        return response.status, response.read().decode("utf-8", "replace")


def ask(subject: dict[str, Any], question: str, max_tokens: int) -> str:
    """The answer to one question at temperature 0."""
    with request("POST", subject["url"] + "/v1/chat/completions", subject["timeout_s"],
                 chat(subject, question, max_tokens, stream=False)) as response:  # fmt: skip
        text = response.read().decode("utf-8", "replace")
        if response.status != 200:
            kind = NotYetError if response.status == 503 else RungError
            raise kind(f"a chat completion answers {response.status}: {text[:200]}")
        return str(json.loads(text)["choices"][0]["message"]["content"] or "")


def chat(subject: dict[str, Any], question: str, max_tokens: int, stream: bool) -> dict[str, Any]:
    """The request's body."""
    return {
        "model": subject["model"],
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": stream,
    }


def stream(subject: dict[str, Any], question: str) -> tuple[list[str], bool]:
    """The pieces of a streamed answer, and whether it ended as it should."""
    body = chat(subject, question, subject["max_tokens"], stream=True)
    pieces: list[str] = []
    with request("POST", subject["url"] + "/v1/chat/completions", subject["timeout_s"], body) as response:
        if response.status != 200:
            raise RungError(f"a streamed completion answers {response.status}: {response.read()[:200]!r}")
        for line in response:
            text = line.decode("utf-8", "replace").strip()
            if text == "data: [DONE]":
                return pieces, True
            if text.startswith("data: "):
                for choice in json.loads(text[6:]).get("choices", []):
                    pieces += [choice["delta"]["content"]] if choice.get("delta", {}).get("content") else []
    return pieces, False


def main() -> int:
    """Climb for every worker, then for the router; 1 when a rung does not hold."""
    wanted = json.load(sys.stdin)
    ok = True
    subjects = [(worker, worker_rungs(worker)) for worker in wanted.get("workers", [])]
    subjects += [(wanted["router"], ROUTER_RUNGS)] if wanted.get("router") else []
    for subject, rungs in subjects:
        for result in climb(subject, rungs):
            print(json.dumps(result), flush=True)
            ok = ok and result["ok"]
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
