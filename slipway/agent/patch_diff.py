"""Reads unified diffs as git and GitHub write them, and refuses what cannot be applied safely.

Pure: text in, values out; an error names the line of the diff. Standard library only, Python 3.9+.
Text is decoded with surrogateescape, so that any byte survives the way through it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
SAME = re.compile(r'"(?:[aciow]/)?(.+)" "(?:[bciow]/)?\1"|(?:[aciow]/)?(.+) (?:[bciow]/)?\2')
ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, '"': 34, "\\": 92}
KINDS = {"120000": "a symbolic link", "160000": "a submodule"}
MARKUP = ("<!doctype html", "<html", "<?xml", "<head")


class DiffError(Exception):
    """Why a diff is refused. line: of the diff, 0 for the whole of it; fix: what to do."""

    def __init__(self, line: int, found: str, fix: str) -> None:
        self.line, self.found, self.fix = line, found, fix
        super().__init__(f"{f'line {line}: ' if line else ''}{found}; {fix}")


@dataclass(frozen=True)
class Hunk:
    """One change. number: within its file, from 1. line: of its header in the diff. Lines keep their line ends.

    leading, trailing: lines of context before the first and after the last changed line.
    """

    number: int
    line: int
    old_start: int
    old: tuple[str, ...]
    new_start: int
    new: tuple[str, ...]
    leading: int
    trailing: int


@dataclass(frozen=True)
class FileDiff:
    """The changes of one file. old: its path before, None for a new file; new: its path after, None when deleted.

    mode: the new one in octal, '' when it stays. old_blob: id of the content that the diff was made from, maybe short.
    """

    line: int
    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    mode: str = ""
    old_blob: str = ""
    binary: bool = False

    @property
    def path(self) -> str:
        """By which name it is spoken of."""
        return self.new or self.old or ""


def lines_of(text: str) -> list[str]:
    """Lines with their ends. Only a line feed ends a line: source files hold form feeds and the like."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def read_diff(text: str) -> tuple[FileDiff, ...]:
    """The files that a diff changes. Raises DiffError."""
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        raise DiffError(0, "the diff is empty", "get it anew, or remove the entry")
    if start[:20].lower().startswith(MARKUP):
        raise DiffError(1, "an HTML page, not a diff", "get it anew: the address asks for a log-in or does not exist")
    if re.search(r"^(diff --git |--- )[^\n]*\r$", text, re.MULTILINE):
        text = text.replace("\r\n", "\n")  # the diff as a whole was converted: the lines had no CR of their own
    files = _Reader(lines_of(text)).files()
    if not files:
        raise DiffError(1, f"no diff in it; it begins with {start[:60].splitlines()[0]!r}", "give a unified diff")
    _refuse_repeats(files)
    return tuple(files)


def _refuse_repeats(files: list[FileDiff]) -> None:
    seen: dict[str, FileDiff] = {}
    for file in files:
        if file.path in seen:
            found = f"{file.path} is changed twice, first on line {seen[file.path].line}"
            raise DiffError(file.line, found, "give one diff over all commits (GitHub: .diff, not .patch)")
        seen[file.path] = file


