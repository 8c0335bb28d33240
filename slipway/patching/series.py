"""Reads patches/series.yml: which patches there are, why, and for which releases; all errors come at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema

from slipway.agent.patch_tree import Patch, digest_of
from slipway.config.errors import ConfigError, InvalidConfigError, nearest
from slipway.config.source import KeyPath, Source, read_yaml
from slipway.config.validate import allowed_by, dotted, show
from slipway.knowledge.versions import Span

FILE = "patches/series.yml"
ADD = "slipway patch add OWNER/REPO#N writes a whole entry"


@dataclass(frozen=True)
class SeriesPatch:
    """One entry. path: of the diff on the controller. line: where the entry stands in series.yml."""

    id: str
    path: str
    github_pr: str
    sha256: str
    why: str
    upstream: str
    remove_when: str
    releases: Span
    strip: str
    base: str
    line: int
    text: str

    def travelling(self) -> Patch:
        """As it is applied."""
        return Patch(self.id, self.sha256, self.text, self.strip, self.why, self.upstream, self.remove_when)


@dataclass(frozen=True)
class Series:
    """The entries in order."""

    patches: tuple[SeriesPatch, ...] = ()

    def get(self, name: str) -> SeriesPatch | None:
        """The entry `name`; None when there is none."""
        return next((patch for patch in self.patches if patch.id == name), None)

    def ids(self) -> list[str]:
        """Names of all entries."""
        return [patch.id for patch in self.patches]


@cache
def schema() -> dict[str, Any]:
    """The schema of series.yml."""
    text = resources.files("slipway.patching").joinpath("series.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def file_name(github_pr: str) -> str:
    """Where the diff of a pull request is kept: sgl-project/sglang#7 -> sgl-project-sglang-7.diff."""
    return github_pr.replace("/", "-").replace("#", "-") + ".diff"


def load_series(folder: Path) -> Series:
    """The series of `folder`, empty when it has none. Raises InvalidConfigError with everything that is wrong."""
    path = folder / "series.yml"
    if not path.is_file():
        return Series()
    try:
        source = read_yaml(path.read_text(encoding="utf-8"), FILE)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError([ConfigError(FILE, 0, "", str(error), "UTF-8 text")]) from None
    errors = source.errors or list(_schema_errors(source))
    patches = [] if errors else [_entry(source, folder, at, row, errors) for at, row in enumerate(_rows(source))]
    errors += [] if errors else _repeats(source)
    if errors:
        raise InvalidConfigError(errors)
    return Series(tuple(patch for patch in patches if patch))


def _rows(source: Source) -> list[Mapping[str, Any]]:
    return list(source.data.get("patches", []))


def _schema_errors(source: Source) -> Iterator[ConfigError]:
    for violation in jsonschema.Draft202012Validator(schema()).iter_errors(source.data):
        path: KeyPath = tuple(violation.absolute_path)
        yield from _explained(source, violation, path)
    for at, row in enumerate(source.data.get("patches") or []):
        if isinstance(row, dict) and not {"file", "github_pr"} & set(row):
            yield _error(source, ("patches", at), "neither file nor github_pr", "one of them", ADD)


def _explained(source: Source, violation: Any, path: KeyPath) -> Iterator[ConfigError]:
    if violation.validator == "additionalProperties":
        known = violation.schema["properties"]
        for key in sorted(set(violation.instance) - set(known)):
            close = nearest(key, known)
            hint = f"did you mean {close}?" if close else "remove the key"
            yield _error(source, (*path, key), f"unknown key {show(key)}", f"one of {', '.join(sorted(known))}", hint)
    elif violation.validator == "required":
        missing = [key for key in violation.validator_value if key not in violation.instance]
        yield _error(source, path, f"no {' and no '.join(missing)}", "an entry with id, sha256 and why", ADD)
    else:
        meaning = str(violation.schema.get("description", ""))
        yield _error(source, path, show(violation.instance), allowed_by(violation), meaning)


def _error(source: Source, path: KeyPath, found: str, allowed: str, hint: str = "") -> ConfigError:
    origin = next(source.origins[path[:end]] for end in range(len(path), -1, -1) if path[:end] in source.origins)
    return ConfigError(FILE, origin.line, dotted(path), found, allowed, hint)


def _repeats(source: Source) -> list[ConfigError]:
    ids = [row["id"] for row in _rows(source)]
    return [
        _error(source, ("patches", at, "id"), f"{name} a second time", "an id of its own", "rename one of them")
        for at, name in enumerate(ids)
        if name in ids[:at]
    ]


def _entry(
    source: Source, folder: Path, at: int, row: Mapping[str, Any], errors: list[ConfigError]
) -> SeriesPatch | None:
    here: KeyPath = ("patches", at)
    span = _span(source, (*here, "releases"), row.get("releases", "all"), errors)
    path = folder / (row.get("file") or file_name(row["github_pr"]))
    text = _text(source, here, path, row, errors)
    if span is None or text is None:
        return None
    words = {name: row.get(name, "") for name in ("github_pr", "why", "upstream", "remove_when", "base")}
    line = source.origins[here].line
    return SeriesPatch(
        id=row["id"], path=str(path), sha256=row["sha256"], releases=span, line=line, text=text,
        strip=row.get("strip", "python"), **words,
    )  # fmt: skip


def _span(source: Source, path: KeyPath, text: str, errors: list[ConfigError]) -> Span | None:
    try:
        return Span.parse(text)
    except ValueError:
        allowed = "all, 0.5.14+, ..0.5.21 or 0.5.14..0.5.21"
        errors.append(_error(source, path, show(text), allowed, "the end of a range is not included"))
        return None


def _text(source: Source, here: KeyPath, path: Path, row: Mapping[str, Any], errors: list[ConfigError]) -> str | None:
    """The diff, when it is the one that the entry means."""
    again = f"slipway patch refresh {row['id']}" if "github_pr" in row else "put the diff there"
    key = (*here, "file" if "file" in row else "github_pr")
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        errors.append(
            _error(source, key, f"patches/{path.name}, which is not there", "a file beside series.yml", again)
        )
        return None
    found = digest_of(text)
    if found == row["sha256"]:
        return text
    hint = f"patches/{path.name} was changed: put it back, or pin what it is now: sha256: {found}"
    errors.append(_error(source, (*here, "sha256"), row["sha256"], f"{found}, the hash of patches/{path.name}", hint))
    return None
