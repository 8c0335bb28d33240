"""The endpoints: who may call them, what they answer, and the generation requests."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from . import intake, replies, status
from .engine import Engine, Job
from .faults import Faults
from .mischief import EngineError, forever
from .profiler import Profiler
from .settings import FAKE_BOOTSTRAP_HOST
from .text import plain_prompt
from .transfer import Rendezvous
from .web import (
    EVENTS,
    ConnectionCutError,
    HttpError,
    Request,
    Response,
    dump,
    json_response,
    text_response,
)

ADMIN = frozenset({
    "/flush_cache", "/abort_request", "/pause_generation", "/continue_generation", "/start_profile",
    "/stop_profile", "/configure_logging", "/freeze_gc", "/set_internal_state",
})  # fmt: skip
FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)
STARTING, UP, UNHEALTHY, STOPPING = "Starting", "Up", "UnHealthy", "Stopping"

Route = Callable[[Request], Awaitable[Response]]


class Api:
    """The HTTP face of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.settings = engine.settings
        self.state = STARTING
        self.profiler = Profiler()
        self._routes = self._table()

    def _table(self) -> dict[str, tuple[str, Route]]:
        routes: dict[str, tuple[str, Route]] = {
            "/health": ("GET", self._health),
            "/health_generate": ("GET", self._health),
            "/ping": ("GET", self._ping),
            "/model_info": ("GET", self._model_info),
            "/get_model_info": ("GET", self._model_info),
            "/server_info": ("GET", self._server_info),
            "/get_server_info": ("GET", self._server_info),
            "/v1/models": ("GET", self._models),
            "/v1/loads": ("GET", self._loads),
            "/flush_cache": ("GET POST", self._flush),
            "/abort_request": ("POST", self._abort),
            "/start_profile": ("GET POST", self._start_profile),
            "/stop_profile": ("GET POST", self._stop_profile),
            "/v1/chat/completions": ("POST", self._chat),
            "/v1/completions": ("POST", self._completions),
            "/generate": ("POST PUT", self._generate),
        }
        if not self.settings.since("0.5.21"):
            routes["/get_load"] = ("GET", self._old_loads)
        if self.settings.since("0.5.20"):
            routes["/ready"] = ("GET", self._ready)
        if self.settings.args["enable_metrics"] and not self.settings.faults.on("metrics-missing"):
            routes["/metrics"] = routes["/metrics/"] = ("GET", self._metrics)
        return routes

    async def handle(self, request: Request) -> Response:
        """Answer one request; whatever goes wrong becomes the reply that SGLang would give."""
        try:
            response = await self._dispatch(request)
        except HttpError as error:
            response = error_reply(error.status, str(error), "BadRequest")
        except EngineError as error:
            self.engine.log.line(f"[http_server] Error: {error}")
            response = generation_error(request.path, error)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            response = error_reply(400, f"Invalid request: {error!r}", "BadRequest")
        self.engine.metrics.http(request.path, request.method, response.status)
        return response

    async def _dispatch(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        if request.path.startswith("/v1/models/"):
            return self._model(request.path[len("/v1/models/") :])
        if request.path not in self._routes:
            return json_response({"detail": "Not Found"}, 404)
        methods, route = self._routes[request.path]
        if request.method not in methods.split():
            return json_response({"detail": "Method Not Allowed"}, 405)
        return await route(request)

    def _refused(self, request: Request) -> Response | None:
        """SGLang's rules for keys: health and metrics are open, admin endpoints may have their own key."""
        args = self.settings.args
        if request.method == "OPTIONS" or request.path.startswith(("/health", "/metrics", "/ready")):
            return None
        key = args["api_key"]
        if request.path in ADMIN and args["admin_api_key"]:
            key = args["admin_api_key"]
        if not key or bearer_matches(request.headers.get("authorization", ""), str(key)):
            return None
        return json_response({"error": "Unauthorized"}, 401)

    # ---- state

    async def _health(self, _request: Request) -> Response:
        faults = self.settings.faults
        if faults.on("health-hangs"):
            await forever()
        if self.state == STOPPING:
            self.engine.log.line("Health check request received during shutdown. Returning 503.")
        if self.state != UP or faults.on("stuck-503"):
            return Response(503)
        if not self.engine.running and not faults.on("health-ok-generation-hangs"):
            await self.warm(1)
        return Response(200)

    async def warm(self, tokens: int) -> Job:
        """Generate as a health check does: with a prefill that does not exist."""
        meeting = None if self.settings.mode == "unified" else Rendezvous(FAKE_BOOTSTRAP_HOST, 0, 0)
        (job,) = intake.spread({}, [plain_prompt([0])], intake.sampling_of({"temperature": 0}, tokens), 0)
        job.meeting, job.quiet = meeting, True
        async for _ in self.engine.generate(job):
            pass
        return job

    async def _ready(self, _request: Request) -> Response:
        return Response(200 if self.state == UP else 503)

    async def _ping(self, _request: Request) -> Response:
        return Response(200)

    async def _model_info(self, _request: Request) -> Response:
        return json_response(status.model_info(self.settings))

    async def _server_info(self, _request: Request) -> Response:
        return json_response(status.server_info(self.engine))

    async def _models(self, _request: Request) -> Response:
        return json_response({"object": "list", "data": [status.model_card(self.settings)]})

    def _model(self, name: str) -> Response:
        if name == self.settings.model_name:
            return json_response(status.model_card(self.settings))
        message = f"The model '{name}' does not exist"
        error = {
            "message": message,
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
        return json_response({"error": error}, 404)

    async def _loads(self, _request: Request) -> Response:
        if self.settings.faults.on("loads-500"):
            return text_response("Internal Server Error", 500)
        now = datetime.fromtimestamp(time.time(), timezone.utc).isoformat()  # noqa: UP017  (3.9 has no UTC)
        loads = [status.load(self.engine)]
        return json_response({"timestamp": now, "version": self.settings.release, "loads": loads})

    async def _old_loads(self, _request: Request) -> Response:
        return json_response(status.old_load(self.engine))

    async def _metrics(self, _request: Request) -> Response:
        page = self.engine.metrics.page(status.gauges(self.engine))
        return text_response(page, kind="text/plain; version=1.0.0; charset=utf-8")

    async def _flush(self, _request: Request) -> Response:
        busy = len(self.engine.running) + len(self.engine.queue)
        return text_response(f"Flush cache failed: {busy} requests\n", 400) if busy else text_response(FLUSHED)

    async def _abort(self, request: Request) -> Response:
        body = request.json()
        rids = list(self.engine.running) if body.get("abort_all") else [str(body.get("rid"))]
        for rid in rids:
            self.engine.abort(rid)
        return Response(200)

    async def _start_profile(self, request: Request) -> Response:
        refused = self.profiler.start(request.json() if request.body else {}, self.engine.made)
        return text_response("Internal Server Error", 500) if refused else text_response("Start profiling.\n")

    async def _stop_profile(self, _request: Request) -> Response:
        refused = self.profiler.stop(self.engine.made)
        if refused:
            return text_response("Internal Server Error", 500)
        return text_response("Stop profiling. This will take some time.\n")

    # ---- generation

    async def _chat(self, request: Request) -> Response:
        body = object_of(request)
        jobs = intake.chat_jobs(body, self._port())
        return await self._run(request, body, replies.ChatShape(body, jobs, self._model_of(body), self.settings.faults))

    async def _completions(self, request: Request) -> Response:
        body = object_of(request)
        jobs = intake.completion_jobs(body, self._port())
        return await self._run(
            request, body, replies.CompletionShape(body, jobs, self._model_of(body), self.settings.faults)
        )

    async def _generate(self, request: Request) -> Response:
        body = object_of(request)
        jobs = intake.generate_jobs(body, self._port())
        given = body.get("text") if body.get("text") is not None else body.get("input_ids")
        if body.get("rid") and len(jobs) == 1:
            jobs[0].rid = str(body["rid"])
        incremental = bool(self.settings.args["incremental_streaming_output"])
        shape = replies.GenerateShape(jobs, intake.is_batch(given) or len(jobs) > 1, incremental)
        return await self._run(request, body, shape)

    def _port(self) -> int:
        return int(self.settings.args["disaggregation_bootstrap_port"])

    def _model_of(self, body: dict[str, Any]) -> str:
        """SGLang echoes the name that the client sent."""
        wrong = self.settings.faults.on("wrong-model-name")
        return self.settings.model_name if wrong else str(body.get("model") or self.settings.model_name)

    def _admit(self, job: Job) -> None:
        try:
            self.engine.admit(job)
        except EngineError:
            if self.settings.faults.on("keeps-refused"):
                self.engine.refused.append(job.rid)
            raise

    async def _run(self, request: Request, body: dict[str, Any], shape: Any) -> Response:
        jobs: Sequence[Job] = shape.jobs
        for job in jobs:
            job.received = request.received
            self._admit(job)
        if not all(job.fake for job in jobs):
            await self.engine.take_in(jobs)
        if body.get("stream"):
            return await started(stream(self.engine, jobs, shape))
        texts = await asyncio.gather(*(collect(self.engine, job) for job in jobs))
        return json_response(shape.whole(texts))


async def collect(engine: Engine, job: Job) -> str:
    """A job's whole text."""
    async for _ in engine.generate(job):
        pass
    return "".join(job.tokens)


async def started(chunks: AsyncIterator[bytes]) -> Response:
    """Wait for the first chunk, so that a request that fails before it gets a status of its own."""
    return Response(200, await chunks.__anext__(), EVENTS, chunks)


async def stream(engine: Engine, jobs: Sequence[Job], shape: Any) -> AsyncIterator[bytes]:
    """The events of a reply."""
    faults, sent = engine.settings.faults, False
    try:
        async for job, tokens in merged(engine, jobs):
            sent = True
            yield events(faults, shape, job, tokens)
            if faults.on("truncated-stream") and (tokens is None or job.sent > 1):
                raise ConnectionCutError
    except EngineError as error:
        if not sent:
            raise
        yield replies.error_event(error.status, str(error))
    yield b"".join([*shape.closing(), b"" if faults.on("no-done") else replies.DONE])


def events(faults: Faults, shape: Any, job: Job, tokens: Sequence[str] | None) -> bytes:
    """What new tokens, or None for the end of a job, add to the stream: one event for each token."""
    ended = tokens is None
    if faults.on("streaming-one-chunk"):
        if not ended:
            return b""
        tokens = ["".join(job.tokens)]
    parts = [] if job.opened else shape.opening(job)
    job.opened = True
    parts += [shape.token(job, token) for token in tokens or ()]
    if ended and not faults.on("truncated-stream"):
        parts.append(shape.ending(job))
    if faults.on("stream-error") and not ended:
        parts.append(replies.error_event(500, "Internal server error: CUDA error"))
    return b"".join(parts)


async def merged(engine: Engine, jobs: Sequence[Job]) -> AsyncIterator[tuple[Job, Sequence[str] | None]]:
    """Tokens of all jobs in the order of time; (job, None) at the end of each."""
    if len(jobs) == 1:
        async for tokens in engine.generate(jobs[0]):
            yield jobs[0], tokens
        yield jobs[0], None
        return
    queue: asyncio.Queue[tuple[Job, Sequence[str] | None, EngineError | None]] = asyncio.Queue()
    tasks = [asyncio.ensure_future(pump(engine, job, queue)) for job in jobs]
    try:
        left = len(jobs)
        while left:
            job, piece, error = await queue.get()
            if error is not None:
                raise error
            left -= piece is None
            yield job, piece
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def pump(engine: Engine, job: Job, queue: asyncio.Queue[Any]) -> None:
    """Put one job's tokens into the common queue."""
    try:
        async for tokens in engine.generate(job):
            queue.put_nowait((job, tokens, None))
        queue.put_nowait((job, None, None))
    except EngineError as error:
        queue.put_nowait((job, None, error))


def object_of(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object, and said to be one where SGLang insists on it."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.path.startswith("/v1/") and media != "application/json":
        raise HttpError(400, "Unsupported Media Type: Only 'application/json' is allowed")
    body = request.json()
    if not isinstance(body, dict):
        raise HttpError(400, "The request body must be a JSON object.")
    return body


def bearer_matches(header: str, key: str) -> bool:
    """Compare a bearer token in constant time."""
    scheme, _, token = header.partition(" ")
    return scheme.lower() == "bearer" and secrets.compare_digest(token.encode(), key.encode())


def error_reply(code: int, message: str, kind: str) -> Response:
    """An error in the shape of SGLang's OpenAI endpoints."""
    return json_response({"object": "error", "message": message, "type": kind, "param": None, "code": code}, code)


def generation_error(path: str, error: EngineError) -> Response:
    """/generate has a shape of its own."""
    if path == "/generate":
        return Response(error.status, dump({"error": {"message": str(error)}}))
    return error_reply(error.status, str(error), error.kind)
