"""The shapes of generation replies: chat, completions and /generate, whole and streamed.

Every one says that it is simulated: `system_fingerprint`, `metadata.simulated`, and `meta_info` in /generate.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from .engine import Job, describe
from .faults import Faults
from .text import token_id
from .web import dump

MARK: dict[str, Any] = {
    "system_fingerprint": "slipway-simulator",
    "metadata": {"simulated": True, "engine": "slipway-simulator", "weight_version": "default"},
}
HOLE = "\0hole\0"  # where a chunk's text goes; no JSON text holds a bare NUL
DONE = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + dump(value) + b"\n\n"


def error_event(status: int, message: str) -> bytes:
    """An error in the middle of a stream."""
    return event({"error": {"object": "error", "message": message, "type": "InternalServerError", "code": status}})


def usage_of(jobs: Sequence[Job], faults: Faults, samples: int) -> dict[str, Any]:
    """Token counts of a reply; a prompt counts once however many samples it has."""
    prompt = sum(job.prompt.tokens for job in jobs if job.index % samples == 0)
    completion = sum(job.sent for job in jobs) + (10 if faults.on("usage-wrong") else 0)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }


class OpenAiShape:
    """What chat and completions share."""

    whole_object = ""
    chunk_object = ""

    def __init__(self, body: Mapping[str, Any], jobs: Sequence[Job], model: str, faults: Faults) -> None:
        self.jobs = jobs
        self.faults = faults
        self.samples = max(1, int(body.get("n") or 1))
        self.counted = bool((body.get("stream_options") or {}).get("include_usage"))
        self._top = {"id": uuid.uuid4().hex, "created": int(time.time()), "model": model}
        self._templates: dict[int, tuple[bytes, bytes]] = {}

    def choice(self, job: Job, text: str) -> dict[str, Any]:
        """One choice of a whole reply."""
        raise NotImplementedError

    def delta(self, text: str | None) -> dict[str, Any]:
        """The part of a chunk's choice that carries text; None at the end."""
        raise NotImplementedError

    def whole(self, texts: Sequence[str]) -> Any:
        """The reply that is not streamed."""
        choices = [self.choice(job, texts[job.index]) for job in self.jobs]
        usage = usage_of(self.jobs, self.faults, self.samples)
        return {**self._top, "object": self.whole_object, "choices": choices, "usage": usage, **MARK}

    def opening(self, _job: Job) -> list[bytes]:
        """What comes before a job's first token."""
        return []

    def token(self, job: Job, token: str) -> bytes:
        """One token as an event. Made from a template: this runs for every token of every stream."""
        if job.index not in self._templates:
            parts = self._chunk([self._part(job, HOLE)]).split(json.dumps(HOLE).encode())
            self._templates[job.index] = (parts[0], parts[1])
        before, after = self._templates[job.index]
        return before + dump(token) + after

    def ending(self, job: Job) -> bytes:
        """A job's last event: why it ended."""
        part = {**self._part(job, None), "finish_reason": job.finish, "matched_stop": job.matched}
        return self._chunk([part])

    def closing(self) -> list[bytes]:
        """What comes after all jobs: the usage, if it was asked for."""
        return [self._chunk([], usage_of(self.jobs, self.faults, self.samples))] if self.counted else []

    def _part(self, job: Job, text: str | None) -> dict[str, Any]:
        rest = {"logprobs": None, "finish_reason": None, "matched_stop": None}
        return {"index": job.index, **self.delta(text), **rest}

    def _chunk(self, choices: Sequence[Any], usage: Any = None) -> bytes:
        return event({**self._top, "object": self.chunk_object, "choices": choices, "usage": usage, **MARK})


class ChatShape(OpenAiShape):
    """/v1/chat/completions."""

    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def choice(self, job: Job, text: str) -> dict[str, Any]:
        """An assistant message."""
        message = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
        return {
            "index": job.index,
            "message": message,
            "logprobs": None,
            "finish_reason": job.finish,
            "matched_stop": job.matched,
        }

    def delta(self, text: str | None) -> dict[str, Any]:
        """A piece of the message."""
        return {"delta": {"role": None, "content": text, "reasoning_content": None, "tool_calls": None}}

    def opening(self, _job: Job) -> list[bytes]:
        """A chat stream begins with the role."""
        part = self._part(_job, "")
        part["delta"]["role"] = "assistant"
        return [self._chunk([part])]


class CompletionShape(OpenAiShape):
    """/v1/completions."""

    whole_object = "text_completion"
    chunk_object = "text_completion"

    def choice(self, job: Job, text: str) -> dict[str, Any]:
        """A text."""
        return {
            "index": job.index,
            "text": text,
            "logprobs": None,
            "finish_reason": job.finish,
            "matched_stop": job.matched,
        }

    def delta(self, text: str | None) -> dict[str, Any]:
        """A piece of the text."""
        return {"text": text or ""}


class GenerateShape:
    """/generate: SGLang's own shape; a stream repeats the whole text in each event."""

    def __init__(self, jobs: Sequence[Job], batch: bool, incremental: bool) -> None:
        self.jobs = jobs
        self._batch = batch
        self._shown: dict[int, list[str]] = {}
        self._incremental = incremental

    def whole(self, texts: Sequence[str]) -> Any:
        """One object, or a list of them."""
        outs = [self._out(job, texts[job.index], job.tokens) for job in self.jobs]
        return outs if self._batch else outs[0]

    def opening(self, _job: Job) -> list[bytes]:
        """Nothing comes before the first token."""
        return []

    def token(self, job: Job, token: str) -> bytes:
        """The text so far, or only what is new."""
        self._shown[job.index] = [*self._shown.get(job.index, []), token]
        shown = [token] if self._incremental else self._shown[job.index]
        return event({"index": job.index, **self._out(job, "".join(shown), shown)})

    def ending(self, job: Job) -> bytes:
        """The last event of a job repeats its text with the reason of its end."""
        shown = [] if self._incremental else job.tokens
        return event({"index": job.index, **self._out(job, "".join(shown), shown)})

    def closing(self) -> list[bytes]:
        """Usage is in every event already."""
        return []

    def _out(self, job: Job, text: str, tokens: Sequence[str]) -> dict[str, Any]:
        reason: dict[str, Any] | None = None
        if job.finish == "length":
            reason = {"type": "length", "length": job.sent}
        elif job.finish:
            reason = {"type": "stop", "matched": job.matched}
        meta = {
            **describe(job),
            "finish_reason": reason,
            "weight_version": "default",
            "num_retractions": 0,
            "cached_tokens": 0,
            "e2e_latency": time.monotonic() - job.received,
            "simulated": True,
        }
        return {"text": text, "output_ids": [token_id(token) for token in tokens], "meta_info": meta, **MARK}
