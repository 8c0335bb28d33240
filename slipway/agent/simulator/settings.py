"""What one simulated engine was started with: SGLang's flags, the checkpoint folder and SLIPWAY_SIM_*."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .faults import FaultError, Faults, parse_faults
from .server_args import ALIASES, DEFAULTS, TEXT

FAKE_BOOTSTRAP_HOST = "2.2.2.2"  # what SGLang's own health checks and warm-up name as their prefill
DEFAULT_CAPACITY = 262144
DEFAULT_RUNNING = 2048


class SettingsError(Exception):
    """A start that cannot work, in one line."""


@dataclass(frozen=True)
class Timing:
    """How long things take, in milliseconds; SLIPWAY_SIM_TIMING is a JSON object of these names."""

    prefill_base_ms: float = 2.0
    prefill_ms_per_token: float = 0.005
    prefill_slots: int = 0  # prompts computed at once; 0: no limit, so that TTFT does not depend on load
    decode_ms: float = 1.0
    decode_ms_per_running: float = 0.0  # added for each other running request
    transfer_base_ms: float = 1.0
    transfer_ms_per_token: float = 0.001
    transfer_kb_per_token: float = 12.0


@dataclass(frozen=True)
class Checkpoint:
    """A model folder: its config, the answers it knows, and what tells it from another model."""

    path: str
    config: Mapping[str, Any]
    answers: Mapping[str, str]
    fingerprint: str


@dataclass(frozen=True)
class Settings:
    """Everything that one engine process knows from its start on."""

    args: dict[str, Any]
    checkpoint: Checkpoint
    timing: Timing
    faults: Faults
    release: str
    load_s: float
    warmup_s: float
    drain_tick_s: float
    bootstrap_timeout_s: float
    advertised_ip: str
    environment: Mapping[str, str] = field(repr=False)

    @property
    def mode(self) -> str:
        """unified, prefill or decode: SGLang's 'null' is our unified."""
        mode = str(self.args["disaggregation_mode"])
        return "unified" if mode == "null" else mode

    @property
    def context_length(self) -> int:
        """The flag, or what the checkpoint says."""
        return int(self.args["context_length"] or self.checkpoint.config.get("max_position_embeddings") or 8192)

    @property
    def capacity(self) -> int:
        """Tokens that fit in the KV cache."""
        return int(self.args["max_total_tokens"] or DEFAULT_CAPACITY)

    @property
    def max_running(self) -> int:
        """Requests that decode together."""
        return int(self.args["max_running_requests"] or DEFAULT_RUNNING)

    @property
    def max_input(self) -> int:
        """The longest prompt that the scheduler takes."""
        return min(self.context_length - 1, self.capacity - 1) - 5

    @property
    def model_name(self) -> str:
        """The name in replies and metrics."""
        return "not-the-model" if self.faults.on("wrong-model-name") else str(self.args["served_model_name"])

    def since(self, release: str) -> bool:
        """Whether the simulated release is this one or newer."""
        return release_key(self.release) >= release_key(release)


def release_key(release: str) -> tuple[int, ...]:
    """0.5.13.post1 -> (0, 5, 13, 1)."""
    return tuple(int(number) for number in re.findall(r"\d+", release))


