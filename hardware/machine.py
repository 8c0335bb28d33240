"""The machine that hardware.h200 runs on: Slipway's commands as a user types them, and what is seen around them."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import io
import json
import shutil
import struct
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from slipway.agent.manifest import write
from slipway.agent.state import parent_of

CHECKOUT = Path(__file__).resolve().parents[1]
EXAMPLE = CHECKOUT / "examples/h200-x2"
DEPLOYMENT = "h200"
AGGREGATED, DISAGGREGATED = "aggregated.py", "inventory.py"
Data = dict[str, Any]
LOG_BYTES = 1_000_000  # of each worker's log; the end counts
LOAD_S = 500  # at most; a load ends with what it runs beside
AROUND_S = 5  # of load before and after
SILENCE_S = 60  # without a byte, after which a client gives a request up


class StageError(Exception):
    """What a stage saw that it must not see."""


@dataclass
class Machine:
    """Where the run takes place. data: overrides that every command has. took: what each command took, seconds."""

    packed: Path
    out: Path
    scratch: Path
    root: Path
    simulated: bool
    data: dict[str, Any]
    took: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, options: argparse.Namespace) -> Machine:
        """With the overrides that this machine's number of GPUs asks for."""
        for folder in (options.out, options.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        asked = dict(item.split("=", 1) for item in options.data)
        data = {key: _value(text) for key, text in asked.items()}
        if options.simulated:
            data = {"engine.kind": "simulator", "engine.base_python": None, "engine.python": None, **data}
        else:
            wheels = str(options.packed / "wheels")
            data = {"engine.wheelhouse": wheels, "engine.lock": str(EXAMPLE / "engine.txt"), **data}
        data = {"root": str(options.root), **_on_one_gpu(), **data}
        return cls(options.packed, options.out, options.scratch, options.root, options.simulated, data)

    @property
    def python(self) -> Path:
        """That Slipway runs with."""
        return Path(sys.executable) if self.simulated else CHECKOUT / ".venv/bin/python"

    @property
    def torch_python(self) -> str:
        """That has torch."""
        return sys.executable

    @property
    def home(self) -> Path:
        """Of the deployment."""
        return self.root / "deployments" / DEPLOYMENT

    def make_environment(self) -> None:
        """Slipway's own packages, from the wheels that were brought. Raises StageError."""
        if self.simulated:
            return
        packages = sorted(str(path) for path in (self.packed / "controller").glob("*.whl"))
        self.run(sys.executable, "-m", "venv", "--without-pip", "--clear", str(CHECKOUT / ".venv"), name="environment")
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "-q", "--no-index", "--no-deps"]
        self.run(*pip, *packages, name="Slipway's packages")
        self.run(*pip, "--no-build-isolation", "-e", str(CHECKOUT), name="Slipway")

    def run(self, *words: str, name: str, fails: bool = False) -> str:
        """One command, its output kept; its text. Raises StageError when it ends otherwise than expected."""
        began = time.monotonic()
        done = subprocess.run(
            words, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False,
        )  # fmt: skip
        self.note(name, time.monotonic() - began, rc=done.returncode)
        with (self.out / "commands.log").open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(words)}\n{done.stdout}\n# {json.dumps(self.took[-1])}\n\n")
        if (done.returncode != 0) is not fails:
            tail = "\n    ".join(done.stdout.splitlines()[-40:])
            raise StageError(f"{name} ended with {done.returncode}:\n    {tail}")
        return done.stdout

    def pyinfra(
        self, playbook: str, what: str, inventory: str = DISAGGREGATED, fails: bool = False, data: Data | None = None
    ) -> str:
        """One run of pyinfra as a user types it."""
        merged = {**self.data, **(data or {})}
        overrides = [word for key, value in merged.items() for word in ("--data", f"{key}={json.dumps(value)}")]
        words = [str(self.python), "-m", "pyinfra", "-y", *overrides, str(EXAMPLE / inventory), playbook]
        return self.run(*words, name=what, fails=fails)

    def note(self, what: str, seconds: float, **more: Any) -> None:
        """Something that took its time."""
        self.took.append({"what": what, "seconds": round(seconds, 1), **more})
        print("  ", json.dumps(self.took[-1]), flush=True)

    # --- what is seen around it -----------------------------------------------------------------------------

    def plan(self) -> dict[str, Any]:
        """Of the current release."""
        text = (self.home / "current/plan.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    def release(self) -> str:
        """Its number."""
        return (self.home / "current").readlink().name

    def router(self) -> str:
        """Where clients ask."""
        return str(next(one["serves_at"] for one in self.plan()["instances"] if one["role"] == "router"))

    def model(self) -> str:
        """What clients call it."""
        return str(next(host["checkpoint"]["served_name"] for host in self.plan()["hosts"] if host["checkpoint"]))

    def ask(self, question: str, timeout: float = 30) -> str:
        """An answer at temperature 0; what came instead, when there is none."""
        host, port = self.router().removeprefix("http://").split(":")
        body = {"model": self.model(), "temperature": 0, "max_tokens": 128,
                "messages": [{"role": "user", "content": question}]}  # fmt: skip
        try:
            connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read().decode()
            return str(json.loads(text)["choices"][0]["message"]["content"]).strip() if reply.status == 200 else text
        except (OSError, http.client.HTTPException) as error:
            return f"no answer: {type(error).__name__}"

    def keep_answers(self, name: str) -> dict[str, str]:
        """What the deployment answers to every known question, kept under a name."""
        rows = json.loads((CHECKOUT / "models/tiny/known_answers.json").read_text(encoding="utf-8"))
        found = {row["question"]: self.ask(row["question"]) for row in rows}
        (self.out / f"answers-{name}.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        (self.scratch / f"answers-{name}.json").write_text(json.dumps(found), encoding="utf-8")
        right = sum(found[row["question"]] == row["answer"].strip() for row in rows)
        self.took.append({"what": f"answers {name}", "right": right, "of": len(rows)})
        return found

    def answers(self, name: str) -> dict[str, str]:
        """As kept; also by an earlier call."""
        found: dict[str, str] = json.loads((self.scratch / f"answers-{name}.json").read_text(encoding="utf-8"))
        return found

    @contextlib.contextmanager
    def load(self, name: str) -> Iterator[None]:
        """Sixteen streams in a closed loop, before, during and after what happens inside; what was lost is kept."""
        end = self.scratch / f"load-{name}.end"
        end.unlink(missing_ok=True)
        words = ["--url", self.router(), "--model", self.model(), "--streams", "16", "--until", str(end)]
        words += ["--duration", str(LOAD_S), "--input", "128", "--output", "64", "--silence", str(SILENCE_S)]
        words += ["--rows", str(self.scratch / f"load-{name}.jsonl")]
        with (self.scratch / f"load-{name}.json").open("wb") as file:
            client = subprocess.Popen([sys.executable, "-m", "slipway.agent.load", *words], cwd=CHECKOUT, stdout=file,
                                      stderr=subprocess.DEVNULL)  # fmt: skip
            try:
                time.sleep(AROUND_S)
                yield
                time.sleep(AROUND_S)
            finally:
                end.touch()
                client.wait(SILENCE_S + 60)
        self._served(name)

    def _served(self, name: str) -> None:
        """What the load saw: requests, lost ones, and the longest time in which none was answered."""
        rows = [json.loads(line) for line in (self.scratch / f"load-{name}.jsonl").open(encoding="utf-8")]
        ends = sorted(row["end"] for row in rows if not row["error"])
        gap = max((after - before for before, after in pairwise(ends)), default=0.0)
        errors = Counter(row["error"] for row in rows if row["error"])
        self.note(f"load {name}: longest without an answer", gap, requests=len(rows), lost=dict(errors))

    def processes(self) -> dict[int, str]:
        """Processes of the deployment: pid to instance."""
        found = {}
        for pid in filter(str.isdigit, (path.name for path in Path("/proc").iterdir())):
            marks = _marks(int(pid))
            if marks.get("SLIPWAY_DEPLOYMENT") == DEPLOYMENT:
                found[int(pid)] = marks.get("SLIPWAY_INSTANCE", "")
        return found

    def pid(self, instance: str) -> int:
        """Its main process: the one whose parent is none of its own. Raises StageError."""
        ours = {pid for pid, name in self.processes().items() if name == instance}
        mains = [pid for pid in ours if parent_of(pid) not in ours]
        if not mains:
            raise StageError(f"{instance} has no process")
        return min(mains)

    def damaged_model(self, name: str) -> Path:
        """models/tiny with the weights of its last tensor turned round, and a manifest that agrees."""
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(CHECKOUT / "models/tiny", folder)
        path = folder / "model.safetensors"
        data = bytearray(path.read_bytes())
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + size])
        start, end = header["model.layers.1.mlp.down_proj.weight"]["data_offsets"]
        for at in range(8 + size + start + 1, 8 + size + end, 2):
            data[at] ^= 0x80  # the sign of each bfloat16
        path.write_bytes(data)
        (folder / "manifest.json").unlink()
        write(str(folder))
        return folder

    # --- what comes back ------------------------------------------------------------------------------------

    def record(self, stage: str, seconds: float, error: str) -> None:
        """One line a stage."""
        with (self.out / "stages.jsonl").open("a", encoding="utf-8") as file:
            row = {"stage": stage, "seconds": round(seconds, 1), "error": error, "took": self.took}
            file.write(json.dumps(row) + "\n")
        self.took = []

    def collect(self) -> None:
        """Releases, logs and results in one archive: machines give back a few files only."""
        with tarfile.open(self.out / "deployment.tar.xz", "w:xz") as archive:
            for name in ("releases", "bench", "audit.jsonl", "logs"):
                for path in sorted((self.home / name).rglob("*")) if (self.home / name).is_dir() else []:
                    if path.is_file():
                        self._add(archive, path)
            for path in sorted((CHECKOUT / "examples/h200-x2").glob("bench/**/*")):
                if path.is_file():
                    self._add(archive, path, "controller")
            for path in sorted(self.scratch.glob("load-*.json*")):
                self._add(archive, path, "scratch")

    def _add(self, archive: tarfile.TarFile, path: Path, top: str = "host") -> None:
        base = {"host": self.home, "controller": EXAMPLE, "scratch": self.scratch}[top]
        info = tarfile.TarInfo(f"{top}/{path.relative_to(base)}")
        data = path.read_bytes()[-LOG_BYTES:]
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _on_one_gpu() -> dict[str, Any]:
    """Overrides for a machine with one GPU, which prefill and decode then share."""
    listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=False).stdout
    if len(listed.splitlines()) != 1:
        return {}
    return {"hardware": "1xH200", "worker.share_gpus": True, "prefill.gpus": [0], "decode.gpus": [0]}


def _marks(pid: int) -> dict[str, str]:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if entry.startswith("SLIPWAY_") and "=" in entry)
