"""The crash matrix: what is left when a run is hit at each of its operations, and what the next run makes of it.

    python -m tests.staging.crash [--every N] [SCENE ...]      the whole matrix, as a table; hours on a small machine

--every N hits each boundary with one blow in N, another one at the next: with 4, each boundary once.

A scene is a first deploy, an upgrade or a rollback. Its boundaries are the lines by which a run says that an operation
begins or ends. A blow hits the controller (SIGKILL), the host (power), the step's own process there, or the cable.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.staging.lab.commands import until
from tests.staging.pairs import HOME
from tests.staging.site import ANSWER, COLOURS, REPOSITORY, Site

BLOWS = ("controller", "power", "process", "cable")
BOUNDARY = re.compile(
    r"Starting operation: (?P<operation>.+?)\s*$"
    r"|(?P<step>step \d+ of \d+: .+?)(?: \(|$)"
    r"|(?P<change>h\d: (?:stop|start|remove) [\w-]+)"
    r"|(?P<up>h\d: [\w-]+ is up)"
)
CONFIRM_S = 10
UPGRADE = ("--data", "decode.max_running_requests=5")
# Runs on a host: processes of the deployment outside their units, and ports that such a process holds.
REMAINS = r"""
import glob, os, re
def text(path):
    try: return open(path, "rb").read().decode(errors="replace")
    except OSError: return ""
for place in glob.glob("/proc/[0-9]*"):
    environ, words = text(place + "/environ"), text(place + "/cmdline").replace("\0", " ")
    name = re.search(r"SLIPWAY_INSTANCE=([\w-]+)", environ)
    if name and "slipway-staging-%s.service" % name[1] not in text(place + "/cgroup"):
        print("orphan", words[:120])
    elif "/opt/slipway/agent/" in words and place != "/proc/%d" % os.getpid():
        print("still works:", words[:120])
"""
# Runs on a host: ends the program that a step runs there, as soon as there is one.
KILL_STEP = r"""
import glob, os, signal, time
end = time.time() + 3
while time.time() < end:
    for place in glob.glob("/proc/[0-9]*"):
        try:
            words = open(place + "/cmdline", "rb").read().decode(errors="replace").split("\0")
            if b"SLIPWAY_INSTANCE=" in open(place + "/environ", "rb").read(): continue
        except OSError: continue
        agent = any(word.startswith("/opt/slipway/agent/") for word in words) or "agent" in " ".join(words[:4])
        if agent and "watch" not in words and int(place[6:]) != os.getpid():
            os.kill(int(place[6:]), signal.SIGKILL)
            print("killed", " ".join(words)[:100])
            raise SystemExit
    time.sleep(0.01)
