"""The table of log patterns: healthy logs raise no alarm, and each known trouble is told with its own cure."""

from pathlib import Path

import pytest

from slipway.agent.logs import read
from slipway.agent.simulator.logbook import KNOWN_BAD
from slipway.knowledge.log_patterns import matchers, most_telling, patterns, stalls, standstill
from slipway.logs import passing_after, verdict

DATA = Path(__file__).parents[2] / "data/logs"
HEALTHY = sorted(path.name for path in DATA.glob("*.log") if "failure" not in path.name)


def reading(path, **request):
    return read({"source": {"kind": "file", "path": str(path)}, "patterns": list(matchers()), **request})


def look_at(tmp_path, text):
    path = tmp_path / "x.log"
    path.write_text(text if text.endswith("\n") else text + "\n")
    return reading(path)


def test_every_row_has_what_a_reader_needs():
    assert len({row.id for row in (*patterns(), *stalls())}) == len(patterns()) + len(stalls())
    assert all(row.meaning and row.source for row in (*patterns(), *stalls()))


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_log_raises_no_alarm(name):
    found = reading(DATA / name)

    assert {
        key: match["line"] for key, match in found["matches"].items() if match["severity"] in ("error", "warning")
    } == {}
    assert verdict(found)[0]


def test_the_import_failure_is_explained():
    telling = most_telling(reading(DATA / "cpu-import_failure_0.5.16.log")["matches"])

    assert telling.id == "module-missing"
    assert "only releases with a CPU engine work" in telling.hint


def test_the_newest_throughput_is_read():
    assert reading(DATA / "h200-nixl_decode.log")["throughput"]["value"] > 0


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 3 has a total capacity of 184.00 GiB"
POOL = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.84"
TROUBLE = {
    OOM: "cuda-oom",
    POOL: "kv-pool-too-small",
    "Exception: Capture cuda graph failed: CUDA out of memory": "graph-capture-failed",
    "[2026-11-29 22:00:00 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3": "kv-pool-retracts",
    "ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library!": "kernel-library",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": "no-kernel-image",
    "RuntimeError: Ninja build failed. Ninja output: /bin/sh: 1: nvcc: not found": "jit-failed",
    "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist": "jit-failed",
    "[rank10]:[E130 18:11:34.7 ProcessGroupGloo.cpp:143] Gloo connectFullMesh failed with [pair.cc:144]": "gloo-mesh",
    "[rank0]:[E ProcessGroupNCCL.cpp:683] Watchdog caught collective operation timeout: WorkNCCL": "nccl-timeout",
    "[2026-11-29 22:00:00] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)": "watchdog",
    "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use": (
        "port-in-use"
    ),
    "E0511 07:42:36.355509 10240 rdma_context.cpp:198] Failed to register memory 0x2e1cbac200: Bad address [14]": (
        "memory-not-registered"
    ),
    "I0521 16:41:11.7 4064 transfer_metadata_dump.cpp:51] Failed to get segment descriptor for segment 10.1.2.3:1": (
        "segment-missing"
    ),
    "[2026-05-21 16:41:11 TP7] Prefill transfer failed for request rank=7 req.rid='x' with exception KVTransferError("
    "bootstrap_room=6): Transfer failed with status -1": "transfer-failed",
    "nixl._bindings.nixlBackendError: NIXL_ERR_REMOTE_DISCONNECT": "nixl-error",
    "RuntimeError: Page size mismatch: prefill server has page_size=1, but decode server has page_size=64.": (
        "settings-differ"
    ),
    "[2026-11-29 22:00:00] Error fetching prefill server info from bootstrap: timed out": "bootstrap-unreachable",
    "Initialization failed. warmup error: Traceback (most recent call last):": "warmup-failed",
    "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.": (
        "health-generation-stuck"
    ),
    "[2026-11-29 22:00:00] INFO:     127.0.0.1:1 - \"POST /generate HTTP/1.1\" 200 OK": None,
    "[2026-11-29 22:00:00] Decode transfer failed for request with exception KVTransferError(bootstrap_room=1): "
    "Aborted by AbortReq.": None,
    "[2026-11-29 22:00:00] Ignore import error when loading sglang.srt.models.x: No module named 'vllm'": None,
}  # fmt: skip


@pytest.mark.parametrize(("line", "pattern"), TROUBLE.items())
def test_a_line_is_told_for_what_it_is(tmp_path, line, pattern):
    alarms = {key for key, match in look_at(tmp_path, line)["matches"].items() if match["kind"] == "alarm"}

    assert alarms == ({pattern} if pattern else set())


