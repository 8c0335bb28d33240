"""Folders as content-addressed parts, there and back."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile

from slipway.parts import archive_parts
from slipway.plan.model import Files


def folder(path, contents):
    path.mkdir()
    entries = {}
    for name, data in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
        entries[name] = (len(data), hashlib.sha256(data).hexdigest())
    return Files(str(path), entries)


CONTENTS = {"config.json": b"{}", "sub/weights.bin": bytes(range(256)) * 1000}


def test_equal_files_give_equal_parts_of_the_asked_size(tmp_path):
    files = folder(tmp_path / "a", CONTENTS)
    digest: list[str] = []

    parts = list(archive_parts(files, digest, size=50_000))

    assert all(len(part.data) == 50_000 for part in parts[:-1])
    assert [part.name for part in parts] == [hashlib.sha256(part.data).hexdigest() for part in parts]
    assert [part.name for part in archive_parts(files, [], size=50_000)] == [part.name for part in parts]
    joined = b"".join(part.data for part in parts)
    assert hashlib.sha256(joined).hexdigest() == digest[0]
    with tarfile.open(fileobj=io.BytesIO(joined)) as archive:
        assert archive.getnames() == sorted(CONTENTS)


def place(tmp_path, files, parts, digest, dest):
    paths = []
    for part in parts:
        path = tmp_path / part.name
        path.write_bytes(part.data)
        paths.append(str(path))
    entries = {name: list(entry) for name, entry in files.entries.items()}
    request = {"parts": paths, "sha256": digest, "dest": str(dest), "files": entries}
    return subprocess.run(
        [sys.executable, "-m", "slipway.agent.place"], input=json.dumps(request), capture_output=True, text=True
    )


def test_parts_become_the_folder_again(tmp_path):
    files = folder(tmp_path / "a", CONTENTS)
    digest: list[str] = []
    parts = list(archive_parts(files, digest, size=50_000))

    done = place(tmp_path, files, parts, digest[0], tmp_path / "dest")

    assert (done.returncode, done.stdout) == (0, "")
    assert {n: (tmp_path / "dest" / n).read_bytes() for n in CONTENTS} == CONTENTS


def test_a_damaged_part_is_refused_and_what_stood_there_stays(tmp_path):
    files = folder(tmp_path / "a", CONTENTS)
    dest = tmp_path / "dest"
    folder(dest, {"old": b"old"})
    digest: list[str] = []
    parts = list(archive_parts(files, digest))
    part = parts[0]
    damaged = type(part)(part.name, part.data[:5000] + b"X" + part.data[5001:])

    done = place(tmp_path, files, [damaged], digest[0], dest)

    assert done.returncode == 1
    assert "what arrived is not what was sent" in done.stdout or "the upload is damaged" in done.stdout
    assert (dest / "old").read_bytes() == b"old"


def test_a_name_that_leaves_the_folder_is_refused(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("../evil")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    data = buffer.getvalue()
    from slipway.parts import Part

    files = Files(str(tmp_path), {"../evil": (1, hashlib.sha256(b"x").hexdigest())})
    done = place(tmp_path, files, [Part("p", data)], hashlib.sha256(data).hexdigest(), tmp_path / "dest")

    assert done.returncode == 1
    assert "'../evil'" in done.stdout
    assert not (tmp_path / "evil").exists()
