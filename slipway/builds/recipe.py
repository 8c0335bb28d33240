"""Finds the recipe for what is asked, and names the build by a hash of all its inputs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

from slipway.config.deployment import EngineSettings


@dataclass(frozen=True)
class Sources:
    """Where packages come from; None: what the host's pip is configured with."""

    index_url: str | None = None
    extra_index_url: str | None = None
    find_links: str | None = None
    wheelhouse: str | None = None


@dataclass(frozen=True)
class BuildPatch:
    """A patch of the series that a build has. path: of its diff on the controller. strip, base: as in series.yml."""

    id: str
    sha256: str = ""
    path: str = ""
    strip: str = "python"
    why: str = ""
    upstream: str = ""
    remove_when: str = ""
    github_pr: str = ""
    base: str = ""

    def inputs(self) -> dict[str, str]:
        """What of it decides what the build contains."""
        return {"id": self.id, "sha256": self.sha256, "strip": self.strip}


@dataclass(frozen=True)
class GitSource:
    """A commit that the engine is installed from. depth: commits that are fetched, 0 for all."""

    url: str
    commit: str
    depth: int = 1


@dataclass(frozen=True)
class Build:
    """One environment to be installed on a host.

    id: NAME-VERSION-HASH, the hash being over every other field. python: X.Y of the interpreter.
    requirements: lines of a requirements file; locked: whether they are complete and hashed.
    imports: modules that must import before the build is complete. disk_gb: space needed, 10^9 bytes.
    patches: in the order of the series, which is that in which they are applied. git: None for wheels.
    """

    id: str
    kind: str
    version: str
    python: str
    requirements: str
    locked: bool
    imports: tuple[str, ...]
    disk_gb: float
    sources: Sources
    recipe: str
    confidence: str
    patches: tuple[BuildPatch, ...] = ()
    git: GitSource | None = None

    def inputs(self) -> dict[str, Any]:
        """Everything that decides what the build contains, as plain data."""
        data = asdict(self)
        del data["id"]
        if self.locked:  # the same bytes, wherever they come from: the requirements carry their hashes
            data["sources"]["wheelhouse"] = None
        data["patches"] = [patch.inputs() for patch in self.patches]
        data["git"] = {"url": self.git.url, "commit": self.git.commit} if self.git else None
        # A build without patches, of wheels, keeps the id that it had before there were any.
        return {key: value for key, value in data.items() if value or key not in ("patches", "git")}


@dataclass(frozen=True)
class Recipe:
    """How a kind of build is put together and what running it needs; a row of recipes.yml."""

    name: str
    match: Mapping[str, str]
    imports: tuple[str, ...]
    system_libraries: Mapping[str, str]
    disk_gb: float
    python_headers: bool
    environment: Mapping[str, str]
    arguments: Mapping[str, Any]
    transfer_backend: str | None
    lock: str | None
    requirements: tuple[str, ...]
    confidence: str
    source: str
    distribution: str = ""
    pip_check_known: Mapping[str, str] = field(default_factory=dict)

    def fits(self, wanted: Mapping[str, str]) -> bool:
        """Whether every setting that the recipe is for is as wanted."""
        return all(wanted.get(key) == value for key, value in self.match.items())


@cache
def recipes() -> tuple[Recipe, ...]:
    """All rows of recipes.yml, in the file's order."""
    rows = yaml.safe_load(_text("recipes.yml"))
    return tuple(_recipe(name, row) for name, row in rows.items())


def _recipe(name: str, row: Mapping[str, Any]) -> Recipe:
    return Recipe(
        name=name,
        match=row["match"],
        imports=tuple(row["imports"]),
        system_libraries=row["system_libraries"],
        disk_gb=row["disk_gb"],
        python_headers=row.get("python_headers", False),
        environment=row.get("environment", {}),
        arguments=row.get("arguments", {}),
        transfer_backend=row.get("transfer_backend"),
        lock=row.get("lock"),
        requirements=tuple(row.get("requirements", ())),
        confidence=row["confidence"],
        source=row["source"],
        distribution=row.get("distribution", ""),
        pip_check_known=row.get("pip_check_known", {}),
    )


def _text(name: str) -> str:
    return resources.files("slipway.builds").joinpath(name).read_text(encoding="utf-8")


def find_recipe(wanted: Mapping[str, str]) -> Recipe | None:
    """The recipe that fits `wanted` and says most about it; None when there is none."""
    fitting = [recipe for recipe in recipes() if recipe.fits(wanted)]
    return max(fitting, key=lambda recipe: len(recipe.match), default=None)


def engine_recipe(engine: EngineSettings) -> Recipe | None:
    """The recipe for the engine as configured, which the simulator stands in for; None when there is none."""
    return find_recipe({"kind": "sglang", "device": engine.device, "version": engine.version})


def make_build(
    recipe: Recipe,
    version: str,
    python: str,
    sources: Sources,
    extra: tuple[str, ...] = (),
    patches: tuple[BuildPatch, ...] = (),
    git: GitSource | None = None,
) -> Build:
    """Fill in `recipe`; extra: more requirement lines, NAME==VERSION. git: the package comes from there."""
    base = requirements_of(recipe, version)
    if git:
        base = without(base, recipe.distribution)
    unnamed = Build(
        id="",
        kind=recipe.match["kind"],
        version=version,
        python=python,
        requirements=base + "".join(f"{line}\n" for line in extra),
        locked=recipe.lock is not None and not extra,
        imports=recipe.imports,
        disk_gb=recipe.disk_gb,
        sources=sources,
        recipe=recipe.name,
        confidence=recipe.confidence,
        patches=patches,
        git=git,
    )
    return _named(unnamed)


def requirements_of(recipe: Recipe, version: str) -> str:
    """The recipe's requirements file: its lock, else its few lines with `version` filled in."""
    return _text(recipe.lock) if recipe.lock else "\n".join(recipe.requirements).format(version=version) + "\n"


def without(requirements: str, distribution: str) -> str:
    """A requirements file but for the lines, continued ones included, that pin `distribution`."""
    pin = rf"^{re.escape(distribution)}(\[[^]]*\])?==(.*\\\n)*.*\n?"
    return re.sub(pin, "", requirements, flags=re.MULTILINE)


def _named(build: Build) -> Build:
    digest = hashlib.sha256(json.dumps(build.inputs(), sort_keys=True).encode()).hexdigest()[:12]
    return Build(**{**_fields(build), "id": f"{build.kind}-{build.version}-{digest}"})


def _fields(build: Build) -> dict[str, Any]:
    return {name: getattr(build, name) for name in Build.__dataclass_fields__}


def engine_recipes_of(builds: tuple[Build, ...]) -> Recipe | None:
    """The recipe of the engine among `builds`; None when there is no engine."""
    names = {build.recipe for build in builds if build.kind == "sglang"}
    return next((recipe for recipe in recipes() if recipe.name in names), None)


def recipe_named(name: str) -> Recipe:
    """The recipe with this name; KeyError when there is none."""
    return {recipe.name: recipe for recipe in recipes()}[name]
