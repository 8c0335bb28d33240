"""Ratios for checkpoints: fetching against curl, verifying against sha256sum, and what looking at one costs.

usage: python benchmarks/checkpoint.py [--gb 2] [--shards 76] [--mb-per-s 0 15] [--parts fetch verify structure]

The server is tests/hub in a process of its own; each side fetches the same files from it in the same run, alternating,
eight side by side. --mb-per-s caps each connection, as a link does; 0 leaves the loopback free, where the client's own
cost shows most: on few cores that also serve the files, the hash has none to itself. Files are random, not sparse.
The structure check reads a folder shaped like a checkpoint of 149 GB (sparse, with real headers). Ratios are taken pair
by pair; their spread says how quiet the machine was.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway.agent.fetch_hub import Client  # noqa: E402
from slipway.agent.recheck import full, seal  # noqa: E402
from slipway.agent.state import look  # noqa: E402
from slipway.checkpoint import inspect, read_folder  # noqa: E402
from tests.hub.checkpoint import write_checkpoint  # noqa: E402

REPO, SIDE_BY_SIDE = "org/model", 8
PROVEN = ("-m", "slipway.agent.fetch")
# The same transfer without its hash: what is compared with curl, which proves nothing either. For measuring only.
UNPROVEN = (
    "-c",
    """
