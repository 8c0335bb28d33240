"""Releases on a host: whole or not there, never half of one as the current."""

import errno
import json
import os

import pytest

from slipway.agent import releases

ABOUT = {"release": 1, "state": "proven", "who": "ann"}
ROW = {"name": "a.env", "path": "/x/a.env", "mode": "644", "user": "", "role": "worker", "sealed": False}
TEXTS = {
    "plan.json": "{}\n",
    "known_answers.json": "[]\n",
    "files.json": json.dumps({"files": [ROW], "configs": {"a": "1"}, "reads": {}}),
    "files/a.env": "A=1\n",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "releases").mkdir()
    return str(tmp_path / "releases")


def do(action, folder, **more):
    return releases.ACTIONS[action]({"folder": folder, **more})


def made(folder, number, current=True, **about):
    do("write", folder, number=number, texts=TEXTS)
    return do("finish", folder, number=number, about={**ABOUT, "release": number, **about}, current=current)


def names(folder):
    return sorted(os.listdir(folder))


def test_a_release_is_one_when_it_is_finished_and_then_current(folder):
    do("write", folder, number=1, texts=TEXTS)
    assert do("list", folder) == {"releases": [], "current": None}

    do("finish", folder, number=1, about=ABOUT, current=True)

    first = {**ABOUT, "before": None}
    assert do("list", folder) == {"releases": [first], "current": 1}
    found = do("read", folder, number=1)
    assert (found["plan"], found["files"][0]["text"], found["about"]) == ("{}\n", "A=1\n", first)


def test_what_a_dead_run_left_unfinished_goes_with_the_next(folder):
    do("write", folder, number=1, texts=TEXTS)

    do("write", folder, number=2, texts=TEXTS)

    assert names(folder) == ["2.new"]


def test_a_failed_one_keeps_its_evidence_and_is_not_current(folder):
    made(folder, 1)
    do("write", folder, number=2, texts=TEXTS)

    do("finish", folder, number=2, about={"state": "failed"}, texts={"evidence/reason.txt": "why\n"})

    assert do("list", folder)["current"] == 1
    assert do("list", folder)["releases"][1] == {"release": 2, "state": "failed"}
    assert names(os.path.join(folder, "2/evidence")) == ["reason.txt"]


@pytest.mark.parametrize("at", range(1, len(TEXTS) + 1))
def test_a_full_disk_leaves_nothing_of_the_new_one_and_all_of_the_old(folder, monkeypatch, at):
    made(folder, 1)
    count = iter(range(1, 99))

    def fsync(_descriptor):
        if next(count) == at:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    told = "release 2 could not be written: No space left on device"
    with pytest.raises(releases.ReleaseError, match=told) as refused:
        do("write", folder, number=2, texts=TEXTS)

    assert "free some space" in str(refused.value)
    assert names(folder) == ["1"]
    assert do("list", folder)["current"] == 1


def test_current_moves_in_one_step_and_also_to_none(folder):
    made(folder, 1)
    made(folder, 2)

    assert do("point", folder, number=1) == {"current": 1}
    assert do("list", folder)["current"] == 1
    assert do("point", folder, number=None) == {"current": None}
    assert do("list", folder)["current"] is None


def test_what_is_not_there_or_not_whole_is_told_with_what_is(folder):
    made(folder, 1)
    with pytest.raises(releases.ReleaseError, match="there is no release 7; there are: 1"):
        do("read", folder, number=7)
    os.unlink(os.path.join(folder, "1/files/a.env"))
    with pytest.raises(releases.ReleaseError, match="release 1 is not whole"):
        do("read", folder, number=1)
    os.unlink(os.path.join(folder, "1/about.json"))
    assert do("list", folder)["releases"] == [{"release": 1, "state": "damaged"}]


def test_a_release_says_which_was_current_before_it_also_after_a_rollback(folder):
    made(folder, 1)
    made(folder, 2)
    do("point", folder, number=1)
    made(folder, 3)

    assert {row["release"]: row["before"] for row in do("list", folder)["releases"]} == {1: None, 2: 1, 3: 1}
