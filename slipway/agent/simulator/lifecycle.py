"""The life of the process: load, listen, warm up, serve, drain, end - with the log lines of each phase."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

from .api import STOPPING, UNHEALTHY, UP, Api
from .engine import Engine
from .faults import Faults
from .logbook import KNOWN_BAD, Log
from .mischief import die, forever
from .settings import Settings
from .web import Request, Server

ORPHAN = "import time; time.sleep({seconds})"


class StartError(Exception):
    """The engine dies while it starts; the log has said why."""


class Life:
    """One engine process from start to end."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.log = Log(int(settings.args["tp_size"]))
        self.engine = Engine(settings, self.log)
        self.api = Api(self.engine)
        self.server = Server(self.api.handle, self._access, self.log.line)
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Live; returns the exit status. Releases before 0.5.19 do not return: they kill themselves."""
        self._announce()
        await self._load()
        await self._listen()
        await self._warm_up()
        await self._stop.wait()
        return await self._drain()

    def _access(self, request: Request, status: int) -> None:
        self.log.access(request.peer, f"{request.method} {request.path} {request.version}", status)

    # ---- start

    def _announce(self) -> None:
        args, faults = self.settings.args, self.settings.faults
        if faults.on("dies-at-start"):
            raise StartError("ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library!")
        self.log.line("This is slipway-simulator, not SGLang: its answers mean nothing.")
        shown = ", ".join(f"{name}={value!r}" for name, value in args.items())
        self.log.line(f"server_args=ServerArgs({shown})")
        if faults.on("orphan-scheduler"):
            code = ORPHAN.format(seconds=faults.number("orphan-scheduler"))
            subprocess.Popen([sys.executable, "-c", code], start_new_session=True)

    async def _load(self) -> None:
        """Everything before the port opens."""
        settings, faults = self.settings, self.settings.faults
        if self.engine.bootstrap is not None:
            await self.engine.bootstrap.start()
        self.log.scheduler("Init torch distributed begin.")
        if faults.on("nccl-hang"):
            await forever()
        self.log.scheduler("Init torch distributed ends. elapsed=0.16 s, mem usage=0.09 GB")
        self.log.scheduler("Load weight begin. avail mem=139.13 GB")
        await asyncio.sleep(settings.load_s + (faults.number("slow-start") if faults.on("slow-start") else 0))
        die_loading(faults)
        kind = (settings.checkpoint.config.get("architectures") or ["Unknown"])[0]
        self.log.scheduler(
            f"Load weight end. elapsed={settings.load_s:.2f} s, type={kind}, avail mem=139.10 GB, mem usage=0.03 GB."
        )
        self._log_memory()
        if faults.on("never-listens"):
            await forever()

    def _log_memory(self) -> None:
        settings, args = self.settings, self.settings.args
        tokens = settings.capacity
        self.log.scheduler(
            f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: 0.25 GB, V size: 0.25 GB"
        )
        self.log.scheduler(
            f"max_total_num_tokens={tokens}, chunked_prefill_size={args['chunked_prefill_size']}, "
            f"max_prefill_tokens={args['max_prefill_tokens']}, max_running_requests={settings.max_running}, "
            f"context_len={settings.context_length}, available_gpu_mem=138.49 GB"
        )

    async def _listen(self) -> None:
        host, port = str(self.settings.args["host"]), int(self.settings.args["port"])
        self.log.line(f"INFO:     Started server process [{os.getpid()}]")
        self.log.line("INFO:     Waiting for application startup.")
        if self.engine.bootstrap is not None:
            self.engine.bootstrap.register()
        self.log.line("INFO:     Application startup complete.")
        await self.server.listen(host, port)
        self.log.line(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)

    async def _warm_up(self) -> None:
        """A first generation; SGLang is healthy only after it."""
        disaggregated = self.settings.mode != "unified"
        if disaggregated:
            self.log.line("Start of pd disaggregation warmup ...")
        await asyncio.sleep(self.settings.warmup_s)
        if self.settings.faults.on("warmup-fails"):
            self.log.line(
                "Initialization failed. warmup error: Traceback (most recent call last):\nTimeoutError: timed out"
            )
            self._become(UNHEALTHY)
            return
        await self.api.warm(8 if self.settings.mode == "decode" else 1)
        if disaggregated:
            self.log.line("Disaggregation warmup request completed with status 200, resp: simulated")
            self.log.line("End of disaggregation warmup")
        self.log.line("The server is fired up and ready to roll!")
        self._become(UP)
        for name, text in KNOWN_BAD.items():
            if self.settings.faults.on(name) and name != "transfer-log":  # that one comes with requests
                self.log.scheduler(text)

    def _become(self, state: str) -> None:
        if self.api.state != STOPPING:
            self.api.state = state

    # ---- end

    def _on_signal(self) -> None:
        if self.settings.faults.on("ignores-sigterm"):
            return
        if self.settings.faults.on("cuts-at-sigterm"):
            die()
        self.log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self.api.state = STOPPING
        self._stop.set()

    async def _drain(self) -> int:
        """Wait for what runs, without a bound, as the engine does; it still serves new requests."""
        force = self.settings.environment.get("SGL_FORCE_SHUTDOWN") == "1"
        while (self.server.active or self.engine.refused) and not force:
            self._log_remaining()
            await asyncio.sleep(self.settings.drain_tick_s)
        self._log_remaining()
        if self.settings.since("0.5.19"):
            self.server.close()
            return 0
        self.log.line(f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=True, pid={os.getpid()}")
        return die()

    def _log_remaining(self) -> None:
        rids = [*self.engine.running, *self.engine.refused]
        self.log.line(
            f"Gracefully exiting... Remaining number of requests {len(rids)}. Remaining requests remaining_rids={rids}."
        )


def die_loading(faults: Faults) -> None:
    """The deaths that come while weights and memory are set up."""
    reasons = {
        "dies-loading": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has "
        "a total capacity of 139.81 GiB of which 1.12 GiB is free.",
        "oom-kv": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
        "Current value: mem_fraction_static=0.88",
        "jit-failure": "RuntimeError: Ninja build failed. Ninja output: /bin/sh: 1: nvcc: not found",
    }
    for name, reason in reasons.items():
        if faults.on(name):
            raise StartError(reason)


async def live(settings: Settings) -> int:
    """Run an engine to its end; a start that dies says why in the log and is exit status 1."""
    life = Life(settings)  # made inside the loop: before Python 3.10 events belong to the loop that runs
    try:
        return await life.run()
    except StartError as error:
        life.log.traceback(str(error))
        life.log.line("Received sigquit from a child process. It usually means the child failed.")
        return 1
    except OSError as error:
        life.log.line(f"ERROR:    {error}")
        return 1


def main_loop(settings: Settings) -> int:
    """The process of one engine."""
    started = time.monotonic()
    code = asyncio.run(live(settings))
    sys.stderr.write(f"simulated engine ended after {time.monotonic() - started:.1f} s\n")
    return code