import sys
from slipway.agent import fetch, fetch_sink
fetch_sink.Sink._hash = lambda self, data: setattr(self, "come", self.come + len(data))
fetch_sink.Sink.wrong = ""
sys.exit(fetch.main(sys.argv[1:]))
""",
)


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(dir=given.dir) as place:
        folder = Path(place)
        source = write_checkpoint(folder / "source", given.shards, int(given.gb * 1e9 / given.shards))
        if "fetch" in given.parts:
            for rate in given.mb_per_s:
                print(f"links of {rate:g} MB/s a connection" if rate else "loopback, free")
                with served(source, rate) as url:
                    transfers(url, folder, given.runs, warm=not rate)
        else:
            with served(source) as url:
                fetched(url, folder / "checkpoint")
        verification(folder / "checkpoint", given.runs) if "verify" in given.parts else None
        structure(folder / "large") if "structure" in given.parts else None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gb", type=float, default=2.0)
    parser.add_argument("--shards", type=int, default=76)
    parser.add_argument(
        "--mb-per-s", type=float, nargs="+", default=[0.0, 15.0], help="caps of each connection in turn, 10^6 bytes"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--parts", nargs="*", default=["fetch", "verify", "structure"])
    parser.add_argument("--dir", help="where the files go; default: the temporary folder")
    return parser.parse_args()


@contextlib.contextmanager
def served(source: Path, mb_per_s: float = 0) -> Iterator[str]:
    """The address of a server of the files, in a process of its own."""
    command = [sys.executable, "-m", "tests.hub.server", REPO, str(source), str(int(mb_per_s * 1e6))]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip()
    finally:
        server.communicate("")


def transfers(url: str, folder: Path, runs: int, warm: bool) -> None:
    """Fetch, curl, and fetch without the proof that curl lacks, in turns; medians. warm: one round is not counted."""
    client = Client(url, REPO)
    commit = client.commit("main")
    files = client.files(commit)
    size = sum(size for size, _ in files.values())
    request = {"repo": REPO, "commit": commit, "endpoint": url, "files": files, "workers": SIDE_BY_SIDE}
    calls = {
        "curl": lambda: curl(url, commit, files, folder / "curl"),
        "sha256sum": lambda: sha256sum(folder / "curl"),
        "unproven": lambda: fetch(request, folder / "unproven", UNPROVEN),
        "checkpoint": lambda: fetch(request, folder / "checkpoint"),
    }
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for number in range(-warm, runs):
        for name in calls if number % 2 == 0 else reversed_pairs(calls):
            made_ready(folder / name, size) if name != "sha256sum" else None
            took = cpu(calls[name])
            rows[name] += [took] if number >= 0 else []
    print(f"{size / 1e9:.2f} GB in {len(files)} files, {runs} runs, medians; {os.cpu_count()} cores")
    compared(rows, size)


def reversed_pairs(calls: Iterable[str]) -> list[str]:
    """The other way round; but what curl fetched is there before it is hashed."""
    return [*list(calls)[:1:-1], "curl", "sha256sum"]


def compared(rows: dict[str, list[tuple[float, float]]], size: int) -> None:
    """Times, CPU and ratios of one link."""
    seconds = {name: [row[0] for row in found] for name, found in rows.items()}
    spent = {name: [row[1] for row in found] for name, found in rows.items()}
    both = [a + b for a, b in zip(seconds["curl"], seconds["sha256sum"], strict=True)]
    told("curl", seconds["curl"], size, spent["curl"])
    told("fetch, nothing proven", seconds["unproven"], size, spent["unproven"])
    told("curl, then sha256sum", both, size)
    told("fetch, every byte proven", seconds["checkpoint"], size, spent["checkpoint"])
    ratio("transfer: fetch / curl", seconds["curl"], seconds["unproven"], "neither proves a byte")
    ratio("fetch / curl", seconds["curl"], seconds["checkpoint"], "proof included in fetch, not in curl")
    ratio("fetch / (curl + sha256sum)", both, seconds["checkpoint"])


def made_ready(folder: Path, size: int) -> None:
    """An empty place; and neither side pays for what the other one left to be written to the disk.

    Nor for memory: a virtual machine may hand free pages back to its host within seconds, and whoever writes a file
    then waits for them to come again. So as many bytes as the call will write, `size`, are written and dropped before.
    """
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()
    with tempfile.TemporaryFile(dir=folder.parent, buffering=0) as file:
        for _ in range(0, size, 1 << 20):
            file.write(bytes(1 << 20))


def fetched(url: str, folder: Path) -> None:
    """One fetch, for what is to be measured on the files."""
    client = Client(url, REPO)
    commit = client.commit("main")
    files = client.files(commit)
    fetch({"repo": REPO, "commit": commit, "endpoint": url, "files": files, "workers": SIDE_BY_SIDE}, folder)


def ratio(name: str, theirs: Sequence[float], ours: Sequence[float], note: str = "") -> None:
    """Pair by pair, as throughput: above 1 we are faster."""
    pairs = sorted(a / b for a, b in zip(theirs, ours, strict=True))
    spread = f"{pairs[0]:.2f} to {pairs[-1]:.2f}"
    print(f"{name + ':':28} {statistics.median(pairs):.2f}  ({spread}{'; ' + note if note else ''})")


def timed(call: object) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def told(name: str, seconds: Sequence[float], size: int, spent: Sequence[float] = ()) -> None:
    middle = statistics.median(seconds)
    own = f", {statistics.median(spent):.2f} s of CPU" if spent else ""
    print(f"{name + ':':28} {middle:.2f} s, {size / middle / 1e6:.0f} MB/s{own}")


def curl(url: str, commit: str, files: dict, target: Path) -> None:
    """The same files, as many side by side, resolved by the same server."""
    target.mkdir()
    lines = [f'url = "{url}/{REPO}/resolve/{commit}/{name}"\noutput = "{target / name}"' for name in files]
    words = ["curl", "-sSfL", "--no-progress-meter", "--parallel", "--parallel-max", str(SIDE_BY_SIDE), "-K", "-"]
    subprocess.run(words, input="\n".join(lines), text=True, check=True)


def fetch(request: dict[str, object], target: Path, program: Sequence[str] = PROVEN) -> None:
    """As the host's job runs it."""
    path = target.with_suffix(".request")
    path.write_text(json.dumps({**request, "path": str(target)}))
    subprocess.run(
        [sys.executable, *program, str(path)],
        cwd=ROOT,
        env=compiled(target.parent),
        stdout=subprocess.DEVNULL,
        check=True,
    )


