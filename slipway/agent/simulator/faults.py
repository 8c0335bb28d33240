"""The faults that the simulator can show, as one table, and the reader of SLIPWAY_SIM_FAULTS.

`source` is the row of reported_faults.md (or the section of the engine facts) that a fault rehearses.
What a fault does lives where it shows: `mischief.py` (requests and processes), `corruption.py` (texts),
and a line in the module that owns the surface (start-up, bootstrap, transfer, replies).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One row: the name that switches it on, what a client sees, its source, and the value it takes."""

    name: str
    does: str
    source: str
    value: str = ""


class FaultError(Exception):
    """SLIPWAY_SIM_FAULTS names something that is not in the table."""


FAULTS: tuple[Fault, ...] = (
    # start-up
    Fault("dies-at-start", "exits 1 at once with an ImportError of sgl_kernel in the log", "56"),
    Fault("dies-loading", "exits 1 after loading with torch.OutOfMemoryError in the log", "71"),
    Fault("oom-kv", "exits 1 after loading: not enough memory for the KV cache", "71"),
    Fault("jit-failure", "exits 1 after loading: nvcc not found by the JIT", "59"),
    Fault("never-listens", "loads for ever: alive, the port stays closed", "63"),
    Fault("nccl-hang", "hangs after 'Init torch distributed begin.': alive, the port stays closed", "47"),
    Fault("slow-start", "loads this much longer", "6, 63", "SECONDS=5"),
    Fault("stuck-503", "/health answers 503 for ever", "1"),
    Fault(
        "warmup-fails",
        "the warm-up fails: the process stays alive, /health 503, a traceback in the log",
        "E2",
    ),
    Fault("orphan-scheduler", "leaves a child in its own session when it ends", "65", "SECONDS=20"),
    # answers
    Fault("wrong-answer", "every answer is fluent and wrong", "40"),
    Fault("garbage", "every answer is random words of other languages", "39"),
    Fault("repetition", "every answer repeats one word up to the limit", "41"),
    Fault("nan", "every answer is '!!!!', as logits of NaN give", "40"),
    Fault("empty-output", "every answer is empty, finish_reason stop", "39"),
    Fault("non-utf8", "answers hold bytes that are not UTF-8", "41"),
    Fault("replacement-chars", "answers hold U+FFFD, as a broken detokenizer gives", "41"),
    Fault("nondeterministic", "the same prompt at temperature 0 answers differently each time", "41"),
    Fault("long-prompt-garbage", "garbage for prompts longer than this", "35", "TOKENS=512"),
    Fault("second-page-garbage", "garbage for prompts that need a second KV page", "15", "PAGE=64"),
    Fault("busy-garbage", "garbage while more requests than this run", "16", "REQUESTS=8"),
    Fault("crossed-answers", "a request gets the answer of the one before it", "16"),
    # protocol
    Fault("finish-reason-wrong", "finish_reason is length where it should be stop, and stop for length", "39"),
    Fault("usage-wrong", "usage counts ten completion tokens too many", "39"),
    Fault("ignores-stop", "stop strings do nothing", "39"),
    Fault("truncated-stream", "streams are cut in the middle, without the last chunk", "22"),
    Fault("no-done", "streams end without data: [DONE]", "22"),
    Fault("stream-error", "streams carry an error event after the first token", "25"),
    Fault("streaming-one-chunk", "a stream is one chunk at its end", "41"),
    Fault("slow-first-token", "the first token comes this much later", "34", "SECONDS=2"),
    Fault("slow-tokens", "each token takes this much longer", "34", "MS=50"),
    Fault("stalls-mid-stream", "stops after this many tokens and hangs", "68", "TOKENS=5"),
    Fault("accepts-over-limit", "prompts longer than the context are answered", "70"),
    Fault("wrong-model-name", "/v1/models and replies name another model", "5"),
    Fault("server-info-differs", "/server_info shows another tp_size and attention backend than asked for", "48"),
    Fault("metrics-missing", "/metrics is 404 although it was asked for", "24"),
    Fault("loads-500", "/v1/loads answers 500, as on the CPU engine", "cpu_engine"),
    # load
    Fault("hang-n2", "requests with n > 1 hang", "18"),
    Fault("hang-after", "every generation after this many hangs; /health stays 200", "26", "REQUESTS=10"),
    Fault("drops-every-nth", "every n-th connection is closed without an answer", "4", "N=10"),
    Fault(
        "burst-loses",
        "connections beyond this many running are closed without an answer",
        "12",
        "REQUESTS=64",
    ),
    Fault("500-on-burst", "requests beyond this many running answer 500", "12", "REQUESTS=64"),
    Fault("crash-on-burst", "the process dies when more than this many run", "12", "REQUESTS=128"),
    Fault("queue-full", "requests beyond this many running answer 503", "4", "REQUESTS=64"),
    Fault("dies-at-first-request", "loads, is healthy, dies on the first real forward pass", "38"),
    Fault(
        "watchdog-kills",
        "the first real request hangs, then the watchdog kills the process",
        "63",
        "SECONDS=2",
    ),
    Fault("health-ok-generation-hangs", "/health stays 200, /health_generate too, nothing is generated", "66"),
    Fault("health-hangs", "/health does not answer", "66"),
    # PD
    Fault("bootstrap-never-registers", "prefill's bootstrap /route answers 503 for ever", "9"),
    Fault("advertises-loopback", "prefill tells decode to come to 127.0.0.1", "9"),
    Fault("advertises-unroutable", "prefill tells decode to come to an address nobody has", "10"),
    Fault("reports-page-size", "prefill's /route reports this page size", "15", "PAGE=64"),
    Fault("reports-kv-dtype", "prefill's /route reports this kv_cache_dtype", "16", "DTYPE=fp8_e4m3"),
    Fault("transfer-fails", "HTTP is 200 with an empty answer while KVTransferError is in the log", "33"),
    Fault("transfer-errors", "requests after this many fail with 500 and KVTransferError", "25", "REQUESTS=0"),
    Fault("transfer-hangs", "decode waits for its state in silence, for ever", "13, 35"),
    Fault("transfer-slow", "the transfer takes this much longer", "34", "SECONDS=1"),
    Fault("transfer-corrupts", "decode gets a state that was damaged on the way", "16"),
    Fault("stale-prefill", "decode keeps the address of a prefill that was replaced", "19, 20"),
    # known-bad lines in the log of a server that answers well
    Fault("nccl-timeout-log", "an NCCL watchdog time-out in the log", "63"),
    Fault("watchdog-log", "a scheduler watchdog time-out in the log", "63"),
    Fault("jit-failure-log", "a failed JIT compilation in the log", "59, 61"),
    Fault("oom-log", "an out-of-memory retraction in the log", "68"),
    Fault("transfer-log", "a KVTransferError in the log with every fifth request, all of which are answered", "25"),
    # the end
    Fault("ignores-sigterm", "SIGTERM changes nothing", "65"),
    Fault("keeps-refused", "a clean stop waits for ever for requests that were refused", "h200"),
    Fault("cuts-at-sigterm", "SIGTERM ends the process at once, cutting streams", "65"),
)

