"""Existing tools as ways to get a checkpoint to four hosts, for benchmarks/checkpoint_hosts.py to compare with ours.

Each begins when the first host has all of it from the Hub: none of them passes on what is not whole.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RSYNC_PORT, TRACKER_PORT = 8873, 6969
PEER = (
    "aria2c", "--no-conf", "--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false", "--seed-ratio=0.0",
    "--file-allocation=none", "--bt-seed-unverified=true", "--bt-tracker-interval=2", "--summary-interval=0",
    "--bt-request-peer-speed-limit=1000M",
)  # fmt: skip
# As a user would: eight files side by side, the patterns being the plan's files.
SNAPSHOT = """
import json, sys
from huggingface_hub import snapshot_download
endpoint, repo, commit, place, names = sys.argv[1:]
snapshot_download(repo, revision=commit, endpoint=endpoint, local_dir=place, allow_patterns=json.loads(names),
                  max_workers=8, token=False)
"""


def rsync_line(bench: Any) -> None:
    """Down a line of rsync daemons, host by host."""
    first, *others = bench.hosts
    bench.fetch([first])
    running = daemons(bench, list(bench.hosts)[:-1])
    for source, host in zip(bench.hosts, others, strict=False):
        bench.wait([pull(bench, host, source)])
    bench.end(running)


def rsync_fan(bench: Any) -> None:
    """Three hosts at once from the first."""
    first, *others = bench.hosts
    bench.fetch([first])
    running = daemons(bench, [first])
    bench.wait([pull(bench, host, first) for host in others])
    bench.end(running)


def daemons(bench: Any, hosts: list[str]) -> list[subprocess.Popen]:
    started = []
    for host in hosts:
        config = bench.folder / f"{host}.rsyncd"
        config.write_text(f"use chroot = no\nmax connections = 9\n[all]\npath = {bench.place(host)}\n")
        words = ("--daemon", "--no-detach", "--port", RSYNC_PORT, f"--address={bench.hosts[host]}")
        started.append(bench.links.start(host, "rsync", *words, f"--config={config}"))
    time.sleep(0.5)
    return started


def pull(bench: Any, host: str, source: str) -> subprocess.Popen:
    bench.place(host).mkdir(parents=True)
    away = f"rsync://{bench.hosts[source]}:{RSYNC_PORT}/all/"
    words = ("-a", "--whole-file", "--inplace", "--exclude", ".cache", away, bench.place(host))
    return bench.links.start(host, "rsync", *words)


def swarm(bench: Any) -> None:
    """BitTorrent: the torrent can be made when the first host has all; it seeds, the others give to one another."""
    first, *others = bench.hosts
    bench.fetch([first])
    torrent = bench.folder / "swarm.torrent"
    torrent.unlink(missing_ok=True)
    tracker = f"http://{bench.hosts[first]}:{TRACKER_PORT}/announce"
    words = ("mktorrent", "-l", "20", "-a", tracker, "-n", "checkpoint", "-o", torrent, bench.place(first))
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    running = [tracked(bench, first, torrent), *(peer(bench, host, torrent) for host in bench.hosts)]
    while not all((bench.folder / host / "whole").exists() for host in others):
        assert all(process.poll() is None for process in running), "one of them ended"
        time.sleep(0.1)
    bench.end(running)


def tracked(bench: Any, host: str, torrent: Path) -> subprocess.Popen:
    """The tracker, which knows this torrent alone: Debian's wants a list, and shuts itself into its folder."""
    told = subprocess.check_output(["aria2c", "-S", str(torrent)], text=True)
    (line,) = [line for line in told.splitlines() if line.startswith("Info Hash:")]
    folder = bench.folder / "tracker"
    folder.mkdir(exist_ok=True)
    (folder / "torrents").write_text(line.partition(":")[2].strip() + "\n")
    words = ("-i", bench.hosts[host], "-p", TRACKER_PORT, "-P", TRACKER_PORT, "-d", folder, "-w", "/torrents")
    started = bench.links.start(host, "opentracker", *words)
    time.sleep(0.5)
    return started


def peer(bench: Any, host: str, torrent: Path) -> subprocess.Popen:
    """One host; it goes on giving to others until it is ended."""
    hook = bench.folder / f"{host}.sh"
    (bench.folder / host).mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {bench.folder / host / 'whole'}\n")
    hook.chmod(0o755)
    log = (bench.folder / f"{host}-aria2.log").open("w")
    words = ("--dir", bench.folder / host, f"--on-bt-download-complete={hook}", torrent)
    return bench.links.start(host, *PEER, *words, stdout=log)


def hub(bench: Any) -> None:
    """huggingface_hub on three hosts, its endpoint a server on the first that speaks the Hub's API."""
    first, *others = bench.hosts
    bench.fetch([first])
    address = bench.hosts[first]
    words = (sys.executable, "-m", "tests.hub.server", bench.repo, bench.place(first), 0, address)
    server = bench.links.start(first, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    bench.wait([snapshot(bench, host, url) for host in others])
    server.communicate("")


def snapshot(bench: Any, host: str, url: str) -> subprocess.Popen:
    environment = ("env", "HF_HUB_DISABLE_XET=1", f"HF_HOME={bench.folder / host / 'home'}")
    names = bench.names_as_json()
    log = (bench.folder / f"{host}-hub.log").open("w")
    words = (sys.executable, "-c", SNAPSHOT, url, bench.repo, "main", bench.place(host), names)
    return bench.links.start(host, *environment, *words, stdout=log)


# By way: what runs it, and what it needs on PATH.
WAYS: dict[str, tuple[Callable[[Any], None], tuple[str, ...]]] = {
    "rsync": (rsync_line, ("rsync",)),
    "fan": (rsync_fan, ("rsync",)),
    "aria2": (swarm, ("aria2c", "mktorrent", "opentracker")),
    "hub": (hub, ()),
}
