"""Engine flags of a release: known names, checks of values, and argv spelt as that release spells it.

The lists in `flags/*.json` are what the argparse parser of each published wheel accepts; `renames.yml`
holds what changed its name. A release without a shipped list borrows the nearest one, says so, and is
corrected by the ranges of the renames.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, Self

from slipway.knowledge import tables
from slipway.knowledge.flag_values import spell_value, value_problem
from slipway.knowledge.problems import Problem
from slipway.knowledge.versions import Version, version

Kind = Literal["value", "switch", "toggle", "ignored"]
_KINDS = ("value", "switch", "toggle", "ignored")
_RENAMES = "renames.yml"
_ROW_KEYS = frozenset({"also", "dest", "kind", "type", "nargs", "choices", "default", "required", "deprecated"})


class FlagError(ValueError):
    """Settings that the release does not accept; `problems` has all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep every problem, print them all."""
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag as a release's parser has it: `switch` is store_true, `toggle` has a --no- form."""

    name: str
    also: tuple[str, ...] = ()
    dest: str = ""
    kind: Kind = "value"
    type: str = "str"
    nargs: str | None = None
    choices: tuple[Any, ...] = ()
    default: Any = None
    required: bool = False
    deprecated: str | None = None

    @classmethod
    def parse(cls, file: str, name: str, row: Any) -> Flag:
        """Read one compact row; names file and flag when it is malformed."""
        if not name.startswith("--") or not isinstance(row, dict):
            raise tables.TableError(file, name, "must be '--name': {...}")
        tables.check_keys(file, name, row, _ROW_KEYS)
        kind = row.get("kind", "value")
        if kind not in _KINDS:
            raise tables.TableError(file, name, f"kind is {kind!r}; must be one of {', '.join(_KINDS)}")
        return cls(
            name=name,
            also=tuple(row.get("also", ())),
            dest=row.get("dest", _key(name)),
            kind=kind,
            type=row.get("type", "str"),
            nargs=row.get("nargs"),
            choices=tuple(row.get("choices") or ()),
            default=row.get("default"),
            required=bool(row.get("required", False)),
            deprecated=row.get("deprecated"),
        )


@dataclass(frozen=True, slots=True)
class Rename:
    """A flag that got another name; with `new_value` the old switch became a value of the new flag."""

    old: str
    new: str
    new_since: Version
    old_until: Version
    source: str
    new_value: str | None = None


@dataclass(frozen=True, slots=True)
class Removal:
    """A flag that left without one that takes its value."""

    flag: str
    gone_since: Version
    successor: str | None
    source: str


