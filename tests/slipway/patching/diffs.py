"""Makes diffs with git itself, so that the parser meets what git writes; and trees in memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

from slipway.agent.patch_tree import Overlay, Patch, digest_of

IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "core.autocrlf=false")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape")


def put(folder: Path, files: dict[str, str | bytes | None]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))


def repository(folder: Path, files: dict[str, str | bytes | None], message: str = "base") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    return commit(folder, files, message)


def commit(folder: Path, files: dict[str, str | bytes | None], message: str = "change") -> str:
    put(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD").strip()


def diff_of(folder: Path, before: dict, after: dict, *flags: str) -> str:
    """What git says of the way from one set of files to another."""
    first = repository(folder, before)
    second = commit(folder, after)
    return git(folder, "diff", "-M", *flags, first, second)


class Memory:
    """A tree in memory."""

    def __init__(self, files: dict[str, str | bytes], packages: tuple[str, ...] = ("pkg",)) -> None:
        self.files = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
        self.packages = packages

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)


def overlay(files: dict[str, str | bytes]) -> Overlay:
    return Overlay(Memory(files))


def patch(text: str, name: str = "pr-1", strip: str = "python") -> Patch:
    return Patch(name, digest_of(text), text, strip, "for the test")


def numbered(count: int, **changed: str) -> str:
    """Lines `line 1` to `line COUNT`; changed: l5="other" replaces line 5, a newline in it adds lines."""
    lines = [changed.get(f"l{number}", f"line {number}") for number in range(1, count + 1)]
    return "".join(f"{line}\n" for line in lines)
