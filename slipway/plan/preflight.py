"""Findings about a host that can be told from its facts before anything is changed there."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.builds.recipe import Recipe, find_recipe, recipes
from slipway.config.deployment import HostSettings
from slipway.finding import Finding

from .facts import HostFacts, Interpreter


def host_findings(host: HostSettings, facts: HostFacts, recipe: Recipe | None) -> list[Finding]:
    """What stands in the way on this host; a host that was not asked gets one note."""
    found = _router(host)
    if not facts.known:
        text = "planned without asking the host: paths, Python and service manager are assumed"
        return [*found, Finding("host-not-asked", "note", host.name, text, "make dry asks the hosts")]
    found += _python(host, facts, recipe)
    if host.workers and host.engine.kind == "sglang":
        found += _recipe(host, recipe) + _libraries(host, facts, recipe)
    return found


def _python(host: HostSettings, facts: HostFacts, recipe: Recipe | None) -> list[Finding]:
    wanted = host.engine.python
    python = facts.interpreter(wanted)
    if python is None:
        have = ", ".join(sorted({python.version for python in facts.pythons})) or "none"
        text = f"Python {wanted or facts.default_python} is not there (found: {have})"
        return [Finding("python-missing", "error", host.name, text, "install it, or set engine.python")]
    return _interpreter(host, python, recipe)


def _interpreter(host: HostSettings, python: Interpreter, recipe: Recipe | None) -> list[Finding]:
    found = []
    if not python.venv and not host.engine.base_python:  # its pip installs into an environment that has none
        text = f"{python.path} has no venv module"
        fix = f"apt-get install python{python.version}-venv"
        found.append(Finding("python-venv-missing", "error", host.name, text, fix))
    needed = recipe is not None and recipe.python_headers and host.workers and host.engine.kind == "sglang"
    if needed and not python.headers:
        text = f"{python.path} has no C headers (Python.h); the engine compiles kernels at run time"
        fix = f"apt-get install python{python.version}-dev"
        found.append(Finding("python-headers-missing", "error", host.name, text, fix))
    return found


def _recipe(host: HostSettings, recipe: Recipe | None) -> list[Finding]:
    if recipe:
        return []
    engine = host.engine
    text = f"no build recipe for SGLang {engine.version} on {engine.device}"
    fix = "use engine.version 0.5.13 with device cpu, or device cuda"
    source = "CPU kernels of later releases ship in no wheel (docs/reference/cpu-engine.md)"
    return [Finding("recipe-unknown", "error", host.name, text, fix, source)]


def _router(host: HostSettings) -> list[Finding]:
    """Routers have recipes by release; the older package, sglang-router, has none."""
    if "router" not in host.roles or find_recipe({"kind": "router", "version": host.router.version}):
        return []
    known = ", ".join(recipe.match["version"] for recipe in recipes() if recipe.match["kind"] == "router")
    text = f"no build recipe for router.version {host.router.version}: it is a release of the smg package"
    fix = f"use {known}; the older sglang-router (0.3.2 and before) is not installed here, smg took its place"
    return [Finding("router-unknown", "error", host.name, text, fix, "builds/recipes.yml; sglang.md F")]


def _libraries(host: HostSettings, facts: HostFacts, recipe: Recipe | None) -> list[Finding]:
    """Missing system libraries: installed by role host where it may and can; named here, before any change, else."""
    missing = missing_packages(facts, recipe)
    if not missing or (facts.superuser and _installs(host, facts)):
        return []
    why = "" if facts.superuser else " (the login may not install them)"
    if facts.superuser and host.packages == "auto":
        why = " (the host has no default route, so it is not tried to install them)"
    fix = f"sudo apt-get install {' '.join(dict.fromkeys(missing.values()))}; host.packages says who does it"
    text = f"system libraries are missing: {', '.join(missing)}{why}"
    return [Finding("system-library-missing", "error", host.name, text, fix)]


def _installs(host: HostSettings, facts: HostFacts) -> bool:
    """Whether role host installs packages here; `auto` needs a way out to where packages are."""
    if host.packages != "auto":
        return host.packages == "install"
    network = facts.probe.get("network")
    return not isinstance(network, Mapping) or bool(network.get("default_route", True))


def missing_packages(facts: HostFacts, recipe: Recipe | None) -> dict[str, str]:
    """Shared object -> Debian package, for those that the host lacks."""
    wanted = recipe.system_libraries if recipe else {}
    return {library: package for library, package in wanted.items() if facts.known and not facts.libraries.get(library)}


def socket_findings(instance: str, tmp: str) -> list[Finding]:
    """The engine's sockets must fit: a Unix socket's path has at most 107 characters, its names here up to 50."""
    if len(tmp) + 51 <= 107:
        return []
    text = f"its folder for sockets, {tmp}, is {len(tmp)} characters long; at most 56 leave room for a socket's name"
    return [Finding("socket-path", "error", instance, text, "set a shorter `root:` or `deployment:`", "unix(7)")]
