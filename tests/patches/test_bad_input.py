"""What a build is refused for, in which words, with what was built before untouched; the guide's table is made of it.

`python -m tests.patches.test_bad_input` writes the table into docs/guides/patches.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.agent.build import BuildError, build
from slipway.agent.patch_git import clone
from slipway.agent.patch_tree import PatchError, digest_of
from slipway.agent.resolve import LockError, resolve
from slipway.agent.state import build_state, fingerprint
from slipway.config.errors import InvalidConfigError
from slipway.patching.series import load_series
from slipway.plan.facts import read_facts
from tests.patches.test_guide import GUIDE
from tests.slipway.agent.test_build import wheel
from tests.slipway.patching.diffs import commit, git, repository
from tests.slipway.plan.site import ONE_HOST, campaign, opened

START, END = "<!-- refused -->\n", "<!-- /refused -->"
BASE = {
    "imports": ["thing"], "environment": {}, "inputs": {}, "locked": True, "disk_gb": 0.001, "id": "thing",
    "python": sys.executable, "distribution": "thing", "version": "1.0",
}  # fmt: skip


class Host:
    """Where one build is complete, and others are asked for."""

    def __init__(self, folder: Path, wheels: Path, before: Path) -> None:
        self.folder, self.wheels, self.before = folder, wheels, before
        (wheels_of_thing,) = wheels.glob("*.whl")
        self.sha = hashlib.sha256(wheels_of_thing.read_bytes()).hexdigest()
        self.mark = fingerprint(str(before)) if before.exists() else None

    def ask(self, **more: object) -> None:
        """Build in this process; what it says is kept from the test's own output."""
        travelling = shutil.copytree(self.wheels, self.folder / "travelling", dirs_exist_ok=True)
        request = {
            **BASE, "path": str(self.folder / "engines/new"), "uv": str(self.folder / "uv"),
            "sources": {"wheelhouse": str(travelling)},
            "requirements": f"thing==1.0 --hash=sha256:{self.sha}\n", **more,
        }  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()):
            build(request)

    def untouched(self) -> bool:
        """The build that was there is as it was, and nothing else looks complete."""
        others = [*self.before.parent.iterdir(), *self.folder.glob("engines/*")]
        same = build_state(str(self.before)) == {"kind": "complete"} and fingerprint(str(self.before)) == self.mark
        return same and not any((path / "complete").exists() for path in others if path != self.before)


def first_build(folder: Path) -> Path:
    """The build that is there before; the wheels that it was made of lie beside."""
    wheel(folder / "wheels")
    Host(folder, folder / "wheels", folder / "engines/before").ask(path=str(folder / "engines/before"))
    return folder / "engines/before"


def server(host: Host) -> tuple[str, str]:
    """A repository with a tag; its address and the commit that the tag is of."""
    folder = host.folder / "repo"
    first = repository(folder, {"python/pkg/a.py": "x = 1\n"})
    git(folder, "tag", "v1")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return f"file://{folder}", first


def unknown_commit(host: Host) -> None:
    address, _ = server(host)
    clone(str(host.folder / "src"), address, "0123456789" * 4, 1)


def of_git(host: Host, name: str) -> None:
    settings = campaign("0.5.18")
    settings["engine"] |= {"git": "https://git.test/sglang.git", "commit": name}
    opened(host.folder, ONE_HOST, settings)


def moved_tag(host: Host) -> str:
    """A tag that moves changes nothing, as the commit is what counts."""
    address, first = server(host)
    commit(host.folder / "repo", {"python/pkg/a.py": "x = 2\n"})
    git(host.folder / "repo", "tag", "-f", "v1")
    clone(str(host.folder / "src"), address, first, 1)
    text = (host.folder / "src/python/pkg/a.py").read_text()
    return "built from the commit, as before" if text == "x = 1\n" else f"another: {text}"


def other_hash(host: Host) -> None:
    host.ask(requirements=f"thing==1.0 --hash=sha256:{'0' * 64}\n")


def edited_patch(host: Host) -> None:
    folder = host.folder / "patches"
    folder.mkdir()
    (folder / "own.diff").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    row = {"id": "own", "file": "own.diff", "sha256": digest_of("another"), "why": "a test of hashes"}
    (folder / "series.yml").write_text(json.dumps({"patches": [row]}))
    load_series(folder)


def no_network(host: Host) -> None:
    os.environ["UV_HTTP_RETRIES"] = "0"
    try:
        resolve(
            {
                "requirements": ["sglang==0.5.13"], "pins": [], "constraints": [], "dropped": [], "python": "3.12",
                "machine": "x86_64", "glibc": "2.36", "index_url": "http://127.0.0.1:1/simple",
                "find_links": str(host.wheels),
            }
        )  # fmt: skip
    finally:
        del os.environ["UV_HTTP_RETRIES"]