@dataclass(frozen=True)
class FlagList:
    """Every flag that one release accepts."""

    release: str
    flags: Mapping[str, Flag]
    source: str
    exact: bool = True
    note: str = ""

    @classmethod
    def for_release(cls, release: str, shipped: tuple[str, ...] | None = None) -> FlagList:
        """Return the list of a release; the nearest shipped one, with a note, when it is not shipped."""
        return _for_release(release, tuple(sorted(shipped, key=version)) if shipped else shipped_releases())

    @classmethod
    def from_json(cls, learnt: str | Mapping[str, Any], file: str = "learnt flag list") -> Self:
        """Read a list learnt from a built engine; the same format as flags/*.json."""
        parsed = json.loads(learnt) if isinstance(learnt, str) else learnt
        if not isinstance(parsed, Mapping) or not isinstance(parsed.get("flags"), Mapping):
            raise tables.TableError(file, "-", 'must be {"release": ..., "source": ..., "flags": {...}}')
        flags = {name: Flag.parse(file, name, row) for name, row in parsed["flags"].items()}
        return cls(str(parsed.get("release", "unknown")), flags, str(parsed.get("source", file)))

    def find(self, name: str) -> Flag | None:
        """Look a flag up by any of its spellings: dashed or snake_case, alias, field name, shorthand."""
        key = _key(name)
        return self._index.get(key) or self._index.get(_shorthands().get(key, ""))

    def has(self, name: str) -> bool:
        """Tell whether a setting of this name can be rendered, renames included."""
        targets = (rename.new if key == _key(rename.old) else rename.old for key, rename in _renames_of(name))
        return self.find(name) is not None or any(self.find(target) is not None for target in targets)

    def translate(self, name: str, value: Any) -> tuple[Flag, Any, Rename | None] | None:
        """Find the flag and value that a setting means in this release, renames applied both ways."""
        found = self.find(name)
        if found is not None:
            return found, value, None
        for key, rename in _renames_of(name):
            moved = _moved(rename, key, value)
            target = self.find(moved[0]) if moved else None
            if moved and target is not None:
                return target, moved[1], rename
        return None

    def check(self, name: str, value: Any) -> list[Problem]:
        """Say what this release would make of one setting; empty when it accepts it as it stands."""
        meant = self.translate(name, value)
        if meant is None:
            return [self._unknown(name)]
        flag, value, rename = meant
        remarks = [] if rename is None else [self._renamed(name, flag, rename)]
        if rename is None and flag.deprecated is not None:
            remarks.append(self._deprecated(name, flag))
        wrong = value_problem(flag, name, value, self.release, self.source)
        return [*remarks, wrong] if wrong else remarks

    def check_all(self, settings: Mapping[str, Any]) -> list[Problem]:
        """Check every setting, and that no two of them set the same thing."""
        found = [problem for name, value in settings.items() for problem in self.check(name, value)]
        return found + list(self._duplicates(settings))

    def render(self, settings: Mapping[str, Any]) -> list[str]:
        """Spell settings as argv of this release; FlagError when it would refuse them."""
        errors = [problem for problem in self.check_all(settings) if problem.severity == "error"]
        if errors:
            raise FlagError(errors)
        argv: list[str] = []
        for name, value in settings.items():
            meant = self.translate(name, value)
            if meant is not None:
                argv += spell_value(meant[0], meant[1])
        return argv

    def spelling(self, name: str) -> str | None:
        """Return the flag name that this release uses for a setting, or None."""
        meant = self.translate(name, True)
        return meant[0].name if meant else None

    @cached_property
    def _index(self) -> dict[str, Flag]:
        """Map every spelling to its flag; a live flag wins a field name over its deprecated alias."""
        index: dict[str, Flag] = {}
        for flag in self.flags.values():
            index.update({_key(option): flag for option in (flag.name, *flag.also)})
        for flag in sorted(self.flags.values(), key=lambda flag: flag.deprecated is not None):
            index.setdefault(flag.dest, flag)
        return index

    def _duplicates(self, settings: Mapping[str, Any]) -> Iterator[Problem]:
        """Find settings that land in one field of the engine, where the last would silently win."""
        seen: dict[str, str] = {}
        for name, value in settings.items():
            meant = self.translate(name, value)
            if meant is None or value is None:
                continue
            first = seen.setdefault(meant[0].dest, name)
            if first != name:
                yield Problem(
                    "error",
                    "flag-twice",
                    f"{name} and {first} set the same flag {meant[0].name} in SGLang {self.release}",
                    "keep one of them",
                    self.source,
                    name,
                )

    def _unknown(self, name: str) -> Problem:
        """Explain a name that the release lacks: removed, too new, or misspelt."""
        option = "--" + _key(name).replace("_", "-")
        removal = next((row for row in _removals() if row.flag == option), None)
        here = Version.parse(self.release)
        if removal is not None and here is not None and removal.gone_since <= here:
            fix = f"use {removal.successor}" if removal.successor else "take it out; nothing replaces it"
            message = f"SGLang {self.release} has no {option}: removed in {removal.gone_since}"
            return Problem("error", "flag-removed", message, fix, removal.source, name)
        return self._absent(name, option)

    def _absent(self, name: str, option: str) -> Problem:
        """Explain a name that no removal covers, by the other releases and the nearest spellings."""
        releases = [item for item in shipped_releases() if _shipped(item).find(name) is not None]
        if releases:
            message = f"SGLang {self.release} has no {option}: it exists from {releases[0]} to {releases[-1]}"
            fix = f"take it out, or pin a release that has it ({releases[0]} to {releases[-1]})"
            return Problem("error", "flag-other-release", message, fix, self.source, name)
        near = difflib.get_close_matches(_key(name), list(self._index), n=3, cutoff=0.6)
        names = list(dict.fromkeys(self._index[item].name for item in near))
        fix = f"did you mean {' or '.join(names)}?" if names else "see the release's flag list"
        return Problem("error", "flag-unknown", f"SGLang {self.release} has no {option}", fix, self.source, name)

    def _renamed(self, name: str, flag: Flag, rename: Rename) -> Problem:
        """Note that a setting goes out under another name in this release."""
        message = (
            f"{name} is spelt {flag.name} in SGLang {self.release} ({rename.old} until {rename.old_until}, "
            f"{rename.new} since {rename.new_since})"
        )
        return Problem("note", "flag-renamed", message, "", rename.source, name)

    def _deprecated(self, name: str, flag: Flag) -> Problem:
        """Note a flag that still works, or does nothing, and will leave."""
        dead = flag.kind == "ignored"
        state = "does nothing or is refused in" if dead else "is deprecated in"
        fix = f"use {flag.deprecated}" if flag.deprecated else "take it out"
        message = f"{flag.name} {state} SGLang {self.release}"
        return Problem("warning" if dead else "note", "flag-deprecated", message, fix, self.source, name)


