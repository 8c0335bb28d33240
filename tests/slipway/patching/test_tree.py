"""Patches on trees: what applies, what is held already, what conflicts, and what is reported of each."""

import random

import pytest

from slipway.agent.patch_tree import PatchError, apply_patch, apply_series, modules_of
from tests.slipway.patching.diffs import diff_of, git, numbered, overlay, patch, put

BASE = {"python/pkg/a.py": numbered(40), "docs/a.md": "old\n"}
AFTER = {"python/pkg/a.py": numbered(40, l5="fifth", l30="thirtieth\nand more"), "docs/a.md": "new\n"}


@pytest.fixture
def change(tmp_path):
    return patch(diff_of(tmp_path / "r", BASE, AFTER))


def test_a_patch_applies_and_names_what_is_not_of_the_package(change):
    tree = overlay({"pkg/a.py": BASE["python/pkg/a.py"]})

    applied = apply_patch(tree, change)

    assert (applied.state, applied.files, applied.skipped) == ("applied", ("pkg/a.py",), ("docs/a.md",))
    assert tree.changes == {"pkg/a.py": AFTER["python/pkg/a.py"].encode()}


def test_a_patch_finds_its_lines_where_the_release_moved_them(change):
    shifted = "new\n" * 7 + BASE["python/pkg/a.py"]
    tree = overlay({"pkg/a.py": shifted})

    applied = apply_patch(tree, change)

    assert tree.changes["pkg/a.py"].decode() == "new\n" * 7 + AFTER["python/pkg/a.py"]
    assert applied.moved == ("pkg/a.py hunk 1: by +7 lines", "pkg/a.py hunk 2: by +7 lines")


def test_a_patch_that_the_release_holds_is_skipped(change):
    tree = overlay({"pkg/a.py": "# moved\n" + AFTER["python/pkg/a.py"]})

    assert apply_patch(tree, change).state == "contained"
    assert tree.changes == {}


def test_a_patch_that_the_release_holds_in_part_is_a_conflict_and_not_a_guess(change):
    tree = overlay({"pkg/a.py": numbered(40, l5="fifth")})

    with pytest.raises(PatchError, match=r"the tree holds already: pkg/a\.py hunk 1"):
        apply_patch(tree, change)
    assert tree.changes == {}


def test_a_conflict_names_file_line_hunk_what_was_expected_and_what_is_there(change):
    tree = overlay({"pkg/a.py": numbered(40, l31="other")})

    with pytest.raises(PatchError) as caught:
        apply_patch(tree, change)

    assert "patch pr-1 (sha256 " in str(caught.value)
    assert "pkg/a.py:31: hunk 2 (line 21 of the diff): expected 'line 31', found 'other'" in str(caught.value)
    assert tree.changes == {}


def test_every_conflicting_hunk_is_reported_at_once(change):
    tree = overlay({"pkg/a.py": numbered(40, l5="x", l30="y")})

    with pytest.raises(PatchError) as caught:
        apply_patch(tree, change)

    assert "pkg/a.py:5: hunk 1" in str(caught.value)
    assert "pkg/a.py:30: hunk 2" in str(caught.value)


def test_lines_that_fit_two_places_equally_well_are_not_guessed_at():
    block = "a\nb\nc\n"
    text = "--- a/python/pkg/a.py\n+++ b/python/pkg/a.py\n@@ -10,3 +10,3 @@\n a\n-b\n+B\n c\n"
    content = "x\n" * 5 + block + "x\n" * 5 + block + "x\n" * 5  # at lines 6 and 14

    with pytest.raises(PatchError, match="the same lines at 6 and at 14, equally near"):
        apply_patch(overlay({"pkg/a.py": content}), patch(text))


def test_new_deleted_and_renamed_files(tmp_path):
    before = {"python/pkg/gone.py": "x = 1\n", "python/pkg/old.py": numbered(20)}
    after = {
        "python/pkg/gone.py": None,
        "python/pkg/old.py": None,
        "python/pkg/new.py": numbered(20, l9="ninth"),
        "python/pkg/sub/added.py": "y = 2\n",
    }
    change = patch(diff_of(tmp_path / "r", before, after))
    tree = overlay({"pkg/gone.py": "x = 1\n", "pkg/old.py": numbered(20)})

    assert apply_patch(tree, change).state == "applied"
    assert tree.changes == {
        "pkg/gone.py": None,
        "pkg/old.py": None,
        "pkg/new.py": numbered(20, l9="ninth").encode(),
        "pkg/sub/added.py": b"y = 2\n",
    }
    done = overlay({"pkg/new.py": numbered(20, l9="ninth"), "pkg/sub/added.py": "y = 2\n"})
    assert apply_patch(done, change).state == "contained"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"pkg/gone.py": "x = 2\n", "pkg/old.py": numbered(20)}, "pkg/gone.py:1: hunk 1"),
        ({"pkg/gone.py": "x = 1\nmore\n", "pkg/old.py": numbered(20)}, "pkg/gone.py"),
        ({"pkg/gone.py": "x = 1\n"}, "expected the file, found no such file"),
        (
            {"pkg/gone.py": "x = 1\n", "pkg/old.py": numbered(20), "pkg/new.py": "?\n"},
            "expected no such file, found the file",
        ),
        (
            {"pkg/gone.py": "x = 1\n", "pkg/old.py": numbered(20), "pkg/sub/added.py": "?\n"},
            "expected no such file, found the file",
        ),
        ({"pkg/new.py": numbered(20), "pkg/sub/added.py": "y = 2\n"}, "renamed already, without this change"),
    ],
)
def test_files_that_are_not_as_the_patch_needs_them_conflict(tmp_path, files, words):
    before = {"python/pkg/gone.py": "x = 1\n", "python/pkg/old.py": numbered(20)}
    after = {
        "python/pkg/gone.py": None,
        "python/pkg/old.py": None,
        "python/pkg/new.py": numbered(20, l9="ninth"),
        "python/pkg/sub/added.py": "y = 2\n",
    }
    tree = overlay(files)

    with pytest.raises(PatchError, match=words):
        apply_patch(tree, patch(diff_of(tmp_path / "r", before, after)))
    assert tree.changes == {}


