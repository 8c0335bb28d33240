"""Builds on a host: complete only when everything held, refused with the reason, never half made."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from slipway.agent.state import build_state


def wheel(folder, name="thing", version="1.0", body="x = 1\n"):
    """A wheel as an index would serve it, made by hand."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": body,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={digest(text)},{len(text)}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in files.items():
            archive.writestr(entry, text)
    return path


def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@pytest.fixture
def make(tmp_path):
    """Run the build agent on a request for `thing`, which lies in a wheelhouse."""

    def run(**more):
        wheels = tmp_path / "wheels"
        found = wheel(wheels, body=more.pop("body", "x = 1\n"))
        sha = more.pop("sha256", hashlib.sha256(found.read_bytes()).hexdigest())
        request = {
            "path": str(tmp_path / "engines/thing-1.0-abc"), "id": "thing-1.0-abc", "python": sys.executable,
            "requirements": f"thing==1.0 --hash=sha256:{sha}\n", "locked": True, "imports": ["thing"], "disk_gb": 0.01,
            "environment": {}, "sources": {"wheelhouse": str(wheels)}, "inputs": {"why": "test"},
            "uv": str(tmp_path / "uv"), **more,
        }  # fmt: skip
        path = tmp_path / "request.json"
        path.write_text(json.dumps(request))
        (tmp_path / "engines").mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "slipway.agent.build", str(path)],
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},  # uv lies there
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout.strip().splitlines()[-1], tmp_path / "engines/thing-1.0-abc"

    return run


def test_a_build_is_complete_and_says_what_is_in_it(make):
    rc, last, path = make()

    assert (rc, build_state(str(path))) == (0, {"kind": "complete"})
    assert last.startswith("thing-1.0-abc is complete after")
    recorded = json.loads((path / "build.json").read_text())
    assert (recorded["id"], recorded["inputs"]) == ("thing-1.0-abc", {"why": "test"})
    done = subprocess.run(
        [path / "venv/bin/python", "-c", "import thing; print(thing.x)"], capture_output=True, text=True
    )
    assert done.stdout == "1\n"


def test_a_complete_build_is_not_made_again(make):
    _, _, path = make()
    before = (path / "complete").stat().st_mtime_ns

    rc, last, _ = make()

    assert (rc, last) == (0, "thing-1.0-abc is complete")
    assert (path / "complete").stat().st_mtime_ns == before


def test_a_package_with_another_hash_is_refused(make):
    rc, last, path = make(sha256="0" * 64)

    assert rc == 1
    assert last.startswith("error:")
    assert "hash" in last.lower()
    assert build_state(str(path)) == {"kind": "incomplete"}


def test_a_build_that_does_not_import_never_counts(make):
    rc, last, path = make(body="import missing_library\n")

    assert rc == 1
    assert last == "error: the build does not import: thing: ModuleNotFoundError: No module named 'missing_library'"
    assert build_state(str(path)) == {"kind": "incomplete"}


def test_a_half_made_build_is_made_anew(make):
    _, _, path = make(imports=["nothing_of_the_kind"])

    rc, _, _ = make()

    assert (rc, build_state(str(path))) == (0, {"kind": "complete"})


def test_a_damaged_build_is_kept_beside_and_made_anew(make):
    _, _, path = make()
    (path / "build.json").write_text("{}")

    rc, _, _ = make()

    assert (rc, build_state(str(path))) == (0, {"kind": "complete"})
    assert [p.name.rpartition("-")[0] for p in path.parent.glob("*.damaged-*")] == ["thing-1.0-abc.damaged"]


def test_a_build_that_was_edited_by_hand_stays_in_place_until_another_is_whole(make):
    _, _, path = make()
    module = next(path.glob("venv/lib/*/site-packages/thing.py"))
    module.write_text("x = 'edited'\n")

    rc, last, _ = make(imports=["nothing_of_the_kind"])
    assert (rc, "No module named 'nothing_of_the_kind'" in last) == (1, True)
    assert module.read_text() == "x = 'edited'\n"  # what may run from it still finds all its files

    rc, _, _ = make()
    assert (rc, build_state(str(path))) == (0, {"kind": "complete"})
    assert module.read_text() == "x = 1\n"
    assert not list(path.parent.glob("*.making"))
    (kept,) = path.parent.glob("*.damaged-*")
    assert next(kept.glob("venv/lib/*/site-packages/thing.py")).read_text() == "x = 'edited'\n"
    named = [file for file in path.glob("venv/bin/*") if file.is_file() and b".making" in file.read_bytes()]
    assert named == []


def test_no_room_is_said_before_the_first_byte(make):
    rc, last, path = make(disk_gb=10**6)

    assert rc == 1
    assert "GB free; the build needs 1000000 GB" in last
    assert not path.exists()


def test_an_unsatisfiable_package_gives_the_resolver_s_own_reason(make):
    rc, last, _ = make(requirements="thing==9.9\n", locked=False)

    assert rc == 1
    assert "thing" in last
    assert "9.9" in last