def shipped_releases() -> tuple[str, ...]:
    """Name the releases whose flag list ships with Slipway, oldest first."""
    return tuple(sorted(tables.shipped("flags", ".json"), key=version))


@cache
def _shipped(release: str) -> FlagList:
    """Load one shipped list."""
    file = f"flags/{release}.json"
    return FlagList.from_json(tables.load(file), file)


@cache
def _for_release(release: str, shipped: tuple[str, ...]) -> FlagList:
    """Pick the list of a release among those shipped."""
    if release in shipped:
        return _shipped(release)
    wanted = Version.parse(release)
    if wanted is None:
        return _borrow(release, None, shipped[-1])
    same = next((item for item in shipped if version(item) == wanted), None)
    older = [item for item in shipped if version(item) <= wanted]
    return _shipped(same) if same else _borrow(release, wanted, older[-1] if older else shipped[0])


def _borrow(release: str, wanted: Version | None, lender: str) -> FlagList:
    """Make a list for a release that has none: the lender's, with the known renames of the gap applied."""
    lent = _shipped(lender)
    flags = dict(lent.flags)
    if wanted is not None:
        _apply_gap(flags, wanted)
    note = (
        f"Slipway ships no flag list of SGLang {release}; the list of {lender} stands in, with known renames "
        f"applied. The real list is learnt when the engine is built."
    )
    return FlagList(release, flags, f"{lent.source}, standing in for {release}", exact=False, note=note)


def _apply_gap(flags: dict[str, Flag], wanted: Version) -> None:
    """Correct a borrowed list by the ranges of renames.yml."""
    for rename in _renames():
        if rename.old_until <= wanted:
            flags.pop(rename.old, None)
        if rename.new_since <= wanted and rename.new not in flags and not _gone(rename.new, wanted):
            flags[rename.new] = _any_shipped(rename.new)
    for removal in _removals():
        if removal.gone_since <= wanted:
            flags.pop(removal.flag, None)


def _gone(name: str, wanted: Version) -> bool:
    """Tell whether a flag has left by that release."""
    return any(row.flag == name and row.gone_since <= wanted for row in _removals())


def _any_shipped(name: str) -> Flag:
    """Take a flag's shape from the first shipped list that has it."""
    lists = (_shipped(item) for item in shipped_releases())
    return next((item.flags[name] for item in lists if name in item.flags), Flag(name, dest=_key(name)))


def _renames_of(name: str) -> list[tuple[str, Rename]]:
    """List the renames that concern a setting, with its key."""
    key = _shorthands().get(_key(name), _key(name))
    return [(key, row) for row in _renames() if key in (_key(row.old), _key(row.new))]


def _moved(rename: Rename, key: str, value: Any) -> tuple[str, Any] | None:
    """Apply one rename to a setting, in whichever direction it fits; None when it does not."""
    if key == _key(rename.old):
        if rename.new_value is None:
            return rename.new, value
        return (rename.new, rename.new_value if value is True else None) if isinstance(value, bool) else None
    if key == _key(rename.new):
        if rename.new_value is None:
            return rename.old, value
        return (rename.old, True) if value == rename.new_value else None
    return None


def _key(name: str) -> str:
    """Reduce any spelling of a flag to one key: no leading dashes, underscores inside."""
    return str(name).strip().lstrip("-").replace("-", "_")


@cache
def _shorthands() -> Mapping[str, str]:
    """Read the short names that config accepts."""
    return {str(key): str(value) for key, value in tables.load(_RENAMES)["shorthands"].items()}


@cache
def _renames() -> tuple[Rename, ...]:
    """Read the renames."""
    return tuple(
        Rename(
            row["old"],
            row["new"],
            version(row["new_since"]),
            version(row["old_until"]),
            row["source"],
            row.get("new_value"),
        )
        for row in tables.rows(_RENAMES, "renames")
    )


@cache
def _removals() -> tuple[Removal, ...]:
    """Read the removals."""
    return tuple(
        Removal(row["flag"], version(row["gone_since"]), row["successor"], row["source"])
        for row in tables.rows(_RENAMES, "removed")
    )
