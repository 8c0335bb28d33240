"""The simulated engine: admission, the timing model, and what each role does with a request.

Prefill computes the state of a prompt and waits until decode has fetched it. Decode answers from what it
fetched and from nothing else. Unified does both. Sleeps run to absolute deadlines, so that times do not drift
under load.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from .bootstrap import Bootstrap
from .corruption import active, corrupt
from .logbook import Log
from .metrics import Metrics
from .mischief import EngineError, Mischief, forever
from .settings import FAKE_BOOTSTRAP_HOST, Settings
from .text import Answer, Prompt, Sampling, compose, finish_answer
from .transfer import Receiver, Rendezvous

DECODE_LOG_INTERVAL = 40


@dataclass
class Job:
    """One sequence to generate, and what came of it so far."""

    prompt: Prompt
    sampling: Sampling
    meeting: Rendezvous | None = None
    rid: str = field(default_factory=lambda: uuid.uuid4().hex)
    index: int = 0
    finish: str = ""
    matched: str | int | None = None
    tokens: list[str] = field(default_factory=list)
    opened: bool = False
    quiet: bool = False  # health checks and warm-up do not count in the metrics
    aborted: bool = False
    placed: bool = False  # holds one of the --max-running-requests places
    received: float = field(default_factory=time.monotonic)
    admitted: float = 0.0  # when it left the queue; 0 if it did not wait

    @property
    def sent(self) -> int:
        """How many tokens there are so far."""
        return len(self.tokens)

    @property
    def fake(self) -> bool:
        """Health checks and warm-up of a disaggregated engine name a prefill that does not exist."""
        return self.meeting is not None and self.meeting.host == FAKE_BOOTSTRAP_HOST


class Engine:
    """One engine process behind its HTTP server."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self.log = log
        self.metrics = Metrics(settings.mode, settings.model_name)
        self.bootstrap = Bootstrap(settings, log) if settings.mode == "prefill" else None
        self.receiver = Receiver(settings, log)
        self.mischief = Mischief(settings.faults, log)
        self.running: dict[str, Job] = {}
        self.refused: list[str] = []  # kept for ever, with the fault keeps-refused
        self.queue: deque[asyncio.Future[None]] = deque()
        self.coming: set[str] = set()  # taken in, and neither running nor waiting yet
        self.transferring = 0
        self.throughput = 0.0
        self._slots = settings.max_running
        self._prompts = asyncio.Semaphore(settings.timing.prefill_slots or 1_000_000)
        self._prompts_free = 0.0  # when the last of the prefill places became free
        self._last_answer: Answer | None = None
        self.made = 0  # tokens since the start
        self._since_log = 0
        self._logged = time.monotonic()

    # ---- admission

    def admit(self, job: Job) -> None:
        """Refuse what the engine refuses before any work."""
        limit, tokens, faults = self.settings.context_length, job.prompt.tokens, self.settings.faults
        if self.settings.mode != "unified" and job.meeting is None:
            text = "Invalid request: Disaggregated request received without bootstrap room id. "
            text += f"req.rid='{job.rid}'"
            self.log.scheduler(text)
            raise EngineError(400, text)
        if faults.on("accepts-over-limit"):
            return
        if tokens >= limit:
            raise EngineError(
                400,
                f"The input ({tokens} tokens) is longer than the model's context length ({limit} tokens).",
            )
        wanted = job.sampling.max_tokens or 0
        if tokens + wanted > limit:
            raise EngineError(400, over_total(limit, tokens, wanted))
        if tokens > self.settings.max_input:
            raise EngineError(
                400,
                f"Input length ({tokens} tokens) exceeds the maximum allowed length "
                f"({self.settings.max_input} tokens). Use a shorter input or enable --allow-auto-truncate.",
            )

    async def take_in(self, jobs: Sequence[Job]) -> None:
        """What befalls a client's request on its way in, by how many are there, those that came with it included."""
        busy = len(self.running) + len(self.queue) + len(self.coming)
        self.coming.update(job.rid for job in jobs)
        try:
            await self.mischief.before(busy, len(jobs))
        except BaseException:
            self.coming.difference_update(job.rid for job in jobs)
            raise

    @asynccontextmanager
    async def _slot(self, job: Job) -> AsyncIterator[None]:
        """Hold one of --max-running-requests places, first come first served; what is done gives it back earlier."""
        started = time.monotonic()
        self.coming.discard(job.rid)
        if self._slots <= 0:
            await self._wait()
            job.admitted = time.monotonic()
        else:
            self._slots -= 1
        self.running[job.rid], job.placed = job, True
        self.metrics.observe("queue_time_seconds", time.monotonic() - started)
        try:
            yield
        finally:
            del self.running[job.rid]
            self._give_place_back(job)

    def _give_place_back(self, job: Job) -> None:
        if job.placed:
            job.placed = False
            self._release()

    async def _wait(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the place came together with the cancellation
            elif turn in self.queue:
                self.queue.remove(turn)
            raise

    def _release(self) -> None:
        while self.queue:
            turn = self.queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._slots += 1

    def abort(self, rid: str) -> None:
        """End a running request where it is, as /abort_request asks."""
        if rid in self.running:
            self.running[rid].aborted = True

    # ---- roles

    async def generate(self, job: Job) -> AsyncIterator[Sequence[str]]:
        """The tokens of one job in the groups in which they fall due; `job.finish` is set with the last."""
        async with self._slot(job):
            source = self._fake(job) if job.fake else getattr(self, f"_{self.settings.mode}")(job)
            async for tokens in source:
                job.tokens.extend(tokens)
                self._count_tokens(job, len(tokens))
                yield tokens
        self._count_end(job)

    async def _unified(self, job: Job) -> AsyncIterator[Sequence[str]]:
        answer = self._answer(job, job.prompt, ())
        await self._compute(job)
        async for tokens in self._emit(job, answer):
            yield tokens

    async def _prefill(self, job: Job) -> AsyncIterator[Sequence[str]]:
        assert self.bootstrap is not None and job.meeting is not None
        room = job.meeting.room
        damage = active(self.settings.faults, job.prompt, len(self.running))
        try:
            await self._compute(job)
            # What waits to be fetched is in the inflight queue and not in the running batch (SGLang 0.5.13,
            # srt/disaggregation/prefill.py). If it kept its place, prefill and decode would wait for one another.
            self._give_place_back(job)
            started = time.monotonic()
            state = {"prompt": asdict(job.prompt), "faults": damage}
            await self.bootstrap.rooms.hand_over(room, state, self.settings.bootstrap_timeout_s)
            self._count_transfer(job, time.monotonic() - started)
        finally:
            self.bootstrap.rooms.leave(room)
        job.finish = "length"
        yield self._answer(job, job.prompt, ()).tokens[:1] or [""]

    async def _decode(self, job: Job) -> AsyncIterator[Sequence[str]]:
        assert job.meeting is not None
        self.transferring += 1
        started = time.monotonic()
        try:
            state = await self.receiver.fetch(job.meeting)
            await asyncio.sleep(self._transfer_time(job))
        finally:
            self.transferring -= 1
        self.metrics.observe("kv_transfer_bootstrap_ms", (time.monotonic() - started) * 1000)
        self.metrics.observe("kv_transfer_alloc_ms", 0.1)
        answer = self._answer(job, Prompt(**state["prompt"]), tuple(state["faults"]))
        async for tokens in self._emit(job, answer):
            yield tokens

    async def _fake(self, job: Job) -> AsyncIterator[Sequence[str]]:
        job.finish = "length"
        yield [""] * (job.sampling.max_tokens or 1)

    # ---- time

    async def _compute(self, job: Job) -> None:
        """Take the time that a prompt of this length takes, counted from its arrival."""
        timing = self.settings.timing
        start = (job.admitted or job.received) + self._extra_wait()
        async with self._prompts:
            if timing.prefill_slots:
                start = max(start, self._prompts_free)
            done = start + (timing.prefill_base_ms + timing.prefill_ms_per_token * job.prompt.tokens) / 1000
            await sleep_until(done)
            self._prompts_free = done
        self._log_prefill(job)

    def _extra_wait(self) -> float:
        faults = self.settings.faults
        return faults.number("slow-first-token") if faults.on("slow-first-token") else 0.0

    def _transfer_time(self, job: Job) -> float:
        timing = self.settings.timing
        return (timing.transfer_base_ms + timing.transfer_ms_per_token * job.prompt.tokens) / 1000

    def _step(self) -> float:
        """How long one token takes with the requests that run now."""
        timing, faults = self.settings.timing, self.settings.faults
        step = timing.decode_ms + timing.decode_ms_per_running * (len(self.running) - 1)
        return (step + (faults.number("slow-tokens") if faults.on("slow-tokens") else 0.0)) / 1000

    async def _emit(self, job: Job, answer: Answer) -> AsyncIterator[Sequence[str]]:
        """Each token at its time; those that fell due together come together: a late loop catches up."""
        job.matched = answer.matched
        faults, total, position = self.settings.faults, len(answer.tokens), 0
        stall = int(faults.number("stalls-mid-stream")) if faults.on("stalls-mid-stream") else total
        deadline = time.monotonic()
        while position < total and not job.aborted:
            if position >= stall:
                await forever()
            await sleep_until(deadline)
            step, now, first = self._step(), time.monotonic(), position
            while position < min(stall, total) and (position == first or deadline <= now):
                position, deadline = position + 1, deadline + step
            if position == total:
                job.finish = answer.finish
            yield answer.tokens[first:position]
        job.finish = "abort" if job.aborted else answer.finish

    # ---- text

    def _answer(self, job: Job, prompt: Prompt, damage: tuple[str, ...]) -> Answer:
        """The answer to a prompt; `damage` are the text faults that prefill left in the state."""
        sampling, faults = job.sampling, self.settings.faults
        if faults.on("ignores-stop"):
            sampling = Sampling(**{**asdict(sampling), "stops": ()})
        answer = compose(prompt, sampling, self.settings.checkpoint.answers, self._room(job))
        names = [*damage, *(name for name in active(faults, prompt, len(self.running)) if name not in damage)]
        if names:
            answer = corrupt(answer, names, prompt, sampling)
        if faults.on("crossed-answers"):
            answer, self._last_answer = self._last_answer or answer, answer
        if sampling.max_tokens is not None and len(answer.tokens) > sampling.max_tokens:
            answer = finish_answer("".join(answer.tokens), (), sampling.max_tokens)
        return answer

    def _room(self, job: Job) -> int:
        return max(1, self.settings.context_length - job.prompt.tokens)

    # ---- counting

    def _count_tokens(self, job: Job, new: int) -> None:
        if job.quiet:
            return
        now = time.monotonic()
        if job.sent == new:
            self.metrics.observe("time_to_first_token_seconds", now - job.received)
        self._since_log += new
        self.made += new
        if self._since_log >= DECODE_LOG_INTERVAL * max(1, len(self.running)) and self.settings.mode != "prefill":
            self._log_decode(now)

    def _count_end(self, job: Job) -> None:
        if job.quiet or job.fake:
            return
        spent = time.monotonic() - job.received
        self.metrics.count("num_requests_total")
        self.metrics.count("prompt_tokens_total", job.prompt.tokens)
        self.metrics.count("generation_tokens_total", job.sent)
        self.metrics.observe("e2e_request_latency_seconds", spent)
        self.metrics.observe("prompt_tokens_histogram", job.prompt.tokens)
        self.metrics.observe("generation_tokens_histogram", job.sent)
        if job.sent > 1:
            self.metrics.observe("inter_token_latency_seconds", self._step())

    def _count_transfer(self, job: Job, spent: float) -> None:
        megabytes = job.prompt.tokens * self.settings.timing.transfer_kb_per_token / 1024
        self.metrics.observe("kv_transfer_latency_ms", spent * 1000)
        self.metrics.observe("kv_transfer_total_mb", megabytes)
        self.metrics.observe("kv_transfer_speed_gb_s", megabytes / 1024 / max(spent, 1e-6))
        self.metrics.observe("kv_transfer_bootstrap_ms", spent * 1000)
        self.metrics.observe("kv_transfer_alloc_ms", 0.1)

    def usage(self) -> int:
        """Tokens in the KV cache now."""
        return sum(job.prompt.tokens + job.sent for job in self.running.values())

    def _log_prefill(self, job: Job) -> None:
        share = self.usage() / self.settings.capacity
        pd = ""
        if self.bootstrap is not None:
            pd = f" #bootstrap-req: {len(self.bootstrap.rooms)}, #inflight-req: {len(self.running)},"
        spent = max(1e-6, time.monotonic() - job.received)
        self.log.scheduler(
            f"Prefill batch, #new-seq: 1, #new-token: {job.prompt.tokens}, #cached-token: 0, "
            f"token usage: {share:.2f}, #running-req: {len(self.running) - 1}, "
            f"#queue-req: {len(self.queue)}, #pending-token: 0,{pd} cuda graph: False, "
            f"input throughput (token/s): {job.prompt.tokens / spent:.2f}"
        )

    def _log_decode(self, now: float) -> None:
        self.throughput = self._since_log / max(1e-6, now - self._logged)
        self._since_log, self._logged = 0, now
        used = self.usage()
        self.log.scheduler(
            f"Decode batch, #running-req: {len(self.running)}, #token: {used}, token usage: "
            f"{used / self.settings.capacity:.2f}, cuda graph: True, "
            f"gen throughput (token/s): {self.throughput:.2f}, #queue-req: {len(self.queue)}"
        )


def over_total(limit: int, tokens: int, wanted: int) -> str:
    """SGLang's own words for a prompt that fits and an answer that does not."""
    return (
        f"Requested token count exceeds the model's maximum context length of {limit} tokens. You requested "
        f"a total of {tokens + wanted} tokens: {tokens} tokens from the input messages and {wanted} tokens "
        "for the completion. Please reduce the number of tokens in the input messages or the completion to "
        "fit within the limit."
    )


async def sleep_until(deadline: float) -> None:
    """Sleep to a point in time; when it has passed, only let the others run."""
    await asyncio.sleep(max(0.0, deadline - time.monotonic()))


def describe(job: Job) -> dict[str, Any]:
    """The counts of a finished or running job, as /generate's meta_info shows them."""
    return {"id": job.rid, "prompt_tokens": job.prompt.tokens, "completion_tokens": job.sent}