TABLE: dict[str, Fault] = {fault.name: fault for fault in FAULTS}


class Faults:
    """The faults that are switched on, with their values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def on(self, name: str) -> bool:
        """Whether a fault is on. A name outside the table is a mistake in the simulator itself."""
        return TABLE[name].name in self._values

    def text(self, name: str) -> str:
        """A fault's value: the one given, or the default that its row shows after '='."""
        return self._values.get(name) or TABLE[name].value.partition("=")[2]

    def number(self, name: str) -> float:
        """A fault's value as a number."""
        return float(self.text(name))

    def beyond(self, name: str, measure: float) -> bool:
        """Whether a fault with a threshold is on and the measure is above it."""
        return self.on(name) and measure > self.number(name)


def parse_faults(text: str) -> Faults:
    """Read 'name,name=value'."""
    values: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        check_fault(name, value)
        values[name] = value
    return Faults(values)


def check_fault(name: str, value: str) -> None:
    """Refuse a name that no row has, and a word where a number belongs."""
    if name not in TABLE:
        near = difflib.get_close_matches(name, TABLE, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; --list-faults shows them all"
        raise FaultError(f"SLIPWAY_SIM_FAULTS: no fault is called {name!r}{hint}")
    kind = TABLE[name].value.partition("=")[0]
    if value and not kind:
        raise FaultError(f"SLIPWAY_SIM_FAULTS: {name} takes no value, got {value!r}")
    if value and kind != "DTYPE":
        try:
            float(value)
        except ValueError:
            raise FaultError(f"SLIPWAY_SIM_FAULTS: {name}={value}: {kind} must be a number") from None


def fault_table() -> str:
    """The table as aligned text, for --list-faults."""
    width = max(len(f"{fault.name}={fault.value}") for fault in FAULTS)
    rows = (
        f"{fault.name}={fault.value}".rstrip("=").ljust(width) + f"  {fault.does} [{fault.source}]" for fault in FAULTS
    )
    return "\n".join(rows)
