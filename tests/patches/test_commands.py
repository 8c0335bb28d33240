"""`slipway patch`, `builds` and `diff` as a user runs them, against a server that speaks as GitHub does."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from slipway.cli import main
from slipway.config.errors import InvalidConfigError
from slipway.patching.series import load_series
from tests.slipway.patching.diffs import diff_of, put

FILE = "python/sglang/a.py"


class GitHub(BaseHTTPRequestHandler):
    """Pull requests by number: 1 leads to 2, 2 is a diff, 3 is cut, 4 a page, 6 empty; others are not there."""

    def do_GET(self):
        number = self.path.rpartition("/")[2].partition(".")[0]
        if number == "1":
            self.send_response(302)
            self.send_header("Location", "/o/r/pull/2.diff")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        bodies = {"2": self.server.diff, "3": self.server.diff, "4": "<!DOCTYPE html><html>Sign in</html>", "6": ""}
        body = bodies.get(number, "Not Found").encode()
        self.send_response(200 if number in bodies else 404)
        self.send_header("Content-Length", str(len(body) + (50 if number == "3" else 0)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def github(tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), GitHub)
    server.diff = diff_of(tmp_path / "r", {FILE: "a = 1\n"}, {FILE: "a = 2\n"})
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("SLIPWAY_GITHUB", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.chdir(tmp_path)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def add(number, *more):
    return main(["patch", "add", f"o/r#{number}", "--why", "needed: by the test", *more])


def test_a_pull_request_is_added_pinned_and_kept_through_a_redirect(github, tmp_path, capsys):
    put(tmp_path, {"patches/series.yml": "# ours\npatches: []\n"})

    assert add(1, "--releases", "0.5.13..0.5.14") == 0

    (patch,) = load_series(tmp_path / "patches").patches
    assert (patch.id, patch.github_pr, patch.why) == ("pr-1", "o/r#1", "needed: by the test")
    assert patch.text == github.diff
    assert (tmp_path / "patches/series.yml").read_text().startswith("# ours\npatches:\n  - id: pr-1\n")
    assert add(2) == 0
    assert load_series(tmp_path / "patches").ids() == ["pr-1", "pr-2"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("3", "was cut after"),
        ("4", "an HTML page, not a diff"),
        ("6", "the diff is empty"),
        ("9", "answered 404; check OWNER/REPO#N"),
    ],
)
def test_what_is_no_diff_changes_nothing(github, tmp_path, capsys, number, words):
    assert add(number) == 1

    assert words in capsys.readouterr().err
    assert not (tmp_path / "patches").exists()


def test_no_network_and_a_wrong_name_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLIPWAY_GITHUB", "http://127.0.0.1:9")
    assert add(1) == 1
    assert "cannot be reached" in capsys.readouterr().err
    assert main(["patch", "add", "25820", "--why", "needed by it"]) == 1
    assert "must be OWNER/REPO#N" in capsys.readouterr().err


def test_refresh_pins_what_the_pull_request_is_now(github, tmp_path, capsys):
    add(2)
    assert main(["patch", "refresh"]) == 0
    assert "pr-2: unchanged" in capsys.readouterr().out
    github.diff = github.diff.replace("a = 2", "a = 3")

    assert main(["patch", "refresh", "pr-2"]) == 0

    assert "which makes new builds" in capsys.readouterr().out
    assert "a = 3" in load_series(tmp_path / "patches").patches[0].text


def test_a_diff_that_was_edited_is_told_by_file_and_line(github, tmp_path, capsys):
    add(2)
    (tmp_path / "patches/o-r-2.diff").write_text(github.diff + "\n")

    with pytest.raises(
        InvalidConfigError, match=r"patches/series.yml:\d+: patches.0.sha256: got [0-9a-f]{64}; must be"
    ):
        load_series(tmp_path / "patches")
    assert main(["patch", "check", "--against", str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("content", "state", "rc"), [("a = 1\n", "applies", 0), ("a = 2\n", "contained", 0), ("a = 7\n", "conflict", 1)]
)
def test_check_tries_the_series_against_a_folder(github, tmp_path, capsys, content, state, rc):
    add(2)
    put(tmp_path, {"site/sglang/a.py": content})
    capsys.readouterr()

    assert main(["patch", "check", "--against", "site"]) == rc

    assert capsys.readouterr().out.split()[:2] == ["pr-2", state]


def test_check_without_a_wheel_says_where_to_get_one(github, capsys):
    add(2)
    assert main(["patch", "check"]) == 1
    assert "$SLIPWAY_WHEELS" in capsys.readouterr().err


SERIES = {
    "unknown key": ("patches:\n  - {id: a, sha: x}\n", "patches/series.yml:2: patches.0.sha: got unknown key"),
    "required": ("patches:\n  - id: a\n", "got no sha256 and no why; must be an entry with id, sha256 and why"),
    "hash": (
        "patches:\n  - {id: a, file: x, sha256: abc, why: because of it}\n",
        "patches/series.yml:2: patches.0.sha256",
    ),
    "no file": (
        f"patches:\n  - {{id: a, file: x, sha256: {'f' * 64}, why: because of it}}\n",
        "patches/x, which is not there",
    ),
    "traversal": (f"patches:\n  - {{id: a, file: ../x, sha256: {'f' * 64}, why: because of it}}\n", "patches.0.file"),
    "source": (f"patches:\n  - {{id: a, sha256: {'f' * 64}, why: because of it}}\n", "neither file nor github_pr"),
    "syntax": ("patches: [\n", "a YAML syntax error"),
    "list": ("- a\n", "got a list; must be a mapping of keys"),
    "releases": (
        f"patches:\n  - {{id: a, file: x, sha256: {'f' * 64}, why: because of it, releases: 5+6}}\n",
        "must be all, 0.5.14+",
    ),
}


@pytest.mark.parametrize("name", SERIES)
def test_a_wrong_series_is_told_by_file_and_line(tmp_path, name):
    text, words = SERIES[name]
    put(tmp_path, {"series.yml": text})

    with pytest.raises(InvalidConfigError) as caught:
        load_series(tmp_path)
    assert words in str(caught.value)


def record(folder, name, patches, **inputs):
    data = {
        "id": name,
        "inputs": inputs,
        "patches": patches,
        "seconds": 52.0,
        "host": "gpu1",
        "finished": "2026-01-01T00:00:00Z",
    }
    put(folder, {f"engines/{name}/build.json": json.dumps(data), f"engines/{name}/complete": "{}"})


def test_builds_are_listed_and_told_apart(tmp_path, capsys):
    patch = {"id": "pr-7", "sha256": "f" * 64, "state": "applied", "why": "NVFP4 experts"}
    record(tmp_path, "sglang-0.5.13-aaa", [], python="3.11", requirements="torch==2.1 \\\n  --hash=sha256:1\n")
    record(tmp_path, "sglang-0.5.13-bbb", [patch], python="3.12", requirements="torch==2.2\n")
    put(tmp_path, {"engines/half/requirements.txt": ""})

    assert main(["builds", "--root", str(tmp_path)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[1].split()[:2] == ["half", "INCOMPLETE"]
    assert listed[3].split()[:3] == ["sglang-0.5.13-bbb", "complete", "pr-7"]

    assert main(["diff", "--root", str(tmp_path), "sglang-0.5.13-aaa", "sglang-0.5.13-bbb"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        'python: "3.11" -> "3.12"',
        "- requirement torch==2.1",
        "+ requirement torch==2.2",
        "+ patch pr-7 (sha256 ffffffffffff, applied): NVFP4 experts",
    ]
    assert main(["diff", "--root", str(tmp_path), "sglang-0.5.13-aaa", "none"]) == 1
