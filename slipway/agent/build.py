"""Installs one build on a host: environment, packages, import gate, record; complete only when all of it held.

usage: build REQUEST.json, with keys path (of the build), id, python (interpreter), requirements, locked,
imports, disk_gb, sources, inputs, uv (folder for our own uv); and distribution, version, patches, git,
pip_check_known (package: why its requirements are not met); and base, a Python whose packages the build is laid over:
python, packages (name: version that it must bring), cuda_majors. service: user and environment of what runs the build;
tools: compilers that it needs at run time. Standard library only, Python 3.9+.
sources.wheelhouse is a folder on this host with all wheels; it is removed once the build is complete.
A build that is not complete is removed and made anew; a complete one is never touched, and one that was changed since
is made anew beside it, which then takes its place.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import pwd
import shutil
import subprocess
import sys
import time
import zipfile
from typing import Any

from slipway.agent import sources
from slipway.agent.files import write_whole
from slipway.agent.gates import NO_IMPORT, normal, unmet
from slipway.agent.patch import lines_about, patch_wheel
from slipway.agent.patch_git import clone, patch_checkout
from slipway.agent.patch_tree import Applied, Patch, PatchError
from slipway.agent.state import build_state, fingerprint, free_bytes, stamp

MAKING = ".making"  # where a damaged build is made anew, beside it
MOST_OF_A_SCRIPT = 64 * 1024
# What holds this program: the bundle, or a checkout.
OURSELVES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SITE = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
SITES = "import json, sys; print(json.dumps([p for p in sys.path if p.endswith(('site-packages', 'dist-packages'))]))"
HOMES = (
    "import importlib.metadata as m, json, sys; print(json.dumps([str(m.distribution(n)._path) for n in sys.argv[1:]]))"
)
BASE = (
    "import json, sys; sys.path.append(sys.argv[1]); from slipway.agent.gates import wrong_base; "
    "print(wrong_base(json.loads(sys.argv[2])))"
)


class BuildError(Exception):
    """A sentence for the operator: what failed, and what to do."""


def build(request: dict[str, Any]) -> None:
    """Make the build unless it is complete. Raises BuildError; what was complete before stays as it was then."""
    path, began = request["path"], time.time()
    kind = build_state(path)["kind"]
    if kind == "complete":
        clear_wheelhouse(request)
        say(f"{request['id']} is complete")
        return
    check_disk(path, request["disk_gb"])
    check_base(request)
    work = path + MAKING if kind == "damaged" else path
    for left in (path + MAKING, *([path] if work == path else [])):
        shutil.rmtree(left, ignore_errors=True)
    make({**request, "path": work}, began)
    if work != path:
        take_place(work, path)
    clear_wheelhouse(request)
    say(f"{request['id']} is complete after {time.time() - began:.0f} s")


def make(request: dict[str, Any], began: float) -> None:
    """The build at request.path, whole. Raises BuildError."""
    os.makedirs(request["path"], mode=0o755)
    install(request)
    applied = patched(request)
    request = {**request, "imports": [*request["imports"], *[name for one in applied for name in one.modules()]]}
    gate(request)
    if request["path"].endswith(MAKING):
        rename_inside(request["path"], request["path"][: -len(MAKING)])
    record(request, time.time() - began, applied)


def rename_inside(work: str, path: str) -> None:
    """Programs of an environment name it in their first line: give them the place that it is going to have."""
    for folder in (os.path.join(work, "venv/bin"), os.path.join(work, "venv")):
        for name in os.listdir(folder):
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full) and os.path.getsize(full) < MOST_OF_A_SCRIPT:
                replace_in(full, work.encode(), path.encode())


def replace_in(full: str, old: bytes, new: bytes) -> None:
    """Another file in its place, as it may be a hard link into a cache."""
    with open(full, "rb") as file:
        data = file.read()
    if old in data:
        with open(full + ".new", "wb") as file:
            file.write(data.replace(old, new))
        os.chmod(full + ".new", os.stat(full).st_mode & 0o777)
        os.replace(full + ".new", full)


def take_place(work: str, path: str) -> None:
    """A damaged build that something may still run from is kept beside; its place is empty for no longer than this."""
    kept = f"{path}.damaged-{int(time.time())}"
    os.rename(path, kept)
    os.rename(work, path)
    say(f"the damaged build is kept as {kept}")


def clear_wheelhouse(request: dict[str, Any]) -> None:
    """The wheels have been installed; a folder of them is as large as the build."""
    if request["sources"].get("wheelhouse"):
        shutil.rmtree(request["sources"]["wheelhouse"], ignore_errors=True)


def say(text: str) -> None:
    """One line of progress; the controller shows the last one."""
    print(text, flush=True)


def check_disk(path: str, needed_gb: float) -> None:
    """Refuse before the first byte when there is not room for it."""
    free = free_bytes(path) / 1e9
    if free < needed_gb:
        place = os.path.dirname(path)
        raise BuildError(f"{place} has {free:.1f} GB free; the build needs {needed_gb} GB. Free some, or set `root:`")


def check_base(request: dict[str, Any]) -> None:
    """Refuse a base Python without what the build counts on before anything is installed."""
    base = request.get("base")
    if base and not os.access(base["python"], os.X_OK):
        raise BuildError(f"{base['python']} is no program on this host; set engine.base_python to one, or to null")
    wrong = asked_of(base["python"], BASE, OURSELVES, json.dumps({"base": base})) if base else ""
    if wrong:
        raise BuildError(wrong.splitlines()[-1])


def install(request: dict[str, Any]) -> None:
    """Environment and packages, by uv where it can be had, else by pip."""
    path, python = request["path"], request["python"]
    venv, wanted = os.path.join(path, "venv"), os.path.join(path, "requirements.txt")
    with open(wanted, "w", encoding="utf-8") as file:
        file.write(request["requirements"])
    uv = find_uv(request)
    say(f"installing {request['id']} with {'uv' if uv else 'pip'}")
    for step in (uv_steps if uv else pip_steps)(uv or python, python, venv, wanted, request):
        call(step, environment(request))
    lay_over(request)
    # The environment's files are hard links into uv's cache: a cache that stayed would share any later damage.
    shutil.rmtree(path + ".uv-cache", ignore_errors=True)


def lay_over(request: dict[str, Any]) -> None:
    """Let the build see the base Python's packages behind its own; last, so that no installer counts on them."""
    base = request.get("base")
    if not base:
        return
    folders = json.loads(asked_of(base["python"], SITES))
    lines = [f"import site; site.addsitedir({folder!r})" for folder in folders]
    with open(os.path.join(site_of(request), "slipway-base.pth"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def asked_of(python: str, code: str, *words: str) -> str:
    """What a Python prints, whatever is set around it. Raises BuildError when it cannot be run."""
    command = [python, "-I", "-c", code, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{python} cannot be asked: {done.stdout.strip()[-300:]}")
    return done.stdout.strip()


def site_of(request: dict[str, Any]) -> str:
    """The build's own site-packages."""
    return asked_of(os.path.join(request["path"], "venv/bin/python"), SITE)


def patched(request: dict[str, Any]) -> list[Applied]:
    """The packages with the build's patches. Raises BuildError; no file is changed then."""
    if not request.get("patches") and not request.get("git"):
        return []
    try:
        applied = from_git(request) if request.get("git") else on_wheel(request)
    except PatchError as error:
        print(error, flush=True)
        raise BuildError(str(error).replace("\n", ";")) from None
    for line in lines_about(applied, f"{request['distribution']} {request['version']}"):
        say(line)
    return applied


def on_wheel(request: dict[str, Any]) -> list[Applied]:
    """Patch what was installed."""
    return patch_wheel(site_of(request), request["distribution"], [Patch.of(row) for row in request["patches"]])


def from_git(request: dict[str, Any]) -> list[Applied]:
    """Check the commit out, patch it, and install what it is then; the checkout stays beside for who wonders."""
    git, source = request["git"], os.path.join(request["path"], "src")
    say(f"fetching {git['url']} {git['commit'][:12]}")
    checkout = clone(source, git["url"], git["commit"], git["depth"])
    applied = patch_checkout(checkout, request.get("patches", []), [request["distribution"]])
    folder = os.path.join(source, "python")
    folder = folder if os.path.isdir(folder) else source
    env = {**environment(request), "SETUPTOOLS_SCM_PRETEND_VERSION": request["version"]}  # a shallow clone has no tags
    call(source_step(request, folder), env)
    shutil.rmtree(request["path"] + ".uv-cache", ignore_errors=True)
    return applied


def source_step(request: dict[str, Any], folder: str) -> list[str]:
    """Install a source folder; a locked build has all that it depends on already."""
    python, uv = os.path.join(request["path"], "venv/bin/python"), find_uv(request)
    flags = [*(["--no-deps"] if request["locked"] else []), *sources.source_flags(request["sources"]), folder]
    if uv:
        return [uv, "pip", "install", "-q", "--no-config", "--python", python, *flags]
    pip = [request["pip"], "-m", "pip", "--python", python] if request.get("pip") else [python, "-m", "pip"]
    return [*pip, "install", "--progress-bar", "off", *flags]


def uv_steps(uv: str, python: str, venv: str, wanted: str, request: dict[str, Any]) -> list[list[str]]:
    """Locked builds need no resolution: every package is named, with hashes that uv checks by itself.

    --require-hashes would refuse a local version, such as 2.13.0+cpu, for which uv takes no hash of 2.13.0.
    """
    locked = ["--no-deps"] if request["locked"] else []
    flags = ["--python", os.path.join(venv, "bin/python"), *locked, *sources.source_flags(request["sources"])]
    return [
        [uv, "venv", "-q", "--no-config", "--allow-existing", "--python", python, venv],
        [uv, "pip", "install", "-q", "--no-config", *flags, "-r", wanted],
    ]


def pip_steps(_tool: str, python: str, venv: str, wanted: str, request: dict[str, Any]) -> list[list[str]]:
    """The same with what every Python has."""
    locked = ["--no-deps", "--require-hashes", *sources.trusted(request["sources"])] if request["locked"] else []
    flags = ["--no-compile", "--progress-bar", "off", *locked, *sources.source_flags(request["sources"]), "-r", wanted]
    own, lender = os.path.join(venv, "bin/python"), request.get("pip")
    if lender:  # its pip works into an environment that has none
        return [
            [python, "-m", "venv", "--without-pip", venv],
            [lender, "-m", "pip", "--python", own, "install", *flags],
        ]
    return [[python, "-m", "venv", venv], [own, "-m", "pip", "install", *flags]]


def environment(request: dict[str, Any]) -> dict[str, str]:
    """For every step, with uv's cache below ROOT."""
    cache = {"UV_CACHE_DIR": request["path"] + ".uv-cache"}
    return sources.environment(request["sources"], cache, request["python"])


def find_uv(request: dict[str, Any]) -> str | None:
    """uv on the PATH, else our own, installed once; None when it cannot be had and pip must do."""
    own = os.path.join(request["uv"], "bin", "uv")
    os.makedirs(os.path.dirname(request["uv"]), exist_ok=True)
    wheelhouse = request["sources"].get("wheelhouse")
    found = shutil.which("uv") or (own if os.access(own, os.X_OK) else None)
    if found:
        return found
    with open(request["uv"] + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # builds run side by side
        if os.access(own, os.X_OK):
            return own
        return unpack_uv(wheelhouse, own) if wheelhouse else install_uv(request, own)


def unpack_uv(wheelhouse: str, own: str) -> str | None:
    """The one program in uv's wheel, which needs no installation; None when the wheelhouse has no uv."""
    names = [name for name in sorted(os.listdir(wheelhouse)) if name.startswith("uv-") and name.endswith(".whl")]
    os.makedirs(os.path.dirname(own), exist_ok=True)
    for name in names:
        with zipfile.ZipFile(os.path.join(wheelhouse, name)) as wheel:
            program = next(item for item in wheel.namelist() if item.endswith(".data/scripts/uv"))
            with wheel.open(program) as source, open(own + ".new", "wb") as target:
                shutil.copyfileobj(source, target)
        os.chmod(own + ".new", 0o755)  # noqa: S103 - a program
        if not subprocess.call([own + ".new", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            os.replace(own + ".new", own)
            return own
    return None


def install_uv(request: dict[str, Any], own: str) -> str | None:
    """Our own uv, in an environment of its own; None when it cannot be had."""
    shutil.rmtree(request["uv"], ignore_errors=True)
    steps = [
        [request["python"], "-m", "venv", request["uv"]],
        [own[:-2] + "python", "-m", "pip", "install", "-q", *sources.source_flags(request["sources"]), "uv"],
    ]
    for step in steps:
        if subprocess.call(step, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            return None
    return own


def call(command: list[str], env: dict[str, str]) -> None:
    """Run a step; its last lines become the error when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False)
    print(done.stdout, flush=True)
    if done.returncode:
        tail = "; ".join([line.strip() for line in done.stdout.splitlines() if line.strip()][-12:])
        raise BuildError(f"{os.path.basename(command[0])} {command[1]} failed ({done.returncode}): {tail[-1500:]}")


def gate(request: dict[str, Any]) -> None:
    """Import what will be run, with the unit's environment and as its user.

    Where that user is another one, it comes after ourselves: importing compiles just the bytecode that a start needs,
    which only we may write.
    """
    agree(request)
    user, env = service_of(request)
    say(f"importing {', '.join(request['imports'])}")
    if not user:
        run_gates(request, {name: value for name, value in env.items() if name != "PYTHONDONTWRITEBYTECODE"})
        return
    run_gates({**request, "tools": []}, {})
    say(f"importing as {user}")
    run_gates(request, {**env, "PYTHONDONTWRITEBYTECODE": "1"}, user)


def service_of(request: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The user to become, '' when it is ours already, and its environment. Raises BuildError."""
    service = request.get("service") or {}
    user, env = service.get("user", ""), service.get("env", {})
    if not user or os.geteuid() != 0 or user == pwd.getpwuid(0).pw_name:
        return "", env
    try:
        pwd.getpwnam(user)
    except KeyError:
        raise BuildError(f"the user {user}, which the service is to run as, is not there; see service.user") from None
    return user, env


ASKED_OF_GATES = ("path", "imports", "distribution", "version", "base", "tools")
GATES = "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module('slipway.agent.gates', None, '__main__')"


def run_gates(request: dict[str, Any], own: dict[str, str], user: str = "") -> None:
    """The build's Python looks at itself. own: a unit's whole environment. Raises BuildError with what it found."""
    python, scratch = os.path.join(request["path"], "venv/bin/python"), os.path.join(request["path"], ".scratch")
    os.makedirs(scratch)
    become: dict[str, Any] = {}
    if user:
        entry = pwd.getpwnam(user)
        os.chown(scratch, entry.pw_uid, entry.pw_gid)
        become = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": os.getgrouplist(user, entry.pw_gid)}
    env = {**request["environment"], **own} if own else {**environment(request), **request["environment"]}
    env.update(dict.fromkeys(("HOME", "XDG_CACHE_HOME", "TMPDIR"), scratch))
    asked = {name: request.get(name, "") for name in ASKED_OF_GATES}
    try:
        done = subprocess.run([python, "-c", GATES, OURSELVES, json.dumps(asked)], stdout=subprocess.PIPE, cwd=scratch,
                              stderr=subprocess.STDOUT, text=True, env=env, check=False, **become)  # fmt: skip
    except PermissionError:
        real = os.path.realpath(python)
        raise BuildError(f"{user} may not run {real}; use a Python outside of others' home folders") from None
    shutil.rmtree(scratch, ignore_errors=True)
    print(done.stdout, flush=True)
    if done.returncode:
        said = ([line for line in done.stdout.splitlines() if line.strip()] or ["the gates ended without a word"])[-1]
        raise BuildError(said.replace(NO_IMPORT, f"{NO_IMPORT} as {user}") if user else said)


def agree(request: dict[str, Any]) -> None:
    """Whether the packages' own requirements are met, but for gaps that the recipe gives reasons for."""
    done = subprocess.run(check_command(request), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment(request), check=False)  # fmt: skip
    wrong = unmet(done.stdout, request.get("pip_check_known", {}), own_packages(request))
    if done.returncode and wrong:
        print(done.stdout, flush=True)
        raise BuildError(f"packages do not agree: {'; '.join(wrong[:4])}")


def check_command(request: dict[str, Any]) -> list[str]:
    """uv's check sees the environment's own packages only; pip's, which the base Python lends, sees the base's too."""
    python = os.path.join(request["path"], "venv/bin/python")
    if request.get("base"):
        return [request["base"]["python"], "-m", "pip", "--python", python, "check"]
    uv = find_uv(request)
    if uv:
        return [uv, "pip", "check", "--no-cache", "--no-config", "--python", python]
    return [python, "-m", "pip", "check"]


def own_packages(request: dict[str, Any]) -> list[str]:
    """Names of what the build installed itself; the base's own quarrels are not the build's."""
    found = (name.partition("-")[0] for name in os.listdir(site_of(request)) if name.endswith(".dist-info"))
    return sorted(normal(name) for name in found)


def record(request: dict[str, Any], seconds: float, applied: list[Applied]) -> None:
    """build.json says what is in it; `complete` comes last and makes it count."""
    path = request["path"]
    facts = {
        "id": request["id"],
        "inputs": request["inputs"],
        "host": platform.node(),
        "seconds": round(seconds, 1),
        "python": request["python"],
        "lock": hashlib.sha256(request["requirements"].encode()).hexdigest() if request["locked"] else None,
        "tools": tool_versions(request),
        "gated": {"imports": request["imports"], "as": (request.get("service") or {}).get("user") or platform_user()},
        "patches": [one.record() for one in applied],
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    write_json(os.path.join(path, "build.json"), facts)
    digest, files = fingerprint(path)
    write_json(os.path.join(path, "complete"), {"fingerprint": digest, "files": files, "base": base_stamps(request)})


def platform_user() -> str:
    """Who we are."""
    return pwd.getpwuid(os.geteuid()).pw_name


def tool_versions(request: dict[str, Any]) -> dict[str, str]:
    """What made the build, each as it names itself; what was not used is left out."""
    python, uv = os.path.join(request["path"], "venv/bin/python"), find_uv(request)
    asks = {"python": [python, "--version"]}
    pip = [request.get("pip") or python, "-m", "pip", "--version"]
    asks.update({"uv": [uv, "--version"]} if uv else {"pip": pip})
    asks.update({"git": ["git", "--version"]} if request.get("git") else {})
    return {name: first_line(command) for name, command in asks.items()}


def first_line(command: list[str]) -> str:
    """Such as uv 0.13.9."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return (done.stdout.splitlines() or [""])[0].strip()


def base_stamps(request: dict[str, Any]) -> dict[str, list[int]]:
    """The records of what the base Python brings: a package that is changed there changes the build."""
    base = request.get("base")
    homes = json.loads(asked_of(base["python"], HOMES, *sorted(base["packages"]))) if base else []
    return {path: stamp(path)[:2] for path in (os.path.join(home, "METADATA") for home in homes)}


def write_json(path: str, data: dict[str, Any]) -> None:
    """Whole or not at all, and on disk before it counts."""
    write_whole(path, json.dumps(data, indent=1, sort_keys=True))


def main(arguments: list[str]) -> int:
    """Build what the request file says; the last line tells how it went."""
    with open(arguments[0], encoding="utf-8") as file:
        request = json.load(file)
    try:
        build(request)
    except BuildError as error:
        say(f"error: {error}")
        return 1
    except OSError as error:
        say(f"error: {error}; the build is incomplete and will be made anew")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