def compiled(folder: Path) -> dict[str, str]:
    """An environment in which Python finds its bytecode, as on hosts, where the gate of a build has written it.

    The checkout's tests forbid Python to write any, and each start then compiles what it imports.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    if not (folder / "bytecode").exists():
        once = "import httpcore2, slipway.agent.fetch, huggingface_hub.file_download"
        subprocess.run([sys.executable, "-c", once], cwd=ROOT, env=env, check=True)
    return env


def sha256sum(folder: Path, words: tuple[str, ...] = ("sha256sum",)) -> None:
    """Every file, a process a core with four files each."""
    names = sorted(str(path) for path in folder.iterdir() if path.is_file())
    run = ["xargs", "-d", "\n", "-n", "4", "-P", str(len(os.sched_getaffinity(0))), *words]
    subprocess.run(run, input="\n".join(names), text=True, stdout=subprocess.DEVNULL, check=True)


def recheck(folder: Path) -> None:
    """As a host does it: a program of its own, with its start."""
    words = [sys.executable, "-m", "slipway.agent.recheck", "full", str(folder)]
    subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def verification(folder: Path, runs: int) -> None:
    """A full verification against the usual tools in parallel, in turns, and a look per 100 files.

    coreutils' sha256sum is built with OpenSSL on some systems and without on others, where `openssl dgst` is faster.
    """
    seal(str(folder))
    calls = {
        "sha256sum in parallel": lambda: sha256sum(folder),
        "openssl dgst in parallel": lambda: sha256sum(folder, ("openssl", "dgst", "-sha256")),
        "verify --full": lambda: recheck(folder),
        "the same without its start": lambda: full(str(folder)),
    }
    took, spent = {name: [] for name in calls}, {name: [] for name in calls}
    for at in range(runs):
        for name in sorted(calls, reverse=bool(at % 2)):  # nobody always comes after the same
            wall, own = cpu(calls[name])
            took[name].append(wall)
            spent[name].append(own)
    assert full(str(folder))["problems"] == []
    for name, seconds in took.items():
        print(f"{name + ':':28} {statistics.median(seconds):.2f} s, {statistics.median(spent[name]):.2f} s of CPU")
    for theirs in list(calls)[:2]:
        ratio(f"verify / {theirs.split()[0]}", took[theirs], took["verify --full"])
        ratio("  in CPU time", spent[theirs], spent["verify --full"])
    count, (whole, spent_s) = look(str(folder))["files"], cpu(lambda: look(str(folder)))
    print(f"recheck per 100 files:       {whole * 1e5 / count:.1f} ms, {spent_s * 1e5 / count:.1f} ms of CPU")


def cpu(call: object) -> tuple[float, float]:
    """Seconds, and CPU seconds of this process and of those it ran, which other work on the machine changes less."""
    before = spent_so_far()
    took = timed(call)
    return took, spent_so_far() - before


def spent_so_far() -> float:
    rows = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(row.ru_utime + row.ru_stime for row in rows)


def structure(folder: Path, tensors: int = 140_000, shards: int = 76, size: float = 149e9) -> None:
    """Headers, index and dtypes of a checkpoint as large as the largest in use, on the host and on the controller."""
    write_large(folder, tensors, shards, int(size / tensors) // 2 * 2)
    bytes_ = sum(path.stat().st_size for path in folder.iterdir())
    rows = [cpu(lambda: inspect(read_folder(folder))) for _ in range(3)]
    assert not [one for one in inspect(read_folder(folder)).findings if one.severity == "error"]
    middle = sorted(spent for _, spent in rows)[1]
    print(f"structure of {bytes_ / 1e9:.0f} GB:         {middle:.2f} s of CPU ({tensors} tensors in {shards} files)")


def write_large(folder: Path, tensors: int, shards: int, size: int) -> None:
    """Sparse shards with whole headers, and the index over them."""
    write_checkpoint(folder, 0)
    names: dict[str, str] = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        own = [f"model.layers.{at // 2400}.mlp.experts.{at % 2400}.w.weight" for at in range(number, tensors, shards)]
        header = json.dumps({
            name: {"dtype": "BF16", "shape": [size // 2], "data_offsets": [at * size, (at + 1) * size]}
            for at, name in enumerate(own)
        }).encode()  # fmt: skip
        with (folder / file).open("wb") as out:
            out.write(len(header).to_bytes(8, "little") + header)
            out.truncate(8 + len(header) + len(own) * size)
        names.update(dict.fromkeys(own, file))
    index = {"metadata": {"total_size": tensors * size}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    main()
