"""What a checkpoint costs on four hosts rather than one: wall time over links of one speed, and bytes from the Hub.

usage: sudo python benchmarks/checkpoint_hosts.py [--mb 120] [--shards 24] [--mb-per-s 10] [--runs 3] [--ways ...]

Needs rsync, aria2c, mktorrent and opentracker on PATH for the ways that use them; a way whose tool is missing is left
out, and that is said.

Each host and the Hub is a network namespace on a bridge, as in tests/staging/lab, with its link shaped by tc in both
directions. Every way fetches the same files in the same run, in turns:

  one      one host, from the Hub                 each     four hosts, each from the Hub
  share    four hosts as a deploy has it          rsync    one from the Hub, then down a line of rsync daemons
  fan      one from the Hub, then three at once from it by rsync
  aria2    one from the Hub, then BitTorrent between all by aria2, with mktorrent and opentracker
  hub      one from the Hub, then three at once from it by huggingface_hub, against a server of the Hub's API there

Every byte is proven in one, each and share, and by pieces in aria2; the copies of rsync and huggingface_hub are not.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.checkpoint_tools import WAYS  # noqa: E402
from tests.hub.checkpoint import write_checkpoint  # noqa: E402
from tests.hub.repository import Repository  # noqa: E402
from tests.staging.lab.network import Network, Switch  # noqa: E402

REPO, PORT, TOKEN = "org/model", 8790, "of-this-benchmark"
HUB, HOSTS = "10.77.0.2", {f"h{number}": f"10.77.0.{10 + number}" for number in (1, 2, 3, 4)}


class Links:
    """The hosts' network: a bridge, and a shaped cable to each."""

    def __init__(self, folder: Path, mb_per_s: float) -> None:
        self.switch, self.rate = Switch(folder / "switch"), f"{mb_per_s * 8:.0f}mbit"
        self.hosts = {name: Network(folder / name) for name in (*HOSTS, "hub")}

    def __enter__(self) -> "Links":
        self.switch.make()
        for name, host in self.hosts.items():
            host.make()
            self.switch.plug(host, name, {**HOSTS, "hub": HUB}[name])
            for network, device in ((self.switch, f"p-{name}"), (host, "eth0")):
                shape = ("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate)
                subprocess.run([*network.command(*shape, "burst", "128kb", "latency", "200ms")], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        for network in (*self.hosts.values(), self.switch):
            network.remove()

    def start(self, host: str, *words: object, **options: object) -> subprocess.Popen:
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": ROOT, **options}
        return subprocess.Popen(self.hosts[host].command(*words), **options)


class Bench:
    """The files, and our own ways to get them to hosts; those of other tools are in checkpoint_tools.py."""

    repo, hosts = REPO, HOSTS

    def __init__(self, links: Links, folder: Path, source: Path, url: str) -> None:
        self.links, self.folder, self.source, self.url = links, folder, source, url
        repository = Repository(REPO, source)
        self.commit = repository.branches["main"]
        entries = repository.commits[self.commit].values()
        self.files = {one.path: [one.size, ("sha256:" if one.sha256 else "git:") + one.etag] for one in entries}
        self.size = sum(size for size, _ in self.files.values())
        (folder / "token").write_text(TOKEN)

    def place(self, host: str) -> Path:
        return self.folder / host / "checkpoint"

    def names_as_json(self) -> str:
        return json.dumps(sorted(self.files))

    def request(self, host: str, share: bool) -> Path:
        peers = {name: f"http://{address}:{PORT}" for name, address in HOSTS.items() if name != host}
        told = {"me": host, "members": list(HOSTS), "peers": peers, "token_file": str(self.folder / "token")}
        made = {"path": str(self.place(host)), "repo": REPO, "commit": self.commit, "endpoint": self.url, "workers": 8,
                "files": self.files, "share": told if share else {}, "address": HOSTS[host], "port": PORT,
                "token_file": str(self.folder / "token") if share else "", "pending": True}  # fmt: skip
        path = self.folder / f"{host}.json"
        path.write_text(json.dumps(made))
        return path

    def fetch(self, hosts: list[str], share: bool = False) -> None:
        mirrors = [self.program(host, "fetch_mirror", share) for host in hosts] if share else []
        self.wait([self.program(host, "fetch", share) for host in hosts])
        self.end(mirrors)

    def program(self, host: str, name: str, share: bool) -> subprocess.Popen:
        log = (self.folder / f"{host}-{name}.log").open("w")
        return self.links.start(
            host, sys.executable, "-m", f"slipway.agent.{name}", self.request(host, share), stdout=log
        )

    def wait(self, processes: list[subprocess.Popen]) -> None:
        codes = [process.wait(1800) for process in processes]
        logs = [f"{path.name}: {path.read_text()[-600:]}" for path in self.folder.glob("*.log")] if any(codes) else []
        assert not any(codes), "\n".join([f"they ended with {codes}", *logs])

    @staticmethod
    def end(processes: list[subprocess.Popen]) -> None:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mb", type=float, default=120.0)
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--mb-per-s", type=float, default=10.0, help="of every link, in each direction, 10^6 bytes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ways", nargs="*", default=["one", "each", "share", *WAYS])
    return parser.parse_args()


def left(links: Links) -> int:
    """Bytes that left the Hub's host so far."""
    words = links.hosts["hub"].command("ip", "-j", "-s", "link", "show", "eth0")
    return json.loads(subprocess.check_output(words))[0]["stats64"]["tx"]["bytes"]


def measure(bench: Bench, ways: list[str], runs: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds, and copies that left the Hub, by way."""
    calls = {"one": lambda: bench.fetch(["h1"]), "each": lambda: bench.fetch(list(HOSTS)),
             "share": lambda: bench.fetch(list(HOSTS), True)}  # fmt: skip
    calls |= {way: lambda call=call: call(bench) for way, (call, _) in WAYS.items()}
    there = [way for way in ways if not lacking(way)]
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in there}
    for _ in range(runs):
        for way in there:
            for host in HOSTS:
                shutil.rmtree(bench.folder / host, ignore_errors=True)
            before, began = left(bench.links), time.monotonic()
            calls[way]()
            found[way].append((time.monotonic() - began, (left(bench.links) - before) / bench.size))
    return found


def lacking(way: str) -> str:
    """The tool that a way needs and this machine has not, which is said."""
    tools = WAYS[way][1] if way in WAYS else ()
    tool = next((tool for tool in tools if not shutil.which(tool)), "")
    print(f"{way}: left out, {tool} is missing") if tool else None
    return tool


def report(bench: Bench, found: dict[str, list[tuple[float, float]]], given: argparse.Namespace) -> None:
    print(f"{bench.size / 1e6:.0f} MB in {len(bench.files)} files, links of {given.mb_per_s:g} MB/s, {given.runs} runs")
    base = statistics.median(seconds for seconds, _ in found["one"])
    for way, rows in found.items():
        times = sorted(seconds for seconds, _ in rows)
        middle, copies = statistics.median(times), statistics.median(copy for _, copy in rows)
        spread = f"{times[0]:.1f} to {times[-1]:.1f}"
        print(f"{way:6} {middle:6.1f} s ({spread}), {middle / base:.2f} x one host, {copies:.2f} copies from the Hub")


def main() -> None:
    given = arguments()
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        folder = Path(place)
        (folder / "net").mkdir()
        source = write_checkpoint(folder / "source", given.shards, int(given.mb * 1e6 / given.shards))
        links = stack.enter_context(Links(folder / "net", given.mb_per_s))
        words = (sys.executable, "-m", "tests.hub.server", REPO, source, 0, HUB)
        server = links.start("hub", *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(server.communicate, "")
        bench = Bench(links, folder, source, server.stdout.readline().strip())
        report(bench, measure(bench, given.ways, given.runs), given)


if __name__ == "__main__":
    if os.geteuid():
        sys.exit("needs root, for network namespaces")
    main()