def test_the_two_kinds_of_out_of_memory_have_opposite_cures(tmp_path):
    beside = most_telling(look_at(tmp_path, OOM)["matches"]).hint
    pool = most_telling(look_at(tmp_path, POOL)["matches"]).hint

    assert "Lower mem_fraction_static" in beside
    assert "Raise mem_fraction_static" in pool
    assert "makes this worse" in beside
    assert "makes this worse" in pool


@pytest.mark.parametrize("fault", KNOWN_BAD)
def test_each_log_fault_of_the_simulator_fails_the_rung(tmp_path, fault):
    found = verdict(look_at(tmp_path, KNOWN_BAD[fault]))

    assert (found.ok, found.warning) == ((True, True) if fault == "oom-log" else (False, False))
    assert "Line: " in found.detail


def test_the_cause_is_told_before_what_follows_from_it(tmp_path):
    text = f"Scheduler hit an exception: Traceback (most recent call last):\n  File x\n{OOM}\n"
    found = look_at(tmp_path, text + "Received sigquit from a child process. It usually means the child failed.")

    assert most_telling(found["matches"]).id == "cuda-oom"
    assert "Also in it: child-signalled, scheduler-exception" in verdict(found)[1]


def test_a_crash_after_a_harmless_warning_is_not_taken_for_its_tail(tmp_path):
    warning = "/srv/launch_server.py:9: UserWarning: old entry point\n  warnings.warn(\n"
    text = f"{warning}ModuleNotFoundError: No module named 'x'"

    assert set(look_at(tmp_path, text)["matches"]) == {"module-missing"}


@pytest.mark.parametrize(
    ("line", "stall"),
    [
        ("[2026-11-29 22:00:00] Init torch distributed begin.", "meeting-ranks"),
        ("[2026-11-29 22:00:00] Load weight begin. avail mem=139.13 GB", "reading-weights"),
        ("[2026-11-29 22:00:00] KV Cache is allocated. dtype: torch.bfloat16", "after-memory"),
        ("[2026-11-29 22:00:00] Start of pd disaggregation warmup ...", "warming-up"),
    ],
)
def test_where_a_start_stands_still(line, stall):
    assert standstill(line).id == stall


def match(**more):
    return {"count": 1, "kind": "alarm", "severity": "error", "line": "x", **more}


def test_what_a_restart_of_the_other_side_explains_is_told_and_no_error():
    found = {"new": 9, "matches": {"prefill-lost": match(age_s=30.0), "watchdog": match(age_s=30.0)}}
    passed = {"new": 9, "matches": {"prefill-lost": match(age_s=30.0)}}

    assert verdict(passed, passing_s=20.0) == (True, "9 line(s) read, none known-bad; of note: prefill-lost (1)", False)
    assert not verdict(passed, passing_s=40.0)[0]
    assert not verdict(passed, passing_s=20.0, later={"prefill-lost": {}})[0]
    assert "watchdog" in verdict(found, passing_s=20.0)[1]


def test_trouble_long_after_the_last_restart_is_never_passed_over():
    founds = [{"up_s": 3000.0}, {"up_s": 40.0}, {"up_s": None}]

    assert passing_after(founds, settle_s=25.0) == 15.0
    assert passing_after(founds, settle_s=60.0) == 0.0
    assert passing_after(founds[:1], settle_s=25.0) == 2975.0
    assert passing_after([], settle_s=25.0) == float("inf")


@pytest.mark.parametrize("name", ["h200-x2-stop_failure.log", "h200-x2-refused_failure.log"])
def test_a_stop_that_waits_for_what_the_engine_never_forgets_is_told_and_no_alarm(name):
    found = reading(DATA / name)

    assert "Slipway ends a worker that says it has nothing in hand" in most_telling(found["matches"]).hint
    assert verdict(found)[0]


def test_a_broken_loads_endpoint_is_no_alarm_of_its_own():
    found = reading(DATA / "h200-x2-blocked_failure.log")

    assert "_IncludedRouter" in (DATA / "h200-x2-blocked_failure.log").read_text()
    assert {key for key, match in found["matches"].items() if match["severity"] == "error"} == set()


def test_a_log_that_cannot_be_read_warns_and_puts_no_good_release_back():
    found = verdict({"error": "journalctl ended with -9"})

    assert (found.ok, found.warning) == (True, True)
    assert "could not be read: journalctl ended with -9" in found.detail
