"""Role engine: the builds of this host, each made once in a detached job and never changed again."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles import jobs
from roles.artefact import send
from roles.engine.fan_out import downloaded
from roles.remote import RemoteError, agent_command, check, execute, upload
from roles.run import Run
from roles.steps import read_back
from roles.write import write_rows
from slipway.builds.recipe import Build, BuildPatch, recipe_named
from slipway.bundle import agent_bundle
from slipway.converge.change import Change
from slipway.knowledge.flags import FlagList
from slipway.plan.facts import oldest_glibc
from slipway.plan.model import HostPlan, to_json
from slipway.plan.wheelhouse import digest_of

BUILD_DEADLINE_S = 3600.0


@dataclass(frozen=True)
class Around:
    """What is said of a host's builds beside the plan: their user, the environment that each is run in by its id, the
    rules that the operator waived, who downloads, and the oldest C library of all hosts."""

    user: str
    env: Mapping[str, Mapping[str, str]]
    waived: tuple[str, ...]
    download: str
    glibc: str


@deploy("Engine")
def engine(run: Run) -> None:
    """Install every build that the plan wants here and that is not complete."""
    settings, plan = run.opened.deployment.host(current_host.name), run.host_plan
    env = {one.build: _gated(one.env) for one in reversed(run.plan.on(plan.name))}
    oldest = oldest_glibc(run.facts.values())
    around = Around(plan.user, env, tuple(settings.waive), settings.engine.download, oldest)
    builds(name="Install the builds", plan=plan, around=around, changes=run.here("engine"))


@operation()
def builds(plan: HostPlan, around: Around, changes: list[Change]) -> Generator[Any, None, None]:
    """Make the builds named by `changes`, side by side. around: what else is known of the host.

    Example: `builds(name="Install the builds", plan=run.host_plan, around=around, changes=run.here("engine"))`.
    """
    if not changes:
        current_host.noop("every build is complete")
        return
    yield FunctionCommand(_install, (plan, around, [change.data for change in changes]), {})
    yield FunctionCommand(read_back, (changes,), {})


def _install(state: Any, host: Host, plan: HostPlan, around: Around, names: list[str]) -> bool:
    try:
        if plan.simulator in names:
            _place_simulator(host, plan)
        wanted = [build for build in plan.builds if build.id in names]
        made = [_job(host, plan, build, around) for build in wanted]
        for job in made:
            jobs.forget_ended(host, plan, job)
            jobs.start(host, plan, job)
        jobs.watch(host, plan, made, BUILD_DEADLINE_S)
        for build in wanted:
            learn_flags(host, f"{plan.paths['engines']}/{build.id}", build, _flags_folder(host))
    except RemoteError as error:
        logger.error(f"{host.print_prefix}{error}")
        return False
    return True


def _flags_folder(host: Host) -> Path:
    return Path(host.data.slipway_inventory).parent / ".slipway" / "flags"


def learn_flags(host: Host, path: str, build: Build, folder: Path) -> None:
    """Keep the flag list of a built engine whose release ships none, so that the next plan is held to it."""
    if build.kind != "sglang" or FlagList.for_release(build.version).exact:
        return
    output = execute(host, ["cat", f"{path}/flags.json"])
    if output.ok:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{build.version}.json").write_text("\n".join(output.stdout) + "\n", encoding="utf-8")
        logger.info(f"{host.print_prefix}the flags of SGLang {build.version} are learnt: {folder}")


def _sources(host: Host, plan: HostPlan, build: Build, around: Around) -> dict[str, str | None]:
    """Where the build's packages come from; the wheels that travel are on the host afterwards."""
    wheels = plan.wheels.get(build.id)
    if wheels is None and around.download == "controller" and build.locked and not build.git:
        wheels = downloaded(host, build, around.glibc)
    if wheels is None:
        return dict(to_json(build.sources))
    folder = f"{plan.paths['root']}/wheelhouse/{digest_of(wheels)}"
    if execute(host, ["test", "-d", folder]).ok:  # it is put there whole, and removed when the build is complete
        logger.info(f"{host.print_prefix}{build.id}: its wheels are on the host already")
    else:
        send(host, plan, wheels, folder, f"wheels of {build.id}")
    return {"wheelhouse": folder}


def _job(host: Host, plan: HostPlan, build: Build, around: Around) -> jobs.Job:
    """The job that makes `build`; its request lies beside the job for whoever looks later."""
    path = f"{plan.paths['engines']}/{build.id}"
    request = f"{plan.paths['jobs']}/{build.id}.json"
    recipe = recipe_named(build.recipe)
    content = {
        "path": path, "id": build.id, "python": plan.python, "requirements": build.requirements,
        "locked": build.locked, "imports": list(build.imports), "disk_gb": build.disk_gb,
        "environment": dict(recipe.environment), "sources": _sources(host, plan, build, around),
        "inputs": build.inputs(), "uv": f"{plan.paths['root']}/tools/uv",
        "distribution": recipe.distribution, "version": build.version,
        "patches": [_patch(patch) for patch in build.patches], "git": to_json(build.git),
        "pip_check_known": {**recipe.pip_check_known, **dict(build.pip_check_known)}, "base": _base(build),
        "pip": _lender(plan), "tools": [tool for tool in recipe.tools if tool.get("waived_by") not in around.waived],
        "service": {"user": around.user, "env": around.env[build.id]} if build.id in around.env else None,
    }  # fmt: skip
    write_rows(host, {"files": [{"path": request, "text": json.dumps(content), "mode": "644", "user": ""}]})
    command = agent_command(plan, "build", request)
    return jobs.Job(build.id, f"{plan.paths['jobs']}/{build.id}", build.id, command)


def _gated(env: Mapping[str, str]) -> dict[str, str]:
    """What gates are run in: the unit's environment without what names the instance, which is not running yet."""
    return {name: value for name, value in env.items() if not name.startswith("SLIPWAY_")}


def _base(build: Build) -> dict[str, Any] | None:
    return {**to_json(build.base), "packages": dict(build.base.packages)} if build.base else None


def _lender(plan: HostPlan) -> str:
    """A Python whose pip works into environments without one; '' where each environment gets its own."""
    return next((build.base.python for build in plan.builds if build.base), "")


def _patch(patch: BuildPatch) -> dict[str, str]:
    """A patch with its text, which the agent holds against the plan's hash."""
    try:
        text = Path(patch.path).read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise RemoteError(f"patch {patch.id} cannot be read: {error}") from None
    return {**to_json(patch), "text": text}


def _place_simulator(host: Host, plan: HostPlan) -> None:
    """The simulator is the agent bundle under a name of its own, so that a new agent restarts nothing else."""
    folder = f"{plan.paths['engines']}/{plan.simulator}"
    check(host, ["rm", "-rf", folder])
    check(host, ["mkdir", "-p", folder])
    upload(host, agent_bundle(), f"{folder}/agent.pyz")
    check(host, agent_command(plan, "seal", folder))
