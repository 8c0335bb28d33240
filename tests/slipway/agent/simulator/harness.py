"""Start simulated engines as real processes on free loopback ports, and talk to them as a client would."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
QUESTION = "What is 17*23? Answer with the number only."
SENTENCE = "What is the capital of France?"
SENTENCE_ANSWER = "The capital of France is Paris."
ANSWERS = [{"question": QUESTION, "answer": "391"}, {"question": SENTENCE, "answer": SENTENCE_ANSWER}]
PORTS = random.SystemRandom().sample(range(23000, 29000), 6000)  # other processes draw from them as well
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 2048}


def make_model(folder: Path, answers: list[dict[str, str]] | None = None) -> Path:
    """A model folder: a config and known answers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "known_answers.json").write_text(json.dumps(ANSWERS if answers is None else answers))
    return folder


def free_port() -> int:
    """A port that nobody listens on, given once.

    It is below those that the kernel takes for connections, any of which could have it before it is listened on.
    """
    while True:
        port = PORTS.pop()
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port


class Reply:
    """An HTTP reply, read whole."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.json["choices"][0]["message"]["content"]

    @property
    def events(self) -> list[Any]:
        """The events of a stream; [DONE] stays text."""
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


def ask(
    port: int, path: str, body: Any = None, timeout: float = 5, method: str = "", at: str = "127.0.0.1", **headers: str
) -> Reply:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(at, port, timeout=timeout)
    try:
        payload = None if body is None else json.dumps(body)
        sent = {"content-type": "application/json", **headers} if payload else headers
        connection.request(method or ("POST" if body is not None else "GET"), path, payload, sent)
        response = connection.getresponse()
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def chat_body(question: str = QUESTION, **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": question}], "temperature": 0, **more}


def chat(port: int, question: str = QUESTION, timeout: float = 5, **more: Any) -> Reply:
    return ask(port, "/v1/chat/completions", chat_body(question, **more), timeout)


class Simulator:
    """One process."""

    def __init__(self, model: Path, log: Path, faults: str, flags: tuple[str, ...], env: dict[str, str]) -> None:
        self.port = free_port()
        self.log_path = log
        base = ["--model-path", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1"]
        python = [sys.executable, "-S"]  # no site packages: quicker, and the simulator must not need them
        command = [*python, "-m", "slipway.agent.simulator", *base, "--port", str(self.port), *flags]
        quick = {"SLIPWAY_SIM_LOAD_S": "0", "SLIPWAY_SIM_WARMUP_S": "0", "SGLANG_HOST_IP": "127.0.0.1",
                 "SLIPWAY_URL": f"http://127.0.0.1:{self.port}"}  # fmt: skip
        environment = {**os.environ, **quick, "SLIPWAY_SIM_FAULTS": faults, **env}
        with log.open("wb") as sink:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=sink, stdout=sink)

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait_ready(self, timeout: float = 10) -> Simulator:
        """Until /health is 200."""
        deadline = time.monotonic() + timeout
        while self.health() != 200:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)
        return self

    def health(self) -> int:
        """The status of /health; 0 while the port is closed."""
        try:
            return ask(self.port, "/health", timeout=2).status
        except OSError:
            return 0

    def wait_log(self, text: str, timeout: float = 5) -> str:
        """Until a text is in the log."""
        deadline = time.monotonic() + timeout
        while text not in self.log:
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.log}"
            time.sleep(0.02)
        return self.log

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
