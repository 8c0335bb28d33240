"""From a request body to jobs: prompts, samples, limits, and where each sample meets its prefill."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from .engine import Job
from .mischief import EngineError
from .text import Prompt, Sampling, chat_prompt, plain_prompt
from .transfer import Rendezvous

COMPLETION_TOKENS = 16  # the default of /v1/completions
GENERATE_TOKENS = 128  # the default of /generate
_salt = itertools.count()


def chat_jobs(body: Mapping[str, Any], default_port: int) -> list[Job]:
    """The jobs of a chat."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise EngineError(400, "Messages cannot be empty.", "BadRequestError")
    if not all(isinstance(message, dict) for message in messages):
        raise EngineError(400, "Messages must be objects.", "BadRequestError")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return spread(body, [chat_prompt(messages)], sampling_of(body, limit), default_port)


def completion_jobs(body: Mapping[str, Any], default_port: int) -> list[Job]:
    """The jobs of /v1/completions: a text, token ids, or a list of either."""
    if not body.get("prompt"):
        raise EngineError(400, "Prompt cannot be empty", "BadRequestError")
    limit = COMPLETION_TOKENS if body.get("max_tokens") is None else body["max_tokens"]
    return spread(body, prompts_of(body["prompt"]), sampling_of(body, limit), default_port)


def generate_jobs(body: Mapping[str, Any], default_port: int) -> list[Job]:
    """The jobs of /generate, SGLang's own endpoint."""
    given = body.get("text") if body.get("text") is not None else body.get("input_ids")
    if not given:
        raise EngineError(400, "Either text, input_ids or input_embeds should be provided.")
    several = body.get("sampling_params") or {}
    params: Mapping[str, Any] = several[0] if isinstance(several, list) else several
    sampling = sampling_of(params, params.get("max_new_tokens", GENERATE_TOKENS))
    return spread({**body, "n": params.get("n", 1)}, prompts_of(given), sampling, default_port)


def is_batch(given: Any) -> bool:
    """Whether a prompt field holds several prompts."""
    return isinstance(given, list) and bool(given) and isinstance(given[0], (str, list))


def prompts_of(given: Any) -> list[Prompt]:
    """One prompt or several."""
    return [plain_prompt(item) for item in given] if is_batch(given) else [plain_prompt(given)]


def sampling_of(body: Mapping[str, Any], limit: Any) -> Sampling:
    """The sampling parameters that matter here."""
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise EngineError(400, f"max_new_tokens must be at least 0, got {limit}.")
    stop = body.get("stop") or ()
    temperature = body.get("temperature")
    return Sampling(
        max_tokens=limit,
        min_tokens=int(body.get("min_tokens") or body.get("min_new_tokens") or 0),
        ignore_eos=bool(body.get("ignore_eos")),
        stops=(stop,) if isinstance(stop, str) else tuple(str(item) for item in stop),
        salt="" if temperature == 0 else str(body.get("seed") or f"random {next(_salt)}"),
    )


def spread(body: Mapping[str, Any], prompts: Sequence[Prompt], sampling: Sampling, default_port: int) -> list[Job]:
    """One job for each prompt and sample, in the order of the reply's choices."""
    samples = int(body.get("n") or 1)
    jobs = []
    for index in range(len(prompts) * samples):
        place, sample = divmod(index, samples)
        room = room_of(body.get("bootstrap_room"), index, len(prompts), samples)
        meeting = meeting_of(body, place, room, default_port)
        salted = Sampling(**{**sampling.__dict__, "salt": f"{sampling.salt}#{sample}" if sample else sampling.salt})
        jobs.append(Job(prompts[place], salted, meeting, index=index))
    return jobs


def room_of(rooms: Any, index: int, prompts: int, samples: int) -> int | None:
    """A job's bootstrap room. One room for several jobs is counted up, so that both sides agree."""
    place, sample = divmod(index, samples)
    if rooms is None:
        return None
    if not isinstance(rooms, list):
        return int(rooms) + index
    if len(rooms) >= prompts * samples:
        return int(rooms[index])
    return int(rooms[place % len(rooms)]) + sample


def meeting_of(body: Mapping[str, Any], place: int, room: int | None, default_port: int) -> Rendezvous | None:
    """Where a job meets its prefill; None for a request that no router has prepared."""
    if room is None:
        return None
    host, port = pick(body.get("bootstrap_host"), place), pick(body.get("bootstrap_port"), place)
    return Rendezvous(str(host or ""), int(port or default_port), room)


def pick(value: Any, place: int) -> Any:
    """One value for all, or a list with one for each prompt."""
    return value[place % len(value)] if isinstance(value, list) and value else value
