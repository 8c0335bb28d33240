"""Two prefill and two decode workers on two staging hosts, with a router on the first: what can be changed in turn."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.staging.lab.commands import until
from tests.staging.site import EXAMPLE, Site

# As --data: text that is JSON is quoted once more. 20 ms a token, so that requests are always under way.
SLOWLY = json.dumps(json.dumps({"decode_ms": 20}))
HOME = "/opt/slipway/deployments/staging"
WORKERS = {"prefill-0": "h1", "decode-0": "h1", "prefill-1": "h2", "decode-1": "h2"}


def make_pairs(site: Site, folder: Path, data: dict[str, object]) -> Site:
    """examples/staging with a prefill and a decode on each host. data: overrides."""
    folder.mkdir()
    (folder / "group_vars").symlink_to(EXAMPLE.parent / "group_vars")
    inventory = folder / "inventory.py"
    text = EXAMPLE.read_text().replace('prefill = [("h1", _login)]', 'prefill = [("h1", _login), ("h2", _login)]')
    inventory.write_text(text.replace('decode = [("h2", _login)]', 'decode = [("h1", _login), ("h2", _login)]'))
    return replace(site, folder=folder, inventory=inventory, data={**site.data, **data})


def audit(site: Site, host: str) -> list[dict[str, str]]:
    """What was written down on one host."""
    text = site.sh(host, f"cat {HOME}/audit.jsonl.1 {HOME}/audit.jsonl 2>/dev/null || true")
    return [json.loads(line) for line in text.splitlines()]


def put_back(site: Site, host: str, since: int, within: float = 120) -> list[str]:
    """How what the host put back by itself ended, once it has; since: lines of the audit to leave out."""

    def results() -> list[str]:
        rows = audit(site, host)[since:]
        return [row["result"] for row in rows if row["what"] == "put back" and row["result"] != "begun"]

    until(lambda: bool(results()), within, pause=0.5)
    return results()


def flag_of(site: Site, instance: str) -> str:
    """The value of --max-running-requests that a worker's live process has; '' when none runs or it has none."""
    unit = f"slipway-staging-{instance}.service"
    host = WORKERS[instance]
    pid = site.lab[host].enter("systemctl", "show", "-p", "MainPID", "--value", unit).stdout.strip()
    words = site.sh(host, f"tr '\\0' ' ' < /proc/{pid}/cmdline 2>/dev/null || true").split()
    return words[words.index("--max-running-requests") + 1] if "--max-running-requests" in words else ""


def served(site: Site, count: int = 6) -> list[str]:
    """Answers to a few requests, which go to the workers in turn."""
    return [site.ask() for _ in range(count)]


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What a run has printed up to a line with `text`."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if text in line:
            return said
    raise AssertionError(f"it ended without {text!r}:\n{said}")
