"""Trimmed wheels are whole wheels: what is left out is gone, and RECORD is true of the rest."""

import csv
import hashlib
import io
import subprocess
import sys
import zipfile

import pytest
import yaml

from hardware.pack import HERE, split, trim

RULES = {"left_out": ["*/tests/*", "*.a"], "linked_only": {}, "strip": []}
FILES = {
    "thing/__init__.py": b"VALUE = 7\n",
    "thing/N=1,K=2.json": b"{}",  # names with commas occur, in the engine's own wheel too
    "thing/tests/big.py": b"x" * 1000,
    "thing/lib.a": b"y",
}
INFO = "thing-1.0.dist-info"


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in FILES.items():
            out.writestr(name, data)
        out.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        out.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{INFO}/RECORD", "")
    return path


@pytest.fixture
def trimmed(wheel, tmp_path):
    (tmp_path / "out").mkdir()
    trim(wheel, tmp_path / "out" / wheel.name, RULES)
    return tmp_path / "out" / wheel.name


def test_what_is_left_out_is_gone_and_the_rest_is_as_it_was(trimmed):
    with zipfile.ZipFile(trimmed) as found:
        names = {name for name in found.namelist() if not name.startswith(INFO)}
        assert names == {"thing/__init__.py", "thing/N=1,K=2.json"}
        assert found.read("thing/__init__.py") == FILES["thing/__init__.py"]
        assert b"left out" in found.read(f"{INFO}/TRIMMED")


def test_record_names_every_file_with_its_hash(trimmed):
    with zipfile.ZipFile(trimmed) as found:
        rows = list(csv.reader(io.StringIO(found.read(f"{INFO}/RECORD").decode())))
        assert {row[0] for row in rows} == set(found.namelist())
        assert all(len(row) == 3 for row in rows)
        sizes = {row[0]: row[2] for row in rows if row[2]}
        assert sizes["thing/__init__.py"] == str(len(FILES["thing/__init__.py"]))
    assert len(hashlib.sha256(trimmed.read_bytes()).hexdigest()) == 64


def test_pip_installs_it(trimmed, tmp_path):
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(target)]
    done = subprocess.run([*pip, str(trimmed)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "WARNING: RECORD" not in done.stderr
    assert (target / "thing/N=1,K=2.json").read_bytes() == b"{}"


def test_the_same_wheel_gives_the_same_bytes(wheel, trimmed, tmp_path):
    trim(wheel, tmp_path / "again.whl", RULES)

    assert (tmp_path / "again.whl").read_bytes() == trimmed.read_bytes()


def test_parts_make_the_archive_again(tmp_path):
    archive = tmp_path / "machine.tar.xz"
    archive.write_bytes(bytes(range(256)) * 10)

    parts = split(archive, tmp_path / "parts", 1000)

    assert [part.stat().st_size for part in parts] == [1000, 1000, 560]
    assert b"".join(part.read_bytes() for part in parts) == archive.read_bytes()


def test_what_travels_is_the_lock_of_the_example():
    rules = yaml.safe_load((HERE / "wheels.yml").read_text())

    lock = (HERE.parent / rules["packages"]).read_text()
    assert "sglang==0.5.13" in lock
    assert "torch==" not in lock
