"""A checkpoint's manifest finds every way in which a folder can differ from what was recorded."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.agent import manifest

TENSOR = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint with one file larger than a read block, one in a subfolder, and its manifest."""
    place = tmp_path / "checkpoint"
    (place / "tokenizer").mkdir(parents=True)
    (place / TENSOR).write_bytes(bytes(range(256)) * 20_000)  # 5 MB: more than one block
    (place / "config.json").write_text("{}")
    (place / "tokenizer" / "vocab.txt").write_text("a b c")
    manifest.write(str(place))
    return place


def rewrite(folder: Path, **changes: object) -> None:
    """Put other values into the first row of the manifest."""
    made = json.loads((folder / manifest.NAME).read_text())
    made["files"][0].update(changes)
    (folder / manifest.NAME).write_text(json.dumps(made))


def test_lists_every_file_but_itself_sorted(folder: Path) -> None:
    made = json.loads((folder / manifest.NAME).read_text())
    assert made == manifest.build(str(folder))
    assert [row["path"] for row in made["files"]] == ["config.json", TENSOR, "tokenizer/vocab.txt"]
    assert made["files"][0] == {"path": "config.json", "size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    assert made["schema"] == 1


def test_an_untouched_folder_has_no_problems(folder: Path) -> None:
    assert manifest.check(str(folder)) == []


def test_one_flipped_byte_in_the_large_tensor_is_found(folder: Path) -> None:
    expected = hashlib.sha256((folder / TENSOR).read_bytes()).hexdigest()
    with (folder / TENSOR).open("r+b") as file:
        file.seek(4_500_000)  # in the second block
        byte = file.read(1)[0]
        file.seek(4_500_000)
        file.write(bytes([byte ^ 1]))
    found = hashlib.sha256((folder / TENSOR).read_bytes()).hexdigest()
    assert manifest.check(str(folder)) == [f"{TENSOR}: expected sha256 {expected}, found sha256 {found}"]


def test_a_truncated_file_is_found(folder: Path) -> None:
    with (folder / TENSOR).open("r+b") as file:
        file.truncate(5_000_000)
    assert manifest.check(str(folder)) == [f"{TENSOR}: expected 5120000 bytes, found 5000000 bytes"]


def test_a_missing_file_is_found(folder: Path) -> None:
    (folder / "tokenizer" / "vocab.txt").unlink()
    assert manifest.check(str(folder)) == ["tokenizer/vocab.txt: expected 5 bytes, found no such file"]


def test_an_extra_shard_is_reported(folder: Path) -> None:
    (folder / "model-00002.safetensors").write_bytes(b"x")
    (problem,) = manifest.problems(str(folder))
    assert (problem.path, problem.kind) == ("model-00002.safetensors", "extra")


def test_all_problems_are_told_at_once(folder: Path) -> None:
    (folder / "config.json").write_text("[]")
    (folder / TENSOR).unlink()
    (folder / "new").touch()
    kinds = {problem.path: problem.kind for problem in manifest.problems(str(folder))}
    assert kinds == {"config.json": "content", TENSOR: "missing", "new": "extra"}


def test_the_hub_clients_own_notes_are_no_part_of_the_checkpoint(folder: Path) -> None:
    (folder / ".cache" / "huggingface").mkdir(parents=True)
    (folder / ".cache" / "huggingface" / "download.metadata").touch()
    assert manifest.check(str(folder)) == []


def test_a_linked_file_is_followed_as_in_the_hubs_cache(folder: Path) -> None:
    blob = folder.parent / "blob"
    (folder / TENSOR).rename(blob)
    (folder / TENSOR).symlink_to(blob)
    assert manifest.check(str(folder)) == []


@pytest.mark.parametrize("path", ["../secret", "/etc/hostname", "a/../../secret", "./config.json", "", "a\\b", "a\0b"])
def test_a_path_that_may_lead_out_is_refused(folder: Path, path: str) -> None:
    (folder.parent / "secret").write_text("{}")  # has the size and hash of the row that is changed
    rewrite(folder, path=path)
    kinds = {problem.path: problem.kind for problem in manifest.problems(str(folder))}
    assert kinds == {path: "unsafe", "config.json": "extra"}


def test_a_path_through_a_linked_folder_is_refused(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "config.json").write_text("{}")
    (folder / "inside").symlink_to(outside)
    rewrite(folder, path="inside/config.json")
    kinds = {problem.kind for problem in manifest.problems(str(folder))}
    assert kinds == {"unsafe", "extra"}


def test_a_path_listed_twice_is_refused(folder: Path) -> None:
    rewrite(folder, path=TENSOR)
    kinds = {problem.path: problem.kind for problem in manifest.problems(str(folder))}
    assert kinds == {TENSOR: "manifest", "config.json": "extra"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "no JSON"),
        ("[]", "schema 'list'"),
        ('{"schema": 2, "files": []}', "schema 2"),
        ('{"schema": 1, "files": [{"path": "a"}]}', "files[0] is"),
    ],
)
def test_a_manifest_of_another_shape_is_a_problem(folder: Path, text: str, found: str) -> None:
    (folder / manifest.NAME).write_text(text)
    (problem,) = manifest.check(str(folder))
    assert problem.startswith("manifest.json: expected a manifest of schema 1, found")
    assert found in problem


def test_a_dangling_link_cannot_be_recorded(folder: Path) -> None:
    (folder / "lost").symlink_to(folder / "nowhere")
    with pytest.raises(manifest.ManifestError, match="lost is no regular file"):
        manifest.write(str(folder))


def test_a_failed_write_leaves_the_old_manifest(folder: Path) -> None:
    before = (folder / manifest.NAME).read_bytes()
    (folder / "lost").symlink_to(folder / "nowhere")
    with pytest.raises(manifest.ManifestError):
        manifest.write(str(folder))
    assert (folder / manifest.NAME).read_bytes() == before
    assert not [path for path in folder.iterdir() if path.name.startswith(".manifest")]


def test_long_work_says_how_far_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifest, "QUIET", 0.0)
    assert manifest.check(str(folder)) == []
    assert "hashed 0.01 of 0.01 GB (100%" in capsys.readouterr().err


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program as a host runs it: one file, given to Python by its path."""
    assert manifest.__file__
    command = [sys.executable, "-I", manifest.__file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_program_writes_and_checks(folder: Path) -> None:
    written = run("write", str(folder))
    assert (written.returncode, written.stdout) == (0, f"{folder}/manifest.json: 3 files, 5120007 bytes\n")
    checked = run("check", str(folder))
    assert (checked.returncode, checked.stdout) == (0, f"{folder}: every file is as manifest.json says\n")


def test_the_program_fails_with_the_problem_as_json(folder: Path) -> None:
    (folder / "config.json").write_text("{} ")
    answer = run("check", str(folder), "--json")
    problem = {"path": "config.json", "kind": "size", "expected": "2 bytes", "found": "3 bytes"}
    assert (answer.returncode, json.loads(answer.stdout)) == (1, {"folder": str(folder), "problems": [problem]})


def test_the_program_names_a_folder_that_is_not_there(tmp_path: Path) -> None:
    answer = run("check", str(tmp_path / "nowhere"))
    assert (answer.returncode, answer.stderr) == (1, f"error: {tmp_path}/nowhere: no such folder\n")
