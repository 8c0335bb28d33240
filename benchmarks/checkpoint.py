"""Ratios for checkpoints: fetching against curl, verifying against sha256sum, and what a recheck costs.

usage: python benchmarks/checkpoint.py [--gb 2] [--shards 76] [--mb-per-s 0]

The server is tests/hub in a process of its own; each side fetches the same files from it in the same run, alternating,
eight side by side. --mb-per-s caps each connection, as a link does; 0 leaves the loopback free, where the client's own
cost shows most. Files are random, not sparse. CPU seconds are those of the client alone.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway.agent.fetch_hub import Client  # noqa: E402
from slipway.agent.recheck import full, seal  # noqa: E402
from slipway.agent.state import look  # noqa: E402
from tests.hub.checkpoint import write_checkpoint  # noqa: E402

REPO, SIDE_BY_SIDE = "org/model", 8


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(dir=given.dir) as place:
        folder = Path(place)
        source = write_checkpoint(folder / "source", given.shards, int(given.gb * 1e9 / given.shards))
        command = [sys.executable, "-m", "tests.hub.server", REPO, str(source), str(int(given.mb_per_s * 1e6))]
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().strip()
            transfers(url, folder, given.runs)
            verification(folder / "checkpoint", given.runs)
        finally:
            server.communicate("")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gb", type=float, default=2.0)
    parser.add_argument("--shards", type=int, default=76)
    parser.add_argument("--mb-per-s", type=float, default=0.0, help="cap of each connection, 10^6 bytes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", help="where the files go; default: the temporary folder")
    return parser.parse_args()


def transfers(url: str, folder: Path, runs: int) -> None:
    """Fetch (with proof of every byte) and curl in turns; medians."""
    client = Client(url, REPO)
    commit = client.commit("main")
    files = client.files(commit)
    size = sum(size for size, _ in files.values())
    ours, theirs, hashed = [], [], []
    for _ in range(runs):
        theirs.append(timed(lambda: curl(url, commit, files, folder / "curl")))
        hashed.append(timed(lambda: sha256sum(folder / "curl")))
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        ours.append(timed(lambda: fetch(url, commit, files, folder)))
    print(f"{size / 1e9:.2f} GB in {len(files)} files, {runs} runs, medians; {os.cpu_count()} cores")
    middle = statistics.median
    told("curl", middle(theirs), size)
    told("curl, then sha256sum", middle([a + b for a, b in zip(theirs, hashed, strict=True)]), size)
    told("fetch, every byte proven", middle(ours), size)
    print(f"fetch / curl:                {middle(theirs) / middle(ours):.2f}  (proof included in fetch, not in curl)")
    both = middle([a + b for a, b in zip(theirs, hashed, strict=True)])
    print(f"fetch / (curl + sha256sum):  {both / middle(ours):.2f}")


def timed(call: object) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def told(name: str, seconds: float, size: int) -> None:
    print(f"{name + ':':28} {seconds:.2f} s, {size / seconds / 1e6:.0f} MB/s")


def curl(url: str, commit: str, files: dict, target: Path) -> None:
    """The same files, as many side by side, resolved by the same server."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    lines = [f'url = "{url}/{REPO}/resolve/{commit}/{name}"\noutput = "{target / name}"' for name in files]
    words = ["curl", "-sSfL", "--parallel", "--parallel-max", str(SIDE_BY_SIDE), "-K", "-"]
    subprocess.run(words, input="\n".join(lines), text=True, check=True)


def fetch(url: str, commit: str, files: dict, folder: Path) -> None:
    request = {"path": str(folder / "checkpoint"), "repo": REPO, "commit": commit, "endpoint": url, "files": files,
               "workers": SIDE_BY_SIDE}  # fmt: skip
    (folder / "request.json").write_text(json.dumps(request))
    words = [sys.executable, "-m", "slipway.agent.fetch", str(folder / "request.json")]
    subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def sha256sum(folder: Path) -> None:
    names = sorted(str(path) for path in folder.iterdir() if path.is_file())
    words = ["xargs", "-d", "\n", "-n", "4", "-P", str(os.cpu_count()), "sha256sum"]
    subprocess.run(words, input="\n".join(names), text=True, stdout=subprocess.DEVNULL, check=True)


def verification(folder: Path, runs: int) -> None:
    """A full verification against sha256sum in parallel, in turns, and a look per 100 files."""
    seal(str(folder))
    theirs, ours = [], []
    for _ in range(runs):
        theirs.append(timed(lambda: sha256sum(folder)))
        ours.append(timed(lambda: full(str(folder))))
    assert full(str(folder))["problems"] == []
    middle = statistics.median
    print(f"sha256sum in parallel:       {middle(theirs):.2f} s")
    print(f"verify --full:               {middle(ours):.2f} s")
    print(f"verify / sha256sum:          {middle(theirs) / middle(ours):.2f}")
    before = resource.getrusage(resource.RUSAGE_SELF)
    took = timed(lambda: look(str(folder)))
    after, count = resource.getrusage(resource.RUSAGE_SELF), look(str(folder))["files"]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"recheck per 100 files:       {took * 1e5 / count:.1f} ms, {spent * 1e5 / count:.1f} ms of CPU")


if __name__ == "__main__":
    main()
