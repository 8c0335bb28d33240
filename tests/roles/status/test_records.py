"""What a host's own records say to a status page."""

import json
import time

from roles.status.records import history_lines, logged_words, recent_lines
from slipway.agent import audit, lock, putback, status
from slipway.agent.process import boot_id


def test_the_page_tells_the_history_the_last_verification_and_who_is_at_it(tmp_path):
    for number, state in ((1, "proven"), (2, "failed"), (10, "proven")):
        folder = tmp_path / "releases" / str(number)
        folder.mkdir(parents=True)
        about = {"release": number, "who": "ann", "when": f"day {number}", "why": "a patch", "state": state}
        (folder / "about.json").write_text(json.dumps(about))
    (tmp_path / "releases" / "11.new").mkdir()
    (tmp_path / "current").symlink_to("releases/10")
    proven = {"when": "then", "who": "ann", "from": "desk", "step": "verify", "result": "ok"}
    failed = {"when": "now", "who": "bob", "from": "pod", "step": "restart decode-0", "result": "failed"}
    audit.append({"folder": str(tmp_path), "lines": [proven, {**failed, "reason": "why"}]})
    with (tmp_path / "audit.jsonl").open("a") as file:
        file.write('{"cut by a full di')
    lock.take({"folder": str(tmp_path), "holder": {"id": "1", "who": "bob", "from": "pod", "what": "deploy"}})
    putback.write(putback.place(str(tmp_path), "armed"), {"instances": [{"name": "decode-0"}], "boot": boot_id()})

    told = status.status({"folder": str(tmp_path), "workers": {}})

    assert [line.split() for line in history_lines(told)[1:]] == [
        ["RELEASE", "STATE", "WHEN", "WHO", "WHY"],
        ["10", "(current)", "proven", "day", "10", "ann", "a", "patch"],
        ["2", "failed", "day", "2", "ann", "a", "patch"],
        ["1", "proven", "day", "1", "ann", "a", "patch"],
    ]
    assert list(recent_lines(told)) == [
        "LOCKED by bob@pod, deploy since None, last sign of life 0 s ago",
        "would be put back by the host itself unless confirmed: decode-0",
        "last verified then: ok",
        "last done now by bob@pod: restart decode-0, failed (why)",
    ]


def test_a_host_without_the_deployment_has_nothing_to_tell(tmp_path):
    told = status.status({"folder": str(tmp_path / "absent"), "workers": {"decode-0": "http://127.0.0.1:1"}})

    assert told["rates"] == {"decode-0": None}
    assert list(recent_lines(told)) == []
    assert history_lines(told) == []


def test_the_page_tells_what_periodic_verification_last_found(tmp_path):
    def page(*rows):
        last = {"ok": all(row["ok"] for row in rows), "rows": rows, "when": time.time() - 7}
        (tmp_path / "verify").mkdir(exist_ok=True)
        (tmp_path / "verify/last.json").write_text(json.dumps(last))
        return list(recent_lines(status.status({"folder": str(tmp_path), "workers": {}})))

    good = {"rung": "readiness", "subject": "router-0", "ok": True, "detail": "/readiness 200"}
    bad = {"rung": "known-answers", "subject": "router-0", "ok": False, "detail": "'402'; must be '391'"}

    assert page(good) == ["periodic verification 7 s ago: all 1 rungs hold"]
    assert page(good, bad) == ["periodic verification 7 s ago: NOT WELL, router-0 known-answers: '402'; must be '391'"]


def test_throughput_by_the_log_says_how_old_it_is():
    assert logged_words({"value": 12.91, "age_s": 31.4}) == ["13 tokens/s by its log, 31 s ago"]
    assert logged_words(None) == []
