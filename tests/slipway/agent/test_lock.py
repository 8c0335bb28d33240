"""The lock of a deployment on one host, as its program keeps it."""

import json
import os
import subprocess
import sys

from slipway.agent import audit, lock

ONE, OTHER = {"id": "one", "who": "ann"}, {"id": "other", "who": "bob"}


def take(folder, holder, **more):
    return lock.take({"folder": str(folder), "holder": holder, **more})


def test_the_first_has_it_and_the_second_is_told_who(tmp_path):
    assert take(tmp_path, ONE)["state"] == "taken"

    found = take(tmp_path, OTHER)

    assert found["state"] == "held"
    assert found["holder"] == ONE
    assert 0 <= found["silent_s"] < 60


def test_a_sign_of_life_is_heard_from_the_holder_only(tmp_path):
    take(tmp_path, ONE)
    os.utime(tmp_path / "lock", (1, 1))

    assert lock.beat({"folder": str(tmp_path), "id": "other"})["holder"] == ONE
    assert take(tmp_path, OTHER)["silent_s"] > 1000
    assert lock.beat({"folder": str(tmp_path), "id": "one"}) == {"state": "taken"}
    assert take(tmp_path, OTHER)["silent_s"] < 60


def test_it_is_replaced_only_where_it_is_still_the_one_that_was_judged(tmp_path):
    take(tmp_path, ONE)

    assert take(tmp_path, OTHER, over="one")["state"] == "taken"
    assert take(tmp_path, ONE, over="one")["holder"] == OTHER


def test_giving_back_leaves_nothing_that_it_brought_and_nothing_of_others(tmp_path):
    folder = tmp_path / "root" / "deployments" / "demo"
    made = take(folder, ONE)["made"]

    lock.release({"folder": str(folder), "id": "other", "made": []})
    assert (folder / "lock").exists()
    (tmp_path / "root" / "mine").touch()
    lock.release({"folder": str(folder), "id": "one", "made": made})

    assert sorted(path.name for path in (tmp_path / "root").iterdir()) == ["mine"]


def test_what_is_not_there_need_not_be_locked(tmp_path):
    assert take(tmp_path / "absent", ONE, make=False)["state"] == "absent"
    assert not (tmp_path / "absent").exists()


def test_a_lock_that_cannot_be_read_is_held_by_somebody(tmp_path):
    (tmp_path / "lock").write_text("half a li")

    found = take(tmp_path, ONE)

    assert (found["state"], found["holder"]["id"]) == ("held", "unreadable")
    assert take(tmp_path, ONE, over="unreadable")["state"] == "taken"


def test_of_many_at_once_exactly_one_has_it(tmp_path):
    requests = [{"action": "take", "folder": str(tmp_path), "holder": {"id": str(n)}} for n in range(12)]
    running = [
        subprocess.Popen([sys.executable, lock.__file__, json.dumps(request)], stdout=subprocess.PIPE, text=True)
        for request in requests
    ]
    states = [json.loads(process.communicate()[0])["state"] for process in running]

    assert sorted(states) == ["held"] * 11 + ["taken"]


def test_the_audit_adds_lines_and_keeps_two_files_at_most(tmp_path):
    for number in range(400):
        line = {"when": "now", "step": f"step {number}", "reason": "x" * 5000}
        audit.append({"folder": str(tmp_path), "lines": [line]}, most=20_000)

    files = sorted(path.name for path in tmp_path.iterdir())
    rows = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert files == ["audit.jsonl", "audit.jsonl.1"]
    assert all((tmp_path / name).stat().st_size <= 20_000 for name in files)
    assert rows[-1]["step"] == "step 399"
    assert len(rows[-1]["reason"]) == audit.MOST_CHARACTERS


def test_the_audit_makes_no_folder_of_its_own(tmp_path):
    audit.append({"folder": str(tmp_path / "absent"), "lines": [{"step": "x"}]})
    assert not (tmp_path / "absent").exists()
