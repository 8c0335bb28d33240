"""A fetched checkpoint looked at again: in a moment, or by every byte."""

import os
import shutil
import time

import pytest

from slipway.agent.fetch import Fetch
from slipway.agent.recheck import full, seal
from slipway.agent.state import look, read_note
from tests.hub.checkpoint import write_checkpoint
from tests.hub.repository import Repository
from tests.hub.server import Hub
from tests.slipway.agent.test_fetch import SHARD, is_whole, request_for


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    root = write_checkpoint(tmp_path_factory.mktemp("hub") / "model")
    with Hub([Repository("org/model", root)]) as server:
        yield server


@pytest.fixture
def target(hub, tmp_path):
    folder = tmp_path / "checkpoint"
    Fetch(request_for(hub, folder)).run()
    seal(str(folder))
    return folder


def flip(path):
    """One byte, with size and times as they were: what a failing disk does."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_nothing_differs_after_a_fetch(target):
    assert look(str(target)) == {"kind": "complete", "problems": [], "files": 9}


def test_a_look_sees_what_was_removed_cut_or_written_to(target):
    (target / "config.json").unlink()
    os.truncate(target / SHARD, 100)
    os.utime(target / "tokenizer.json", (1, 1))
    assert look(str(target))["problems"] == [
        "config.json: missing",
        f"{SHARD}: 100 bytes; must be {read_note(str(target), 'record.json')['files'][SHARD][0]}",
        "tokenizer.json: was written to or replaced since it was verified",
    ]


def test_only_the_whole_look_sees_a_flipped_bit(target, hub):
    flip(target / SHARD)
    assert look(str(target))["problems"] == []
    (problem,) = full(str(target))["problems"]
    assert problem.startswith(f"{SHARD}: sha256 ")
    assert [path.name.rpartition(".")[0] for path in (target.parent / "quarantine" / "checkpoint").iterdir()] == [SHARD]
    assert look(str(target))["kind"] == "partial"


def test_only_the_bad_file_is_fetched_again(target, hub):
    flip(target / SHARD)
    full(str(target))
    hub.requests.clear()
    Fetch(request_for(hub, target)).run()
    assert [row[1].rpartition("/")[2] for row in hub.asked("/resolve/", "HEAD")] == [SHARD]
    is_whole(target, hub.repositories["org/model"].root)


def test_a_copy_is_proven_by_its_bytes_and_looks_sound_from_then_on(target, tmp_path):
    copy = shutil.copytree(target, tmp_path / "copy")
    assert look(str(copy))["problems"]
    assert full(str(copy))["problems"] == []
    assert look(str(copy))["problems"] == []


def test_what_was_not_fetched_to_its_end_is_not_sealed(tmp_path):
    with pytest.raises(OSError, match="not fetched to its end"):
        seal(str(tmp_path))


def test_looking_at_a_hundred_files_takes_a_moment(tmp_path):
    root = write_checkpoint(tmp_path / "source", shards=93, shard_bytes=1000)
    with Hub([Repository("org/model", root)]) as server:
        Fetch(request_for(server, tmp_path / "checkpoint")).run()
    seal(str(tmp_path / "checkpoint"))
    began = time.process_time()
    assert look(str(tmp_path / "checkpoint"))["files"] == 99
    assert time.process_time() - began < 0.05
