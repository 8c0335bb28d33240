"""What the parser reads, held against git; and what it refuses, with the line that is wrong."""

import pytest

from slipway.agent.patch_diff import DiffError, read_diff
from tests.slipway.patching.diffs import diff_of, numbered

PLAIN = "--- a/python/pkg/a.py\n+++ b/python/pkg/a.py\n@@ -1,2 +1,2 @@\n-one\n+two\n same\n"


def test_git_s_own_diff_is_read(tmp_path):
    before = {"python/pkg/a.py": numbered(30), "python/pkg/gone.py": "x = 1\n", "python/pkg/old name.py": numbered(20)}
    after = {
        "python/pkg/a.py": numbered(30, l3="third", l25="25th\nmore"),
        "python/pkg/gone.py": None,
        "python/pkg/old name.py": None,
        "python/pkg/nëw.py": numbered(20, l10="tenth"),
        "python/pkg/added.py": "y = 2\n",
        "python/pkg/empty.py": "",
    }
    found = {file.path: file for file in read_diff(diff_of(tmp_path / "r", before, after))}

    assert sorted(found) == [
        "python/pkg/a.py",
        "python/pkg/added.py",
        "python/pkg/empty.py",
        "python/pkg/gone.py",
        "python/pkg/nëw.py",
    ]
    assert [(hunk.number, hunk.old_start, hunk.new_start) for hunk in found["python/pkg/a.py"].hunks] == [
        (1, 1, 1),
        (2, 22, 22),
    ]
    assert found["python/pkg/nëw.py"].old == "python/pkg/old name.py"
    assert (found["python/pkg/gone.py"].new, found["python/pkg/added.py"].old, found["python/pkg/empty.py"].old) == (
        None,
    ) * 3
    assert found["python/pkg/empty.py"].hunks == ()


def test_a_change_of_mode_alone_is_a_change(tmp_path):
    path = tmp_path / "r" / "python/pkg/run.py"
    before = {"python/pkg/run.py": "x\n"}
    text = diff_of(tmp_path / "r", before, {})
    assert text == ""
    path.chmod(0o755)
    from tests.slipway.patching.diffs import git

    (file,) = read_diff(git(tmp_path / "r", "diff"))
    assert (file.path, file.mode, file.hunks) == ("python/pkg/run.py", "100755", ())


def test_a_missing_newline_is_kept_on_the_right_side(tmp_path):
    (file,) = read_diff(diff_of(tmp_path / "r", {"python/pkg/a.py": "a\nb"}, {"python/pkg/a.py": "a\nb\n"}))

    assert (file.hunks[0].old, file.hunks[0].new) == (("a\n", "b"), ("a\n", "b\n"))


def test_a_mail_around_the_diff_is_passed_over():
    text = "From 0123 Mon Sep 17\nSubject: [PATCH] x\n---\n a.py | 2 +-\n\n" + PLAIN + "-- \n2.39.5\n"

    assert [file.path for file in read_diff(text)] == ["python/pkg/a.py"]


def test_a_diff_that_was_converted_to_crlf_as_a_whole_is_read_as_it_was():
    (file,) = read_diff(PLAIN.replace("\n", "\r\n"))

    assert file.hunks[0].old == ("one\n", "same\n")


def test_lines_of_a_crlf_file_keep_their_ends():
    (file,) = read_diff(PLAIN.replace("one\n", "one\r\n").replace("two\n", "two\r\n").replace("same\n", "same\r\n"))

    assert file.hunks[0].new == ("two\r\n", "same\r\n")


REFUSED = {
    "empty": ("", "the diff is empty"),
    "blank": (" \n\n", "the diff is empty"),
    "html": ("\n<!DOCTYPE html>\n<html><body>Not Found</body></html>", "line 1: an HTML page"),
    "json": ('{"message": "Not Found"}', "line 1: no diff in it"),
    "cut": (PLAIN[:-7], "the hunk of line 3 ends too early"),
    "longer": (PLAIN + "+three\n", "line 7: the hunk of line 3 has not the 2 old and 2 new lines"),
    "header": (PLAIN.replace("@@ -1,2 +1,2 @@", "@@ -1,x +1,2 @@"), "line 3: '@@ -1,x +1,2 @@' is no hunk header"),
    "junk": (PLAIN.replace("-one", "one"), "line 4: 'one' stands inside the hunk of line 3"),
    "nothing": (PLAIN.replace("-one\n+two", " one"), "line 3: a hunk that changes nothing"),
    "headless": ("@@ -1 +1 @@\n-a\n+b\n", "line 1: a hunk without a file"),
    "traversal": (PLAIN.replace("python/pkg", "../../etc"), "leads out of the tree"),
    "inside": (PLAIN.replace("python/pkg", "python/../../etc"), "leads out of the tree"),
    "absolute": (PLAIN.replace("a/python", "/etc").replace("b/python", "/etc"), "is not a path below the tree"),
    "drive": (PLAIN.replace("a/python", "C:").replace("b/python", "C:"), "is not a path below the tree"),
    "repository": (PLAIN.replace("python/pkg/a.py", ".git/hooks/x"), "leads out of the tree"),
    "quoted": (PLAIN.replace("a/python/pkg/a.py", '"a/\\056\\056/x"'), "leads out of the tree"),
    "renamed out": ("diff --git a/p/a b/p/b\nrename from p/a\nrename to ../b\n", "leads out of the tree"),
    "link": (
        "diff --git a/p/l b/p/l\nnew file mode 120000\n--- /dev/null\n+++ b/p/l\n@@ -0,0 +1 @@\n+/etc\n",
        "a symbolic link",
    ),
    "submodule": ("diff --git a/p/s b/p/s\nnew file mode 160000\n", "a submodule"),
    "copy": ("diff --git a/p/a b/p/b\ncopy from p/a\ncopy to p/b\n", "the diff copies a file"),
    "twice": (PLAIN + PLAIN, "is changed twice, first on line 1"),
    "headers only": ("diff --git a/p/a b/p/a\nindex 1..2 100644\n--- a/p/a\n+++ b/p/a\n", "has no changes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_diff_is_refused_with_its_line_and_what_to_do(name):
    text, words = REFUSED[name]

    with pytest.raises(DiffError) as caught:
        read_diff(text)

    assert words in str(caught.value)
    assert caught.value.fix


def test_cutting_a_diff_anywhere_never_ends_in_another_error(tmp_path):
    text = diff_of(
        tmp_path / "r",
        {"python/pkg/a.py": numbered(12), "b": "1\n"},
        {"python/pkg/a.py": numbered(12, l6="x"), "b": "2\n"},
    )
    for end in range(len(text)):
        try:
            read_diff(text[:end])
        except DiffError:
            continue
