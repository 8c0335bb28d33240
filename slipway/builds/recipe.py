"""Finds the recipe for what is asked, and names the build by a hash of all its inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

from slipway.builds.locks import LockRequest, Locks, entries, name_of, without
from slipway.config.deployment import EngineSettings

NO_LOCKS = Locks()
ADDED = ("patches", "git", "constraints", "base")  # fields that builds did not always have


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
class BasePython:
    """A Python of the host whose packages a build is laid over.

    packages: what it must bring, (name, version). cuda_majors: of which torch must be built for one; () for none.
    """

    python: str
    packages: tuple[tuple[str, str], ...]
    cuda_majors: tuple[int, ...] = ()


@dataclass(frozen=True)
class Build:
    """One environment to be installed on a host.

    id: NAME-VERSION-HASH, the hash being over every other field. python: X.Y of the interpreter.
    requirements: lines of a requirements file; locked: whether they are complete and hashed.
    imports: modules that must import before the build is complete. disk_gb: space needed, 10^9 bytes.
    patches: in the order of the series, which is that in which they are applied. git: None for wheels.
    constraints: what a lock was resolved under. base: None when the build brings all its packages itself.
    pip_check_known: (package, why its own requirements are not met), beside what the recipe knows.
    machine: architecture of the host, x86_64 or aarch64.
    wants_lock: what is to be resolved before the build can be made everywhere alike; None when it is locked.
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
    constraints: tuple[str, ...] = ()
    base: BasePython | None = None
    pip_check_known: tuple[tuple[str, str], ...] = ()
    machine: str = "x86_64"
    wants_lock: LockRequest | None = None

    def inputs(self) -> dict[str, Any]:
        """Everything that decides what the build contains, as plain data."""
        data = asdict(self)
        del data["id"]
        if self.locked:  # the same bytes, wherever they come from: the requirements carry their hashes
            data["sources"]["wheelhouse"] = None
        data["patches"] = [patch.inputs() for patch in self.patches]
        data["git"] = {"url": self.git.url, "commit": self.git.commit} if self.git else None
        # Not the contents but what is known of them: the lock that is still wanted, and why gaps are right.
        del data["wants_lock"], data["pip_check_known"]
        if self.machine == "x86_64":  # as all builds once were
            del data["machine"]
        # What a build has not keeps out of its id, so that builds older than the key keep theirs.
        return {key: value for key, value in data.items() if value or key not in ADDED}


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
    base_brings: tuple[str, ...] = ()
    package_imports: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[Mapping[str, Any], ...] = ()

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
        base_brings=tuple(row.get("base_brings", ())),
        package_imports=row.get("package_imports", {}),
        tools=tuple(row.get("tools", ())),
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


@dataclass(frozen=True)
class Asked:
    """What the configuration says of a build beyond its recipe and version; the fields as in Build.

    extra: more requirement lines. named_lock: text of engine.lock. machine: architecture of the host.
    left_out: packages that a lock must not have, for another CUDA.
    """

    sources: Sources = field(default_factory=Sources)
    extra: tuple[str, ...] = ()
    patches: tuple[BuildPatch, ...] = ()
    git: GitSource | None = None
    constraints: tuple[str, ...] = ()
    base: BasePython | None = None
    pip_check_known: Mapping[str, str] = field(default_factory=dict)
    named_lock: str | None = None
    machine: str = "x86_64"
    left_out: tuple[str, ...] = ()


def make_build(recipe: Recipe, version: str, python: str, asked: Asked, locks: Locks = NO_LOCKS) -> Build:
    """Fill in `recipe`, with the lock that is named, ships with it, or was resolved before."""
    requirements, wants = _requirements(recipe, version, python, asked, locks)
    unnamed = Build(
        id="",
        kind=recipe.match["kind"],
        version=version,
        python=python,
        requirements=requirements,
        locked=wants is None,
        imports=_imports(recipe, requirements),
        disk_gb=recipe.disk_gb,
        sources=asked.sources,
        recipe=recipe.name,
        confidence=recipe.confidence,
        patches=asked.patches,
        git=asked.git,
        constraints=asked.constraints,
        base=asked.base,
        pip_check_known=tuple(asked.pip_check_known.items()),
        machine=asked.machine,
        wants_lock=wants,
    )
    return _named(unnamed)


def _imports(recipe: Recipe, requirements: str) -> tuple[str, ...]:
    """The recipe's modules, and those of packages that not every build has."""
    there = {name_of(entry) for entry in entries(requirements)}
    found = [module for name, module in recipe.package_imports.items() if name in there]
    return (*recipe.imports, *dict.fromkeys(found))


def _requirements(
    recipe: Recipe, version: str, python: str, asked: Asked, locks: Locks
) -> tuple[str, LockRequest | None]:
    """The requirements file, and what has to be resolved when it is no lock yet."""
    dropped = _dropped(recipe, asked)
    if asked.named_lock is not None:  # what it names over the base's own is meant
        return without(asked.named_lock, (recipe.distribution,) if asked.git else ()), None
    text = requirements_of(recipe, version)
    if recipe.lock and not asked.extra and not asked.constraints:
        return (without(text, dropped) if dropped else text), None
    own = () if recipe.lock else tuple(text.splitlines())
    pins = tuple(entry.partition(" ")[0] for entry in entries(text)) if recipe.lock else ()
    request = LockRequest(
        (*own, *asked.extra), pins, asked.constraints, dropped, python, asked.machine,
        asked.sources.index_url, asked.sources.extra_index_url, asked.sources.find_links,
    )  # fmt: skip
    shipped = without(text, dropped) if recipe.lock else ""
    if request.key in locks.kept:
        return shipped + without(locks.kept[request.key], ()), None
    wanted = () if asked.git and not recipe.lock else own
    return shipped + "".join(f"{line}\n" for line in (*wanted, *asked.extra)), request


def _dropped(recipe: Recipe, asked: Asked) -> tuple[str, ...]:
    """What a lock must not have: the engine itself on git, torch and its own over a base Python, other lanes."""
    own = (recipe.distribution,) if asked.git else ()
    return (*own, *(recipe.base_brings if asked.base else ()), *asked.left_out)


def requirements_of(recipe: Recipe, version: str) -> str:
    """The recipe's requirements file: its lock, else its few lines with `version` filled in."""
    return _text(recipe.lock) if recipe.lock else "\n".join(recipe.requirements).format(version=version) + "\n"


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
