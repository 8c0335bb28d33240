"""Checks out one commit of an engine and applies patches to it by a three-way merge.

git apply --3way needs the content that a patch was made from, which a shallow clone lacks: it is fetched. Either all
patches are committed, with one identity and the commit's own date, or the tree is as before. Python 3.9+.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway.agent.patch_diff import FileDiff
from slipway.agent.patch_hunks import APPLIES, CONTAINED
from slipway.agent.patch_tree import (
    Applied,
    Folder,
    Overlay,
    Patch,
    PatchError,
    apply_patch,
    became,
    judge_patch,
    split,
)

IDENTITY = {"NAME": "Slipway", "EMAIL": "slipway@localhost"}


class Checkout:
    """One clone. deepest: how many commits of a pull request are fetched in search of a patch's base."""

    def __init__(self, folder: str, deepest: int = 200) -> None:
        self.folder, self.deepest = folder, deepest

    def git(self, *words: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Exit status, and what it said. Neither the user's configuration nor a question stands in the way."""
        quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        done = subprocess.run(
            ["git", "-c", "core.autocrlf=false", *words], cwd=self.folder, env={**os.environ, **quiet, **(env or {})},
            input=None if stdin is None else stdin.encode("utf-8", "surrogateescape"),
            stdin=subprocess.DEVNULL if stdin is None else None, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.decode("utf-8", "surrogateescape")

    def must(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """As git, for what has to work. Raises PatchError with git's own last lines."""
        status, said = self.git(*words, env=env)
        if status:
            tail = "; ".join(line.strip() for line in said.strip().splitlines()[-3:])
            raise PatchError(f"git {words[0]} failed: {tail}")
        return said

    def has(self, *objects: str) -> bool:
        """Whether every object is here."""
        return all(self.git("cat-file", "-e", name)[0] == 0 for name in objects)


def clone(folder: str, url: str, commit: str, depth: int) -> Checkout:
    """Exactly `commit`, shallow when depth is not 0. Raises PatchError; nothing is left then."""
    os.makedirs(folder)
    checkout = Checkout(folder)
    try:
        checkout.must("init", "-q")
        checkout.must("remote", "add", "origin", url)
        shallow = [f"--depth={depth}"] if depth else []
        status, said = checkout.git("fetch", "-q", "--no-tags", *shallow, "origin", commit)
        if status and checkout.git("fetch", "-q", "--no-tags", "origin")[0]:  # a server that gives branches only
            raise PatchError(f"{url} cannot be fetched: {said.strip().splitlines()[-1]}")
        if not checkout.has(commit + "^{commit}"):
            raise PatchError(f"{url} has no commit {commit}; is it pushed, and of this repository?")
        checkout.must("checkout", "-q", "--detach", commit)
    except PatchError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return checkout


def patch_checkout(checkout: Checkout, rows: Sequence[Mapping[str, Any]], packages: Sequence[str]) -> list[Applied]:
    """Apply and commit the patches in order. Raises PatchError; the tree and its commit are as before then."""
    start = checkout.must("rev-parse", "HEAD").strip()
    try:
        return [_one(checkout, row, packages) for row in rows]
    except PatchError:
        checkout.must("reset", "-q", "--hard", start)
        checkout.must("clean", "-q", "-fd")
        raise


def _one(checkout: Checkout, row: Mapping[str, Any], packages: Sequence[str]) -> Applied:
    patch = Patch.of(row)
    inside, skipped = split(patch, packages)
    tree = Overlay(Folder(os.path.join(checkout.folder, patch.strip), packages))
    states = judge_patch(tree, patch)
    if CONTAINED in states and states <= {CONTAINED, APPLIES}:
        return apply_patch(tree, patch)  # held already as a whole; in part, which it refuses
    _fetch_bases(checkout, row, [file for file, _, _ in inside])
    status, said = checkout.git("apply", "--3way", "--whitespace=nowarn", *_left_out(skipped), "-", stdin=patch.text)
    if status:
        raise PatchError(_conflict(checkout, patch, tree, said))
    _commit(checkout, patch)
    return became(patch, "applied", inside, skipped)


def _left_out(skipped: Sequence[str]) -> list[str]:
    """Docs and tests of a pull request conflict most and matter least: as on wheels, they are left out."""
    return [f"--exclude={path}" for path in skipped]


def _fetch_bases(checkout: Checkout, row: Mapping[str, Any], files: Sequence[FileDiff]) -> None:
    """Get the contents that the patch was made from, by the cheapest way that has them."""
    blobs = [file.old_blob for file in files if file.old and file.old_blob.strip("0")]
    for words in _ways(row, checkout.deepest):
        if checkout.has(*blobs):
            return
        checkout.git("fetch", "-q", "--no-tags", *words)


def _ways(row: Mapping[str, Any], deepest: int) -> Iterator[list[str]]:
    if row.get("base"):
        yield ["--depth=1", "origin", row["base"]]
    number = row.get("github_pr", "").rpartition("#")[2]
    if number:
        yield [f"--depth={deepest}", "origin", f"refs/pull/{number}/head"]
    yield ["--unshallow", "origin"]
    yield ["origin"]


def _conflict(checkout: Checkout, patch: Patch, tree: Overlay, said: str) -> str:
    """Patch, file, hunk and line; from our own reading, which is exact, and from git's where that finds nothing."""
    files = checkout.git("diff", "--name-only", "--diff-filter=U")[1].split()
    checkout.must("reset", "-q", "--hard")
    try:
        apply_patch(Overlay(tree.tree), patch)
    except PatchError as error:
        return f"{error}\n  files that a three-way merge could not resolve either: {', '.join(files) or said.strip()}"
    return f"patch {patch.id} does not apply: {'; '.join(said.strip().splitlines()[-3:])}"


def _commit(checkout: Checkout, patch: Patch) -> None:
    """With the date of the commit before it, so that equal inputs give an equal commit."""
    date = checkout.must("show", "-s", "--format=%cI", "HEAD").strip()
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in IDENTITY.items()}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    message = f"{patch.id}: {patch.why}\n\nsha256: {patch.sha256}"
    checkout.must("commit", "-q", "--no-verify", "--no-gpg-sign", "-m", message, env={**who, **dates})
