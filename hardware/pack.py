"""Packs all that a GPU machine without a network needs into parts of a chosen size: python -m hardware.pack FOLDER

FOLDER then holds wheels/ (trimmed, with a manifest: a wheelhouse for `engine.wheelhouse`), controller/ (Slipway's own
packages) and parts/00, parts/01, ... of one archive of both, for machines to which little travels at a time.
What is left out, and why, is data: hardware/wheels.yml. A trimmed wheel is a whole wheel again: its RECORD is true.
"""

from __future__ import annotations

import argparse
import base64
import csv
import fnmatch
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from slipway.agent import manifest
from slipway.builds.recipe import recipe_named, requirements_of

HERE = Path(__file__).parent
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 26, 24, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux1_x86_64"]
MIB = 2**20


def main(arguments: list[str]) -> int:
    """Fill the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part-mib", type=int, default=54, help="size of a part, MiB")
    options = parser.parse_args(arguments)
    rules = yaml.safe_load((HERE / "wheels.yml").read_text(encoding="utf-8"))
    fetch_engine(rules, options.folder)
    fetch_controller(rules, options.folder)
    archive = pack(options.folder)
    parts = split(archive, options.folder / "parts", options.part_mib * MIB)
    print(f"{archive.stat().st_size / MIB:.1f} MiB in {len(parts)} part(s) of at most {options.part_mib} MiB")
    return 0


def fetch_engine(rules: dict[str, Any], folder: Path) -> None:
    """The engine's wheels, trimmed; those of router and supervisor as their locks have them; a manifest."""
    whole, trimmed = folder / "whole", folder / "wheels"
    lock = (HERE.parent / rules["packages"]).read_text(encoding="utf-8").splitlines()
    download([line for line in lock if "==" in line], whole, rules["python"])
    trimmed.mkdir(parents=True, exist_ok=True)
    for path in sorted(whole.glob("*.whl")):
        trim(path, trimmed / path.name, rules)
    for name in ("router", "supervisor"):
        locked = [line for line in requirements_of(recipe_named(name), "").splitlines() if "==" in line]
        download([line.split()[0].rstrip("\\") for line in locked], trimmed, rules["python"])
    manifest.write(str(trimmed))


def fetch_controller(rules: dict[str, Any], folder: Path) -> None:
    """Slipway's own packages, without those of its tests."""
    text = (HERE.parent / "requirements.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9][a-z0-9._-]*==[^\s\\]+)", text, re.MULTILINE)
    wanted = [pin for pin in pins if pin.partition("==")[0] not in rules["controller"]["without"]]
    download(wanted, folder / "controller-whole", rules["python"])
    (folder / "controller").mkdir(exist_ok=True)
    for path in sorted((folder / "controller-whole").glob("*.whl")):
        trim(path, folder / "controller" / path.name, rules)


def download(packages: Iterable[str], folder: Path, python: str) -> None:
    """Wheels for x86-64 Linux, each as named; what is there already stays."""
    folder.mkdir(parents=True, exist_ok=True)
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    target = ["--python-version", python, "--implementation", "cp", "--abi", "none", "--abi", "abi3"]
    target += ["--abi", "cp" + python.replace(".", "")]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    subprocess.run([*command, *target, *platforms, *packages], check=True)


def trim(source: Path, target: Path, rules: dict[str, Any]) -> None:
    """A copy of a wheel without what wheels.yml leaves out."""
    with zipfile.ZipFile(source) as wheel:
        names = {info.filename: info for info in wheel.infolist() if not info.is_dir()}
        kept = {name for name in names if not _matches(name, rules["left_out"])}
        kept -= _not_linked(wheel, source.name, kept, rules["linked_only"])
        stripped = [name for name in kept if _matches(name, rules["strip"])]
        contents = {name: _stripped(wheel.read(name)) if name in stripped else wheel.read(name) for name in kept}
        _write(target, contents, names, changed=len(kept) < len(names) or bool(stripped))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _write(target: Path, contents: dict[str, bytes], names: dict[str, zipfile.ZipInfo], *, changed: bool) -> None:
    """Stored, not compressed: the archive around all wheels compresses better."""
    record = next(name for name in contents if name.endswith(".dist-info/RECORD"))
    if changed:
        note = record.replace("RECORD", "TRIMMED")
        contents[note] = b"Files were left out of this wheel by hardware/pack.py; see hardware/wheels.yml.\n"
    rows = [(name, f"sha256={_digest(data)}", len(data)) for name, data in sorted(contents.items()) if name != record]
    listed = io.StringIO()
    csv.writer(listed, lineterminator="\n").writerows([*rows, (record, "", "")])
    contents[record] = listed.getvalue().encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as out:
        for name in sorted(contents):
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.external_attr = names[name].external_attr if name in names else 0o644 << 16
            out.writestr(info, contents[name])


def _digest(data: bytes) -> str:
    """As RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _stripped(data: bytes) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        subprocess.run(["strip", "--strip-unneeded", file.name], check=True)
        return Path(file.name).read_bytes()


def _not_linked(wheel: zipfile.ZipFile, name: str, kept: set[str], linked: dict[str, Any]) -> set[str]:
    """Libraries that nothing of use loads."""
    package = name.partition("-")[0].replace("_", "-")
    rule = linked.get(package)
    if not rule:
        return set()
    with tempfile.TemporaryDirectory() as folder:
        wheel.extractall(folder, members=sorted(kept))
        needed = _loaded(Path(folder).resolve(), rule["roots"])
    within = {one for one in kept if one.startswith(rule["within"] + "/")}
    extra = {one for one in kept if _matches(one, rule["without"]) and not _matches(one, rule["except"])}
    return (within - needed) | extra


def _loaded(folder: Path, roots: list[str]) -> set[str]:
    """The roots and every file below `folder` that they load, as ldd resolves it; libcuda may be absent here."""
    files = [str(path) for pattern in roots for path in folder.glob(pattern)]
    listed = subprocess.run(["ldd", *files], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.findall(r"=> (/\S+)", listed)
    paths = {*files, *found, *map(os.path.realpath, found)}
    return {os.path.relpath(path, folder) for path in paths if path.startswith(str(folder))}


def pack(folder: Path) -> Path:
    """One archive of wheels/ and controller/, packed as tightly as xz can."""
    archive = folder / "machine.tar.xz"
    packer = subprocess.Popen(
        ["xz", "-9", "-T2", "--block-size=64MiB", "-c"], stdin=subprocess.PIPE, stdout=archive.open("wb")
    )
    with tarfile.open(fileobj=packer.stdin, mode="w|") as tar:
        for name in ("wheels", "controller"):
            for path in sorted((folder / name).glob("*")):
                _add(tar, path, f"{name}/{path.name}")
    assert packer.stdin is not None
    packer.stdin.close()
    if packer.wait():
        raise SystemExit(f"xz ended with {packer.returncode}")
    return archive


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """A file, without what differs from machine to machine."""
    data = path.read_bytes()
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 0
    tar.addfile(info, io.BytesIO(data))


def split(archive: Path, folder: Path, size: int) -> list[Path]:
    """The archive in parts, each in a folder of its own."""
    data, parts = archive.read_bytes(), []
    for number, start in enumerate(range(0, len(data), size)):
        part = folder / f"{number:02}" / "part"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data[start : start + size])
        parts.append(part)
    return parts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