def read_settings(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read flags, environment and model folder; SettingsError says in one line what is wrong."""
    args = resolve_args(parse_flags(argv))
    try:
        faults = parse_faults(environment.get("SLIPWAY_SIM_FAULTS", ""))
    except FaultError as error:
        raise SettingsError(str(error)) from None
    return Settings(
        args=args,
        checkpoint=read_checkpoint(args["model_path"]),
        timing=read_timing(environment.get("SLIPWAY_SIM_TIMING", "")),
        faults=faults,
        release=environment.get("SLIPWAY_SIM_RELEASE", "0.5.13"),
        load_s=seconds(environment, "SLIPWAY_SIM_LOAD_S", 0.3),
        warmup_s=seconds(environment, "SLIPWAY_SIM_WARMUP_S", 0.2),
        drain_tick_s=seconds(environment, "SLIPWAY_SIM_DRAIN_TICK_S", 0.1),
        bootstrap_timeout_s=seconds(environment, "SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", 300),
        advertised_ip=advertised_ip(environment, faults),
        environment=dict(environment),
    )


def parse_flags(argv: Sequence[str]) -> dict[str, Any]:
    """SGLang's flags as snake_case names. Flags that no one knows are kept: they show in /server_info."""
    given: dict[str, list[str]] = {}
    name = ""
    for word in argv:
        if re.match(r"--?[a-zA-Z]", word):
            spelt, equals, value = word.lstrip("-").partition("=")
            name = ALIASES.get(spelt.replace("-", "_"), spelt.replace("-", "_"))
            given[name] = [value] if equals else []
        elif name:
            given[name].append(word)
        else:
            raise SettingsError(f"unexpected argument {word!r}: a flag begins with --")
    return {name: flag_value(name, words) for name, words in given.items()}


def flag_value(name: str, words: Sequence[str]) -> Any:
    """No word: a switch. One: a text or a number. More: a list of them."""
    if not words:
        return True
    values = [word if name in TEXT else number_or_text(word) for word in words]
    return values[0] if len(values) == 1 else values


def number_or_text(word: str) -> Any:
    """'8' -> 8, '0.9' -> 0.9, anything else as it is."""
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    return float(word) if re.fullmatch(r"-?\d*\.\d+", word) else word


def resolve_args(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what SGLang fills in, as its own server_args line and /server_info show it."""
    args = {**DEFAULTS, **given}
    if not given.get("model_path"):
        raise SettingsError("--model-path is required")
    args["tokenizer_path"] = args["tokenizer_path"] or args["model_path"]
    args["served_model_name"] = args["served_model_name"] or args["model_path"]
    args["random_seed"] = 42 if args["random_seed"] is None else args["random_seed"]
    if args["disaggregation_mode"] not in ("null", "prefill", "decode"):
        raise SettingsError(f"--disaggregation-mode {args['disaggregation_mode']}: must be null, prefill or decode")
    if args["disaggregation_mode"] == "prefill" and "load_balance_method" not in given:
        args["load_balance_method"] = "follow_bootstrap_room"
    if args["disaggregation_mode"] == "decode" and not args["disaggregation_decode_enable_radix_cache"]:
        args["disable_radix_cache"] = True
    if args["disaggregation_transfer_backend"] == "mooncake_tcp":
        args["disaggregation_transfer_backend"] = "mooncake"
    return args


def read_checkpoint(path: str) -> Checkpoint:
    """Read a model folder; one without config.json is refused, as the engine refuses it."""
    folder = Path(path)
    try:
        raw = (folder / "config.json").read_bytes()
        config = json.loads(raw)
    except OSError:
        raise SettingsError(f"--model-path {path}: no config.json there; it must be a checkpoint folder") from None
    except ValueError as error:
        raise SettingsError(f"--model-path {path}: config.json is not JSON: {error}") from None
    known = folder / "known_answers.json"
    answers = known.read_bytes() if known.is_file() else b"[]"
    fingerprint = hashlib.sha256(raw + b"\0" + answers).hexdigest()[:16]
    return Checkpoint(path, config, read_answers(known, answers), fingerprint)


def read_answers(path: Path, raw: bytes) -> dict[str, str]:
    """Read the list of {"question", "answer"} objects."""
    try:
        return {str(row["question"]): str(row["answer"]) for row in json.loads(raw)}
    except (ValueError, KeyError, TypeError):
        raise SettingsError(f'{path}: must be a list of {{"question": ..., "answer": ...}} objects') from None


def read_timing(text: str) -> Timing:
    """Read SLIPWAY_SIM_TIMING."""
    names = [column.name for column in fields(Timing)]
    try:
        values = json.loads(text or "{}")
        return Timing(**{str(name): values[name] for name in values})
    except (ValueError, TypeError):
        raise SettingsError(f"SLIPWAY_SIM_TIMING: must be a JSON object of {', '.join(names)}; got {text}") from None


def seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    """A duration from the environment."""
    try:
        return float(environment.get(name) or default)
    except ValueError:
        raise SettingsError(f"{name}: must be a number of seconds, got {environment[name]!r}") from None


def advertised_ip(environment: Mapping[str, str], faults: Faults) -> str:
    """The address prefill gives to decode: SGLANG_HOST_IP, HOST_IP, or the one that faces the network."""
    if faults.on("advertises-loopback"):
        return "127.0.0.1"
    return environment.get("SGLANG_HOST_IP") or environment.get("HOST_IP") or facing_ip()


def facing_ip() -> str:
    """The address that this host would use to reach others. Connecting a UDP socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def from_process(argv: Sequence[str]) -> Settings:
    """The settings of this process."""
    return read_settings(argv, os.environ)