class _Header:
    """What stands between `diff --git` and the first hunk of a file."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.old: str | None = ""
        self.new: str | None = ""
        self.mode = self.blob = ""
        self.binary = False


class _Reader:
    """Walks over the lines of a diff."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.at = lines, 0

    def files(self) -> list[FileDiff]:
        """All of them; text around them, as a mail has, is passed over."""
        found = []
        while self.at < len(self.lines):
            if self._here("diff --git "):
                found.append(self._git())
            elif self._pair():
                found.append(self._with_hunks(self._plain(_Header(self.at + 1))))
            elif self._here("@@ -"):
                self._refuse("a hunk without a file", "get the diff anew")
            else:
                self.at += 1
        return found

    def _here(self, *starts: str) -> bool:
        return self.at < len(self.lines) and self.lines[self.at].startswith(starts)

    def _pair(self) -> bool:
        nearby = self.lines[self.at + 1 : self.at + 2]
        return self._here("--- ") and bool(nearby) and nearby[0].startswith("+++ ")

    def _refuse(self, found: str, fix: str) -> NoReturn:
        raise DiffError(min(self.at + 1, len(self.lines)), found, fix)

    def _git(self) -> FileDiff:
        header = _Header(self.at + 1)
        header.old = header.new = self._both_names(self.lines[self.at][len("diff --git ") :].rstrip("\n"))
        self.at += 1
        while self.at < len(self.lines) and self._extended(header):
            self.at += 1
        if self._pair():
            header = self._plain(header)
        return self._with_hunks(header)

    def _both_names(self, text: str) -> str:
        """The one name of `a/NAME b/NAME`; '' for a rename, whose names follow."""
        match = SAME.fullmatch(text)
        if match is None:
            return ""
        return self._name(f'"{match[1]}"' if match[1] is not None else match[2], bare=True) or ""

    def _extended(self, header: _Header) -> bool:
        """Take in one line of git's extended header; False when it is none."""
        line = self.lines[self.at].rstrip("\n")
        word, _, value = line.rpartition(" ")
        if word in ("old mode", "new mode", "new file mode", "deleted file mode"):
            self._mode(header, word, value)
        elif line.startswith(("rename from ", "rename to ")):
            setattr(header, "old" if line[7] == "f" else "new", self._name(line.split(" ", 2)[2], bare=True))
        elif line.startswith("index "):
            header.blob = line[len("index ") :].partition("..")[0]
        elif line.startswith(("copy from ", "copy to ")):
            self._refuse("the diff copies a file", "make it without copy detection (git diff without -C)")
        elif line.startswith(("GIT binary patch", "Binary files ")):
            header.binary = True
        else:
            return line.startswith(("similarity index ", "dissimilarity index "))
        return True

    def _mode(self, header: _Header, word: str, value: str) -> None:
        if value in KINDS:
            self._refuse(f"{header.new or header.old} is {KINDS[value]}", "leave it out: only files can be patched")
        if word == "new file mode":
            header.old = None
        if word == "deleted file mode":
            header.new = None
        elif word != "old mode":
            header.mode = value

    def _plain(self, header: _Header) -> _Header:
        """Names from `--- OLD` and `+++ NEW`, which also tell a new or deleted file."""
        header.old = self._name(self.lines[self.at][4:])
        header.new = self._name(self.lines[self.at + 1][4:])
        self.at += 2
        return header

    def _with_hunks(self, header: _Header) -> FileDiff:
        if header.old == "" or header.new == "" or (header.old is None and header.new is None):
            raise DiffError(header.line, "a file without a name", "get the diff anew")
        hunks: list[Hunk] = []
        while self._here("@@ -"):
            hunks.append(self._hunk(len(hunks) + 1))
        if self._here("@@"):
            self._refuse(f"{self.lines[self.at].strip()!r} is no hunk header", "get the diff anew")
        if not hunks and not header.binary and not self._needs_none(header):
            raise DiffError(header.line, f"{header.new or header.old} has no changes", "get it anew: it is cut short")
        return FileDiff(header.line, header.old, header.new, tuple(hunks), header.mode, header.blob, header.binary)

    def _needs_none(self, header: _Header) -> bool:
        """A rename, a change of mode and an empty file have no hunks."""
        return header.old != header.new or bool(header.mode)

    def _name(self, text: str, bare: bool = False) -> str | None:
        """A path as git writes it, without a/ or b/. bare: there is no such prefix."""
        name = text.rstrip("\n").partition("\t")[0]
        if name.startswith('"'):
            name = _unquoted(name)
        if name == "/dev/null":
            return None
        name = name if bare else re.sub(r"^[abciow]/", "", name)
        parts = name.split("/")
        if name.startswith("/") or "\0" in name or re.match(r"[A-Za-z]:", name) or "\\" in name:
            self._refuse(f"{name!r} is not a path below the tree", "such a diff is not applied; see who made it")
        if {"..", ".", ".git"} & set(parts):
            self._refuse(f"{name!r} leads out of the tree", "such a diff is not applied; see who made it")
        return name

    def _hunk(self, number: int) -> Hunk:
        """One hunk, whose header says how many lines it has."""
        first, match = self.at + 1, HUNK.match(self.lines[self.at])
        if match is None:
            self._refuse(f"{self.lines[self.at].strip()!r} is no hunk header", "get the diff anew")
        old_count, new_count = int(match[2] or 1), int(match[4] or 1)
        old: list[str] = []
        new: list[str] = []
        signs = ""
        self.at += 1
        while len(old) < old_count or len(new) < new_count or self._here("\\ "):
            signs += self._line(old, new, first)
        if (len(old), len(new)) != (old_count, new_count) or self._goes_on():
            words = f"the hunk of line {first} has not the {old_count} old and {new_count} new lines that it announces"
            self._refuse(words, "get the diff anew: it was cut or edited")
        if not signs.strip(" "):
            raise DiffError(first, "a hunk that changes nothing", "get the diff anew")
        leading, trailing = len(signs) - len(signs.lstrip(" ")), len(signs) - len(signs.rstrip(" "))
        return Hunk(number, first, int(match[1]), tuple(old), int(match[3]), tuple(new), leading, trailing)

    def _line(self, old: list[str], new: list[str], first: int) -> str:
        """Take one line of a hunk; its sign."""
        if self.at >= len(self.lines):
            self._refuse(f"the hunk of line {first} ends too early", "get the diff anew: it is cut short")
        line = self.lines[self.at]
        self.at += 1
        sign, text = line[0], line[1:]
        if line == "\n":  # some mailers drop the blank that stands for an empty line of context
            sign, text = " ", "\n"
        if sign == "\\":
            self._without_newline(old, new)
            return ""
        if sign not in " +-":
            self.at -= 1
            self._refuse(f"{line.strip()[:60]!r} stands inside the hunk of line {first}", "get the diff anew")
        old.extend([text] if sign in " -" else [])
        new.extend([text] if sign in " +" else [])
        return sign

    def _without_newline(self, old: list[str], new: list[str]) -> None:
        r"""`\ No newline at end of file` is about the line before it."""
        sign = self.lines[self.at - 2][0]
        for lines in ([old] if sign in " -" else []) + ([new] if sign in " +" else []):
            lines[-1] = lines[-1][:-1]

    def _goes_on(self) -> bool:
        """Whether more lines of a hunk follow than were announced; a mail's signature is none."""
        return self._here("+", "-", " ") and not self._pair() and self.lines[self.at].rstrip() != "--"


def _unquoted(name: str) -> str:
    r"""Git's C-style quoting: "a/\303\244.py"."""
    data = bytearray()
    for octal, escape, plain in re.findall(r"\\([0-7]{3})|\\(.)|([^\\]+)", name.strip('"'), re.DOTALL):
        data += bytes([int(octal, 8)]) if octal else bytes([ESCAPES.get(escape, 63)]) if escape else plain.encode()
    return data.decode("utf-8", "surrogateescape")
