"""Patches on commits of a git server that the tests make: base, drifted, conflicting, partly merged, depth 1."""

from pathlib import Path

import pytest

from slipway.agent.patch_git import Checkout, clone, patch_checkout
from slipway.agent.patch_tree import PatchError
from tests.slipway.patching.diffs import commit, diff_of, git, numbered, patch, repository

FILE = "python/pkg/a.py"
LINES = {"l5": "fifth", "l30": "thirtieth"}


class Server:
    """A repository with a pull request, refs/pull/7/head, as GitHub keeps it. commits: by name."""

    def __init__(self, folder):
        self.folder, self.url = folder, f"file://{folder}"
        self.commits = {
            "base": repository(folder, {FILE: numbered(40), "docs/a.md": "old\n", "python/pkg/__init__.py": ""})
        }
        git(folder, "checkout", "-q", "-b", "pull")
        commit(folder, {FILE: numbered(40, l5="fifth"), "docs/a.md": "new\n"})
        head = commit(folder, {FILE: numbered(40, **LINES)})
        git(folder, "update-ref", "refs/pull/7/head", head)
        self.diff = git(folder, "diff", self.commits["base"], head)
        git(folder, "checkout", "-q", "main")
        self.add("drifted", numbered(40, l3="third, since"))  # next to a hunk: only a three-way merge can
        self.add("conflicting", numbered(40, l5="5th, since"))
        self.add("partly", numbered(40, l5="fifth"))
        self.add("merged", numbered(40, **LINES))
        git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")

    def add(self, name, text):
        self.commits[name] = commit(self.folder, {FILE: text}, name)

    def row(self, **more):
        change = patch(self.diff, "pr-7")
        return {
            "id": "pr-7",
            "sha256": change.sha256,
            "text": self.diff,
            "strip": "python",
            "why": "for the test",
            **more,
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    return Server(tmp_path_factory.mktemp("server") / "repo")


@pytest.fixture
def at(server, tmp_path):
    return lambda name, depth=1: clone(str(tmp_path / name), server.url, server.commits[name], depth)


def state(checkout: Checkout) -> tuple[str, str, str]:
    content = Path(checkout.folder, FILE).read_text()
    return content, checkout.must("rev-parse", "HEAD"), checkout.must("status", "--porcelain")


def test_a_patch_on_its_own_base_is_committed_with_one_identity(server, at):
    checkout = at("base")

    (applied,) = patch_checkout(checkout, [server.row()], ["pkg"])

    assert (applied.state, applied.files, applied.skipped) == ("applied", ("pkg/a.py",), ("docs/a.md",))
    assert (
        checkout.must("show", "-s", "--format=%an <%ae>|%s").strip() == "Slipway <slipway@localhost>|pr-7: for the test"
    )
    assert checkout.must("diff", "HEAD~1", "--name-only").split() == [FILE]


def test_equal_inputs_give_an_equal_commit(server, tmp_path):
    heads = []
    for name in ("one", "two"):
        checkout = clone(str(tmp_path / name), server.url, server.commits["base"], 1)
        patch_checkout(checkout, [server.row()], ["pkg"])
        heads.append(checkout.must("rev-parse", "HEAD"))
    assert heads[0] == heads[1]


@pytest.mark.parametrize("how", ["base", "github_pr", "neither"])
def test_a_depth_1_clone_gets_the_contents_that_the_three_way_apply_needs(server, at, how):
    checkout = at("drifted")
    known = {"base": server.commits["base"], "github_pr": "o/r#7"}
    assert checkout.git("apply", "--3way", "--check", "-", stdin=server.diff)[0] != 0  # the fault itself

    patch_checkout(checkout, [server.row(**{key: value for key, value in known.items() if key == how})], ["pkg"])

    assert state(checkout)[0] == numbered(40, l3="third, since", **LINES)


def test_a_conflict_leaves_the_tree_as_it_was_and_names_file_hunk_and_line(server, at):
    checkout = at("conflicting")
    before = state(checkout)

    with pytest.raises(PatchError) as caught:
        patch_checkout(checkout, [server.row(github_pr="o/r#7")], ["pkg"])

    assert "patch pr-7" in str(caught.value)
    assert "pkg/a.py:5: hunk 1 (line 12 of the diff): expected 'line 5', found '5th, since'" in str(caught.value)
    assert state(checkout) == before


def test_an_earlier_patch_is_undone_too_when_a_later_one_conflicts(server, at, tmp_path):
    checkout = at("base")
    before = state(checkout)
    other = patch(diff_of(tmp_path / "o", {FILE: numbered(40, l20="?")}, {FILE: numbered(40, l20="!")}), "other")
    second = {"id": "other", "sha256": other.sha256, "text": other.text, "strip": "python"}

    with pytest.raises(PatchError, match="patch other"):
        patch_checkout(checkout, [server.row(), second], ["pkg"])
    assert state(checkout) == before


def test_a_commit_that_holds_a_part_of_the_patch_is_a_conflict(server, at):
    checkout = at("partly")
    before = state(checkout)

    with pytest.raises(PatchError, match=r"the tree holds already: pkg/a\.py hunk 1"):
        patch_checkout(checkout, [server.row()], ["pkg"])
    assert state(checkout) == before


def test_a_commit_that_holds_the_patch_is_left_alone(server, at):
    checkout = at("merged")
    before = state(checkout)

    assert patch_checkout(checkout, [server.row()], ["pkg"])[0].state == "contained"
    assert state(checkout) == before


@pytest.mark.parametrize(
    ("url", "sha", "words"),
    [("same", "0" * 40, "cannot be fetched|has no commit"), ("file:///nowhere", "0" * 40, "cannot be fetched")],
)
def test_what_cannot_be_fetched_is_said_and_leaves_nothing(server, tmp_path, url, sha, words):
    with pytest.raises(PatchError, match=words):
        clone(str(tmp_path / "x"), server.url if url == "same" else url, sha, 1)
    assert not (tmp_path / "x").exists()
