"""The reader of logs: bounded, from the last start, from a cursor, across rotation, and no secret comes out."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipway.agent.logs import journal_entries, message_of, read
from slipway.knowledge.log_patterns import matchers

ROOT = Path(__file__).parents[3]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "decode-0.log"


def reading(path, **request):
    return read({"source": {"kind": "file", "path": str(path)}, "lines": 100, **request})


def start(seconds_ago=0):
    return f"slipway: start of decode-0 at {int(time.time()) - seconds_ago}\n"


def test_only_the_newest_start_is_read(log):
    log.write_text(f"{start(60)}torch.OutOfMemoryError\n{start(5)}all is well\n")

    found = reading(log, scope="start", patterns=list(matchers()))

    assert (found["lines"], found["matches"], found["starts"]) == (["all is well"], {}, 1)
    assert "cuda-oom" in reading(log, patterns=list(matchers()))["matches"]


def test_what_is_older_than_asked_is_left_out(log):
    old, new = (time.strftime("[%Y-%m-%d %H:%M:%S]", time.localtime(time.time() - ago)) for ago in (900, 3))
    log.write_text(f"{old} before\n  its tail\n{new} now\n")

    assert reading(log, within_s=60)["lines"] == [f"{new} now"]


def test_a_cursor_goes_on_where_it_was_also_across_a_rotation(log):
    log.write_text("one\ntwo\n")
    first = reading(log)
    with log.open("a") as file:
        file.write("three\n")
    log.rename(f"{log}.1")
    log.write_text("four\nunfin")

    second = reading(log, cursor=first["cursor"])
    with log.open("a") as file:
        file.write("ished\n")

    assert (first["lines"], second["lines"]) == (["one", "two"], ["three", "four"])
    assert reading(log, cursor=second["cursor"])["lines"] == ["unfinished"]


def test_a_file_that_was_cut_is_read_from_its_start(log):
    log.write_text("a long line that was there\n")
    cursor = reading(log)["cursor"]
    log.write_text("new\n")

    assert reading(log, cursor=cursor)["lines"] == ["new"]


def test_no_more_than_the_bounds_is_read_and_what_is_left_out_is_told(log):
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))

    few = reading(log, max_bytes=1000)

    assert few["skipped"] > 0
    assert few["lines"][-1] == "line 9999"
    assert sum(len(line) + 1 for line in few["lines"]) <= 1000
    assert reading(log, max_lines=3)["new"] == 3


def test_bytes_colours_and_control_characters_do_no_harm(log):
    log.write_bytes(b"\x1b[31mred\x1b[0m \xff\xfe\x00 bell\x07\n")

    assert reading(log)["lines"] == ["red \ufffd\ufffd bell"]


def test_no_secret_is_echoed(log, tmp_path):
    sealed = tmp_path / "decode-0.secret"
    sealed.write_text("ODD_NAME='hunter2-hunter2'\nSLIPWAY_SECRETS=0123456789abcdef\n")
    log.write_text(
        "server_args=ServerArgs(api_key='k3y-k3y-k3y', tokenizer_path='/srv/tiny')\n"
        "using hunter2-hunter2 and hf_abcdefghijklmnopqrst\nAuthorization: Bearer abc.def-ghi\n"
    )

    said = json.dumps(reading(log, sealed=[str(sealed)]))

    for secret in ("k3y", "hunter2", "hf_abc", "abc.def"):
        assert secret not in said
    assert "/srv/tiny" in said


def test_a_log_that_cannot_be_read_says_so(tmp_path):
    assert "No such file" in reading(tmp_path / "none.log")["error"]


def test_the_last_line_is_not_the_tail_of_a_warning(log):
    log.write_text("loading\n/srv/x.py:1: UserWarning: y\n  warnings.warn(\n")

    assert reading(log)["last"] == "/srv/x.py:1: UserWarning: y"


def test_journal_messages_in_all_their_shapes():
    entries = [{"MESSAGE": "text"}, {"MESSAGE": [104, 105, 255]}, {"MESSAGE": None}, {"MESSAGE": ["a", "b"]}]

    assert [message_of(entry) for entry in entries] == ["text", "hi\ufffd", "", "b"]


def test_a_journal_that_cannot_be_asked_says_why():
    with pytest.raises(OSError, match="no journal"):
        list(journal_entries(["sh", "-c", "echo no journal >&2; exit 1"]))


def test_the_program_answers_one_json_line(log):
    log.write_text("hello\n")
    request = {"source": {"kind": "file", "path": str(log)}, "lines": 1}

    done = subprocess.run(
        [sys.executable, "-S", "-m", "slipway.agent.logs"],
        input=json.dumps(request),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert json.loads(done.stdout)["lines"] == ["hello"]


def test_lines_that_looking_itself_makes_are_no_news(log):
    log.write_text('[2026-11-29 22:37:21] loading\n[2026-11-29 22:37:22] INFO: x - "GET /health HTTP/1.1" 503\n')

    found = reading(log, without='"GET /health')

    assert (found["new"], found["last"]) == (1, "[2026-11-29 22:37:21] loading")
