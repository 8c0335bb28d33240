"""Patches on an installed wheel: what is written, what stays, what a build says of it."""

import base64
import csv
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest

from slipway.agent.patch import find_record, patch_wheel
from slipway.agent.patch_tree import Patch, PatchError
from slipway.agent.state import build_state
from tests.slipway.patching.diffs import diff_of, git, numbered, patch

BEFORE = {"pkg/__init__.py": "", "pkg/a.py": numbered(20).replace("line", "x = 'line'#"), "pkg/gone.py": "y = 1\n"}
AFTER = {
    "pkg/a.py": BEFORE["pkg/a.py"].replace("'line'# 9", "'ninth'# 9"),
    "pkg/gone.py": None,
    "pkg/new/b.py": "z = 3\n",
}


def entry(content: bytes) -> list[str]:
    return [
        "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("="),
        str(len(content)),
    ]


def files_of_wheel(files: dict[str, str], version: str = "1.0") -> dict[str, str]:
    info = f"pkg-{version}.dist-info"
    whole = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: pkg\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [",".join([name, *entry(text.encode())]) for name, text in whole.items()]
    return {**whole, f"{info}/RECORD": "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"}


@pytest.fixture
def site(tmp_path):
    """site-packages whose files are hard links into a cache, as uv installs them."""
    for name, text in files_of_wheel(BEFORE).items():
        for top in ("cache", "site"):
            (tmp_path / top / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache" / name).write_text(text)
        os.link(tmp_path / "cache" / name, tmp_path / "site" / name)
    return tmp_path / "site"


@pytest.fixture
def change(tmp_path):
    prefixed = ({f"python/{name}": text for name, text in files.items()} for files in (BEFORE, AFTER))
    return patch(diff_of(tmp_path / "r", *prefixed))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_installed_files_change_and_the_cache_they_were_linked_to_does_not(site, change):
    cache = snapshot(site.parent / "cache")

    patch_wheel(str(site), "pkg", [change])

    assert (site / "pkg/a.py").read_text() == AFTER["pkg/a.py"]
    assert (site / "pkg/new/b.py").read_text() == "z = 3\n"
    assert not (site / "pkg/gone.py").exists()
    assert snapshot(site.parent / "cache") == cache


def test_record_stays_true(site, change):
    patch_wheel(str(site), "pkg", [change])

    rows = {row[0]: row[1:] for row in csv.reader((site / "pkg-1.0.dist-info/RECORD").read_text().splitlines()) if row}
    assert rows.pop("pkg-1.0.dist-info/RECORD") == ["", ""]
    assert rows == {name: entry(data) for name, data in snapshot(site).items() if not name.endswith("RECORD")}


def test_a_conflict_leaves_every_file_as_it_was(site, change):
    (site / "pkg/gone.py").unlink()
    (site / "pkg/gone.py").write_text("edited = 1\n")
    before = snapshot(site)

    with pytest.raises(PatchError, match=r"pkg/gone\.py:1: hunk 1"):
        patch_wheel(str(site), "pkg", [change])
    assert snapshot(site) == before


def test_a_full_disk_changes_nothing(site, change, monkeypatch):
    before = snapshot(site)
    real = os.chmod

    def full(path, mode):
        if "new/b.py" in str(path):
            raise OSError(28, "No space left on device")
        real(path, mode)

    monkeypatch.setattr(os, "chmod", full)
    with pytest.raises(OSError, match="No space"):
        patch_wheel(str(site), "pkg", [change])
    assert {name: data for name, data in snapshot(site).items() if not name.endswith(".slipway-new")} == before


def test_a_link_out_of_the_tree_is_not_written_through(site, change, tmp_path):
    (tmp_path / "outside.py").write_text(BEFORE["pkg/a.py"])
    (site / "pkg/a.py").unlink()
    (site / "pkg/a.py").symlink_to(tmp_path / "outside.py")

    with pytest.raises(PatchError, match=r"pkg/a\.py is a link"):
        patch_wheel(str(site), "pkg", [change])
    assert (tmp_path / "outside.py").read_text() == BEFORE["pkg/a.py"]


def test_a_mode_that_the_patch_sets_is_set(site):
    text = "diff --git a/python/pkg/a.py b/python/pkg/a.py\nold mode 100644\nnew mode 100755\n"

    patch_wheel(str(site), "pkg", [patch(text)])

    assert (site / "pkg/a.py").stat().st_mode & 0o777 == 0o755


def test_a_hash_that_is_not_the_plan_s_is_refused(change):
    with pytest.raises(PatchError, match="which the plan was made with"):
        Patch.of({**asdict(change), "text": change.text + " "})


def test_a_package_that_is_not_there_is_named(site):
    with pytest.raises(PatchError, match="other is not installed"):
        find_record(str(site), "other")


@pytest.fixture
def make(tmp_path):
    """Build `pkg` with patches by the agent itself; the last line, all output, and the build."""

    def run(patches, imports=("pkg",), **more):
        wheels = tmp_path / "wheels"
        wheels.mkdir(exist_ok=True)
        with zipfile.ZipFile(wheels / "pkg-1.0-py3-none-any.whl", "w") as archive:
            for name, text in files_of_wheel(BEFORE).items():
                archive.writestr(name, text)
        path = tmp_path / "engines/pkg-1.0-abc"
        path.parent.mkdir(exist_ok=True)
        request = {
            "path": str(path), "id": path.name, "python": sys.executable, "requirements": "pkg==1.0\n", "locked": False,
            "imports": list(imports), "disk_gb": 0.01, "environment": {}, "sources": {"wheelhouse": str(wheels)},
            "inputs": {}, "uv": str(tmp_path / "uv"), "distribution": "pkg", "version": "1.0",
            "patches": [asdict(one) for one in patches], **more,
        }  # fmt: skip
        (tmp_path / "request.json").write_text(json.dumps(request))
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = [sys.executable, "-m", "slipway.agent.build", str(tmp_path / "request.json")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, path

    return run


def test_a_build_has_its_patches_and_says_why(make, change):
    rc, out, path = make([change])

    assert (rc, build_state(str(path))) == (0, {"kind": "complete"}), out
    (recorded,) = json.loads((path / "build.json").read_text())["patches"]
    assert (recorded["id"], recorded["sha256"], recorded["why"]) == ("pr-1", change.sha256, "for the test")
    assert recorded["files"] == ["pkg/a.py", "pkg/gone.py", "pkg/new/b.py"]
    (found,) = path.glob("venv/lib/python*/site-packages/pkg/a.py")
    assert found.read_text() == AFTER["pkg/a.py"]
    assert "importing pkg, pkg.a, pkg.new.b" in out


def test_a_patch_that_breaks_its_module_never_becomes_a_build(make, tmp_path):
    broken = diff_of(
        tmp_path / "b",
        {"python/pkg/a.py": BEFORE["pkg/a.py"]},
        {"python/pkg/a.py": "import nowhere\n" + BEFORE["pkg/a.py"]},
    )
    rc, out, path = make([patch(broken)])

    assert rc == 1
    assert (
        out.strip().splitlines()[-1]
        == "error: the build does not import: pkg.a: ModuleNotFoundError: No module named 'nowhere'"
    )
    assert build_state(str(path)) == {"kind": "incomplete"}


def test_a_conflicting_patch_ends_the_build_with_file_hunk_and_line(make, tmp_path):
    text = diff_of(tmp_path / "c", {"python/pkg/a.py": numbered(9)}, {"python/pkg/a.py": numbered(9, l5="five")})
    rc, out, path = make([patch(text)])

    assert rc == 1
    assert "pkg/a.py:2: hunk 1 (line 5 of the diff): expected 'line 2', found" in out
    assert build_state(str(path)) == {"kind": "incomplete"}


def test_a_patch_that_the_release_holds_is_skipped_and_the_operator_told(make, tmp_path):
    text = diff_of(tmp_path / "c", {"python/pkg/gone.py": "y = 0\n"}, {"python/pkg/gone.py": "y = 1\n"})
    rc, out, path = make([patch(text)])

    assert rc == 0, out
    assert (
        "patch pr-1: pkg 1.0 contains it, so it is skipped; remove it from engine.patches for pkg 1.0 and later" in out
    )
    assert json.loads((path / "build.json").read_text())["patches"][0]["state"] == "contained"


def test_another_version_than_was_asked_for_is_no_build(make):
    rc, out, _path = make([], version="1.1")

    assert rc == 1
    assert out.strip().endswith("pkg 1.0 was installed; must be 1.1")


BACKEND = """\
import os, pathlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    version = os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"]  # as setuptools-scm: a shallow clone has no tags to go by
    name, info = f"pkg-{version}-py3-none-any.whl", f"pkg-{version}.dist-info"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as archive:
        for path in pathlib.Path("pkg").rglob("*.py"):
            archive.write(path, str(path))
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: pkg\\nVersion: {version}\\n")
        tags = "Generator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\n" + tags)
        archive.writestr(f"{info}/RECORD", "")
    return name
"""
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "pkg"
dynamic = ["version"]
"""


def test_a_git_build_is_the_commit_with_its_patches(make, tmp_path):
    source = {f"python/{name}": text for name, text in BEFORE.items()}
    source |= {"python/pyproject.toml": PROJECT, "python/backend.py": BACKEND}
    after = {f"python/{name}": text for name, text in AFTER.items()}
    text = diff_of(tmp_path / "repo", source, after)
    commit = git(tmp_path / "repo", "rev-parse", "HEAD~1").strip()
    git(tmp_path / "repo", "config", "uploadpack.allowAnySHA1InWant", "true")
    where = {"url": f"file://{tmp_path}/repo", "commit": commit, "depth": 1}

    rc, out, path = make([patch(text)], git=where, requirements="", locked=True, version="2.5.0")

    assert rc == 0, out
    (found,) = path.glob("venv/lib/python*/site-packages/pkg/a.py")
    assert found.read_text() == AFTER["pkg/a.py"]
    assert json.loads((path / "build.json").read_text())["patches"][0]["state"] == "applied"
    assert git(path / "src", "log", "--format=%an %s").splitlines() == ["Slipway pr-1: for the test", "test base"]


def test_a_build_leaves_no_cache_whose_files_it_would_share(make, change):
    rc, _, path = make([change])

    assert rc == 0
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