print("nothing ran")
"""


@dataclass
class Scene:
    """A kind of run. words: of pyinfra, with the playbook. starting: the lab is put back to it before each cell."""

    name: str
    site: Site
    words: tuple[str, ...]
    serves: bool

    def start(self) -> subprocess.Popen[str]:
        site = self.site
        command = site.command("pyinfra", "-y", *self.words[1:], *site.overrides, site.inventory, self.words[0])
        return site.lab.start(*command, env=site.environment(), cwd=REPOSITORY)


@dataclass
class Cell:
    """One blow at one boundary, and what it came to. outage_s: the longest time without an answer, from the blow on."""

    scene: str
    blow: str
    boundary: str
    rc: int = 0
    outage_s: float = 0.0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Watch:
    """Asks the deployment again and again, and remembers when it got no right answer."""

    def __init__(self, site: Site) -> None:
        self.site, self.over = site, threading.Event()
        self.bad: list[tuple[float, float]] = []
        self.thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self) -> None:
        since = 0.0
        while not self.over.is_set():
            good = self.site.ask(timeout=5) == ANSWER
            if not good and not since:
                since = time.monotonic()
            if good and since:
                self.bad.append((since, time.monotonic()))
                since = 0.0
            self.over.wait(0.25)
        if since:
            self.bad.append((since, time.monotonic()))

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    @property
    def outage_s(self) -> float:
        return max((end - start for start, end in self.bad), default=0.0)


def boundaries(process: subprocess.Popen[str], said: list[str]) -> Iterator[str]:
    """The boundaries of a run as they come; `said` collects all lines."""
    assert process.stdout is not None
    for line in process.stdout:
        said.append(COLOURS.sub("", line))
        found = BOUNDARY.search(said[-1])
        if found:
            yield next(text for text in found.groups() if text)


def undisturbed(scene: Scene) -> dict[int, str]:
    """The boundaries of a run that nothing happens to; without operations that find nothing to do."""
    said: list[str] = []
    process = scene.start()
    found = list(boundaries(process, said))
    process.communicate()
    text = "".join(said)
    assert process.returncode == 0, text
    return {number: label for number, label in enumerate(found) if not _idle(text, label)}


def _idle(text: str, label: str) -> bool:
    after = text.partition(f"Starting operation: {label}")[2].partition("Starting operation: ")[0]
    return bool(after) and "Success" not in after and not label.startswith("Verify")


def cell(scene: Scene, at: int | str, blow: str) -> Cell:
    """Hit a run at a boundary, put right what was hit, let one more run come, and look.

    at: the boundary's number, or what its line has in it.
    """
    began, said, label = time.monotonic(), list[str](), ""
    with Watch(scene.site) if scene.serves else contextlib.nullcontext() as watch:
        process = scene.start()
        for count, label in enumerate(boundaries(process, said)):
            if count == at or (isinstance(at, str) and at in label):
                _hit(scene, process, blow, label)
                break
        with contextlib.suppress(subprocess.TimeoutExpired):
            rest, _ = process.communicate(timeout=900)
            said.append(COLOURS.sub("", rest))
        _mend(scene, blow, label)
        settled = until(lambda: not _armed(scene.site), 5 if blow == "power" else CONFIRM_S + 60, pause=0.5)
        served = not scene.serves or scene.site.answers(30)
    label = label if isinstance(at, str) else f"{at} {label}"
    done = Cell(scene.name, blow, label, process.returncode, watch.outage_s if watch else 0.0)
    if not settled and blow != "power":  # a host that reboots forgets to watch
        done.problems.append("what was armed stayed armed")
    done.problems += [] if served else ["what served before does not serve"]
    done.problems += tracebacks("".join(said))
    done.problems += again(scene)
    done.seconds = time.monotonic() - began
    return done


def tracebacks(said: str) -> list[str]:
    """Each traceback of a run in one line, by its last frames."""
    return [" / ".join(part.strip().splitlines()[-12:])[:1500] for part in re.split(r"(?=Traceback )", said)[1:]]


def _target(label: str) -> str:
    """The host that is hit: the one that the boundary is about."""
    found = re.match(r"h\d", label)
    return found[0] if found else "h2"


def _hit(scene: Scene, process: subprocess.Popen[str], blow: str, label: str) -> None:
    host = scene.site.lab[_target(label)]
    if blow == "controller":
        os.killpg(process.pid, signal.SIGKILL)
    elif blow == "power":
        host.stop()
    elif blow == "cable":
        host.cable(False)
    else:
        host.enter("python3", "-c", KILL_STEP, check=False)


def _mend(scene: Scene, blow: str, label: str) -> None:
    host = scene.site.lab[_target(label)]
    if blow == "power":
        host.start()
    elif blow == "cable":
        host.cable(True)


def _armed(site: Site) -> list[str]:
    """What hosts may still put back by themselves."""
    listing = f"ls {HOME}/putback/armed.json {HOME}/putback/acting.json 2>/dev/null || true"
    return [line for host in site.lab.hosts for line in site.sh(host, listing).splitlines()]


def again(scene: Scene) -> list[str]:
    """One more run of the same, and everything that is not as it must be then."""
    site = scene.site
    process = scene.start()
    rest, _ = process.communicate(timeout=900)
    if process.returncode:
        return [f"the next run failed: {COLOURS.sub('', rest)[-1500:]}"]
    problems = [] if site.answers(30) else ["no right answer"]
    problems += [f"{host}: {line}" for host in site.lab.hosts for line in remains(site, host)]
    return problems + [f"{host}: {line}" for host in site.lab.hosts for line in half(site, host)]


def remains(site: Site, host: str) -> list[str]:
    """Processes that should not be there, once the ending ones have ended."""

    def look() -> list[str]:
        return site.lab[host].enter("python3", "-c", REMAINS).stdout.splitlines()

    until(lambda: not look(), 5, pause=0.5)
    return look()


def half(site: Site, host: str) -> list[str]:
    """What is wrong with the host's record of itself."""
    script = f"""
cd {HOME}
[ -f "$(readlink current)/plan.json" ] || echo "current has no plan: $(readlink current)"
[ -f "$(readlink current)/about.json" ] || echo "current does not say what it is: $(readlink current)"
case "$(readlink current)" in releases/*[!0-9]*) echo "current is half a release: $(readlink current)";; esac
ls -d releases/*.new 2>/dev/null || true
[ ! -e lock ] || echo "the lock was not given back: $(cat lock)"
"""
    return site.sh(host, script).splitlines()


def row(one: Cell) -> str:
    """A line of the table."""
    verdict = "; ".join(one.problems)[:3000] or "converged"
    return f"| {one.scene} | {one.blow} | {one.boundary} | {one.rc} | {one.outage_s:.1f} | {verdict} |"


def main(arguments: list[str]) -> int:
    """All cells of the scenes that are named, or of all."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    from tests.staging.crash_scenes import scenes

    every = int(arguments.pop(arguments.index("--every") + 1)) if "--every" in arguments else 1
    names = [word for word in arguments if word != "--every"]
    print("| scene | blow | at | exit | longest without an answer, s | one more run |")
    print("| --- | --- | --- | --- | --- | --- |")
    done: list[Cell] = []
    for scene in scenes(names):
        for count, number in enumerate(undisturbed(scene)):
            for turn, blow in enumerate(BLOWS):
                if (count + turn) % every == 0:
                    done.append(hit_from_the_start(scene, number, blow))
                    print(row(done[-1]), flush=True)
    bad = sum(bool(one.problems) for one in done)
    print(f"{len(done)} cells, {bad} with problems", flush=True)
    return 1 if bad else 0


def hit_from_the_start(scene: Scene, number: int, blow: str) -> Cell:
    """A cell on a lab that is put back to where the scene starts."""
    scene.site.lab.reset()
    assert not scene.serves or scene.site.answers()
    return cell(scene, number, blow)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