def unsatisfiable(host: Host) -> None:
    resolve(
        {
            "requirements": ["thing==1.0", "thing>=2"], "pins": [], "constraints": [], "dropped": [],
            "python": "3.12", "machine": "x86_64", "glibc": "2.36", "wheelhouse": str(host.wheels),
        }
    )  # fmt: skip


def wrong_python(host: Host) -> None:
    settings = campaign("0.5.18")
    settings["engine"] |= {"python": "3.8"}
    site = opened(host.folder, ONE_HOST, settings)
    facts = read_facts({"pythons": [{"path": "/usr/bin/python3", "version": "3.11.2", "venv": True}]})
    found = [finding for finding in site.plan({"gpu1": facts}).errors if finding.rule == "python-missing"]
    raise PatchError(f"{found[0].message}; {found[0].fix}")


CASES: dict[str, Callable[[Host], str | None]] = {
    "a commit that the repository does not have": unknown_commit,
    "a short hash": lambda host: of_git(host, "0123abc"),
    "a tag or branch": lambda host: of_git(host, "v0.5.18"),
    "a tag that was moved since": moved_tag,
    "a wheel with another hash than the lock's": other_hash,
    "a diff that was edited since it was pinned": edited_patch,
    "no network, and no lock yet": no_network,
    "no room on the disk": lambda host: host.ask(disk_gb=10**6),
    "a Python that the host does not have": wrong_python,
    "versions that nothing satisfies": unsatisfiable,
    "another version than was asked for": lambda host: host.ask(version="2.0"),
}


def outcome(host: Host, case: Callable[[Host], str | None]) -> str:
    """What is said, without what differs from run to run."""
    try:
        said = case(host)
    except (BuildError, PatchError, LockError, InvalidConfigError) as error:
        words = " ".join(str(error).split()).replace(str(host.folder), "HERE")
        words = re.sub(r"\b(?!0{64})[0-9a-f]{64}\b", "HASH", words)
        said = f"refused: {re.sub(r'has [0-9.]+ GB free', 'has N GB free', words)}"
    return str(said)


def shortened(text: str) -> str:
    """A cell of the table: what comes first says what is wrong."""
    return text if len(text) <= 260 else text[:257].rstrip() + "..."


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # uv lies there
        yield first_build(tmp_path_factory.mktemp("before"))


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_as_the_guide_says_and_harms_nothing(name, tmp_path, before):
    host = Host(tmp_path, before.parents[1] / "wheels", before)

    said = outcome(host, CASES[name])

    assert f"| {name} | {shortened(said)} |\n" in GUIDE.read_text(), "run: python -m tests.patches.test_bad_input"
    assert host.untouched()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_disk_that_fills_up_in_the_middle_leaves_no_build_and_says_so(tmp_path, before):
    host = Host(tmp_path, before.parents[1] / "wheels", before)
    request = {
        **BASE, "path": f"{tmp_path}/small/new", "uv": f"{tmp_path}/uv",
        "sources": {"wheelhouse": str(shutil.copytree(host.wheels, tmp_path / "wheels"))},
        "requirements": f"thing==1.0 --hash=sha256:{host.sha}\n", "disk_gb": 0.0,
    }  # fmt: skip
    (tmp_path / "small").mkdir()
    (tmp_path / "request.json").write_text(json.dumps(request))
    mount = f"mount -t tmpfs -o size=40k none {tmp_path}/small"
    run = f"{sys.executable} -m slipway.agent.build {tmp_path}/request.json"
    check = f"{mount} && {run}; code=$?; ls {tmp_path}/small/new/complete; exit $code"

    done = subprocess.run(["unshare", "-m", "sh", "-c", check], capture_output=True, text=True, timeout=120)

    assert done.returncode == 1
    assert "No space left on device" in done.stdout.strip().splitlines()[-1]
    assert done.stdout.strip().splitlines()[-1].startswith("error: ")
    assert "complete" in done.stderr  # ls: there is none
    assert host.untouched()


def main() -> None:
    """Write the table."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    rows = []
    with tempfile.TemporaryDirectory() as home:
        before_ = first_build(Path(home))
        for name, case in CASES.items():
            with tempfile.TemporaryDirectory() as folder:
                host = Host(Path(folder), Path(home) / "wheels", before_)
                rows.append(f"| {name} | {shortened(outcome(host, case))} |\n")
    text = GUIDE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    table = "| input | outcome |\n| --- | --- |\n" + "".join(rows)
    GUIDE.write_text(f"{before}{START}{table}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