def test_a_series_is_applied_in_order_each_onto_the_one_before(tmp_path):
    first = diff_of(tmp_path / "r", BASE, {"python/pkg/a.py": numbered(40, l5="fifth")})
    second = diff_of(
        tmp_path / "r2", {"python/pkg/a.py": numbered(40, l5="fifth")}, {"python/pkg/a.py": numbered(40, l5="FIFTH")}
    )
    tree = overlay({"pkg/a.py": numbered(40)})

    apply_series(tree, [patch(first, "one"), patch(second, "two")])

    assert tree.changes["pkg/a.py"].decode() == numbered(40, l5="FIFTH")
    with pytest.raises(PatchError, match="patch two"):
        apply_series(overlay({"pkg/a.py": numbered(40)}), [patch(second, "two"), patch(first, "one")])


def test_crlf_files_stay_crlf(tmp_path):
    crlf = {name: text.replace("\n", "\r\n") for name, text in {"pkg/a.py": numbered(40)}.items()}
    tree = overlay(crlf)

    apply_patch(tree, patch(diff_of(tmp_path / "r", BASE, AFTER)))

    assert tree.changes["pkg/a.py"].decode() == AFTER["python/pkg/a.py"].replace("\n", "\r\n")


def test_a_crlf_patch_on_a_plain_file_says_that_line_ends_differ(tmp_path):
    crlf = {"python/pkg/a.py": numbered(40).replace("\n", "\r\n")}
    text = diff_of(tmp_path / "r", crlf, {"python/pkg/a.py": numbered(40, l5="x").replace("\n", "\r\n")})

    with pytest.raises(PatchError, match="expected 'line 2' with CRLF, found 'line 2'"):
        apply_patch(overlay({"pkg/a.py": numbered(40)}), patch(text))


def test_bytes_that_are_no_text_survive(tmp_path):
    before, after = b"a\n\xff\xfe\nc\n", b"a\n\xff\xfe\nC\n"
    tree = overlay({"pkg/a.py": before})

    apply_patch(tree, patch(diff_of(tmp_path / "r", {"python/pkg/a.py": before}, {"python/pkg/a.py": after}, "--text")))

    assert tree.changes["pkg/a.py"] == after


def test_a_patch_of_another_repository_is_refused():
    text = "--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1 +1 @@\n-a\n+b\n"

    with pytest.raises(PatchError, match=r"changes nothing of pkg .only vllm/a.py.; it is for another repository"):
        apply_patch(overlay({}), patch(text))


def test_a_binary_file_is_refused_in_the_package_and_skipped_outside(tmp_path):
    before = {"python/pkg/a.py": "a\n", "python/pkg/x.bin": b"\0\1", "docs/x.png": b"\0\1"}
    after = {"python/pkg/a.py": "b\n", "docs/x.png": b"\0\2"}
    outside = diff_of(tmp_path / "r", before, after)
    inside = diff_of(tmp_path / "r2", before, {"python/pkg/x.bin": b"\0\2"}, "--binary")

    assert apply_patch(overlay({"pkg/a.py": "a\n"}), patch(outside)).skipped == ("docs/x.png",)
    with pytest.raises(PatchError, match=r"python/pkg/x.bin is binary"):
        apply_patch(overlay({"pkg/a.py": "a\n"}), patch(inside))


def test_modules_are_named_as_python_imports_them():
    paths = ["pkg/a.py", "pkg/sub/__init__.py", "pkg/__main__.py", "pkg/data.json", "pkg/not-a-name.py"]

    assert modules_of(paths) == ["pkg.a", "pkg.sub"]


@pytest.mark.parametrize("seed", range(12))
def test_random_changes_do_what_git_does(tmp_path, seed):
    """Against git apply, on a tree that drifted elsewhere: the same result, or both refuse."""
    dice = random.Random(seed)
    lines = [f"line {dice.randrange(9)}\n" for _ in range(60)]
    edited, drifted = lines[:], lines[:]
    for at in sorted(dice.sample(range(60), 4), reverse=True):
        edited[at : at + dice.randrange(2)] = [f"new {at}\n"] * dice.randrange(1, 3)
    for at in sorted(dice.sample(range(60), 2), reverse=True):
        drifted[at:at] = [f"drift {at}\n"]
    name = "python/pkg/a.py"
    text = diff_of(tmp_path / "r", {name: "".join(lines)}, {name: "".join(edited)})
    tree = overlay({"pkg/a.py": "".join(drifted)})
    put(tmp_path / "t", {name: "".join(drifted), "p.diff": text})
    git(tmp_path / "t", "init", "-q")
    try:
        git(tmp_path / "t", "apply", "p.diff")
        wanted = (tmp_path / "t" / name).read_bytes()
    except AssertionError:
        wanted = None
    try:
        apply_patch(tree, patch(text))
    except PatchError as error:
        assert wanted is None or "equally near" in str(error), error
    else:
        assert tree.changes["pkg/a.py"] == wanted
