"""Picks from a wheelhouse, a folder of wheels on the controller, the ones that a build installs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slipway.builds.locks import normal
from slipway.builds.recipe import Build
from slipway.plan.model import Files

PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
INSTALLER = "uv"  # travels along: it is much quicker than pip, and needs nothing of the host but Python


@dataclass(frozen=True)
class Wheel:
    """What a wheel's file name says. version: without the local part, as `==2.13.0` also takes 2.13.0+cpu."""

    file: str
    name: str
    version: str
    pythons: tuple[str, ...]
    abis: tuple[str, ...]

    def fits(self, python: str) -> bool:
        """Whether Python X.Y installs it, as far as the name tells."""
        major, _, minor = python.partition(".")
        pure = [int(tag[3:] or 0) for tag in self.pythons if re.fullmatch(r"py3\d*", tag)]
        if f"cp{major}{minor}" in self.pythons or any(number <= int(minor or 0) for number in pure):
            return True  # PEP 425: pure wheels of an earlier 3.x do for later ones
        lowest = [int(tag[3:]) for tag in self.pythons if re.fullmatch(r"cp3\d+", tag)]
        return "abi3" in self.abis and any(number <= int(minor or 0) for number in lowest)


def read_name(file: str) -> Wheel | None:
    """A wheel by its file name, NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl; None for any other file."""
    parts = file.removesuffix(".whl").split("-")
    if not file.endswith(".whl") or len(parts) not in (5, 6):
        return None
    version = parts[1].partition("+")[0]
    return Wheel(file, normal(parts[0]), version, tuple(parts[-3].split(".")), tuple(parts[-2].split(".")))


def pinned(requirements: str) -> dict[str, str]:
    """Name -> version of every pinned line of a requirements file."""
    return {normal(name): version.partition("+")[0] for name, version in PINNED.findall(requirements)}


def pick(build: Build, wheelhouse: Files) -> tuple[Files, list[str]]:
    """The wheels that `build` installs, with the installer, and the packages that the wheelhouse lacks.

    A build that is not locked names only what it is asked for, so all wheels that fit its Python travel.
    """
    fitting = [wheel for wheel in _wheels(wheelhouse) if wheel.fits(build.python)]
    wanted = pinned(build.requirements)
    taken = [wheel for wheel in fitting if not build.locked or wanted.get(wheel.name) == wheel.version]
    installer = [wheel for wheel in fitting if wheel.name == INSTALLER]
    found = {(wheel.name, wheel.version) for wheel in taken}
    missing = [f"{name}=={version}" for name, version in sorted(wanted.items()) if (name, version) not in found]
    names = sorted({wheel.file for wheel in [*taken, *installer]})
    return Files(wheelhouse.source, {name: wheelhouse.entries[name] for name in names}), missing


def _wheels(wheelhouse: Files) -> Iterator[Wheel]:
    yield from filter(None, map(read_name, sorted(wheelhouse.entries)))


def hashes_in(wheelhouse: Files, python: str) -> dict[tuple[str, str], list[str]]:
    """By (name, version), the hashes of the wheels that Python X.Y installs: those of wheels made by hand count too."""
    found: dict[tuple[str, str], list[str]] = {}
    for wheel in _wheels(wheelhouse):
        if wheel.fits(python):
            found.setdefault((wheel.name, wheel.version), []).append(wheelhouse.entries[wheel.file][1])
    return found
