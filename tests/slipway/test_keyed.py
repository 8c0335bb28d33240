"""An API key reaches a program that takes it as an argument only, and neither its command line nor its log."""

import json
import os
import subprocess
import sys
import zipfile

import pytest

from slipway.agent.state import api_key
from slipway.converge.wanted import wanted_on
from slipway.front import open_inventory, project_root
from slipway.plan.model import to_json
from slipway.plan.secrets import API_KEY
from slipway.render import render
from slipway.report import summary_lines

KEY = "k3y-of-keyed"
# As the engine does: prints its arguments by the logger, logs like uvicorn by arguments, and starts children anew.
PROGRAM = """
import argparse, logging, multiprocessing, os, sys

def child():
    print("child", open("/proc/self/cmdline").read().count("k3y"), "SERVER_API_KEY" in os.environ, flush=True)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port")
    parser.add_argument("--api-key")
    args = parser.parse_args()
    logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
    logging.info(f"server_args={args}")
    logging.info("started with %s and %s", args.port, args.api_key)
    logging.info("%s served", "all")
    print("printed", args.api_key, file=sys.stderr)
    print("argv", open("/proc/self/cmdline").read().count("k3y"), len(args.api_key), flush=True)
"""
SPAWNS = """
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
"""


def ran(tmp_path, program):
    (tmp_path / "keyed.py").write_text(render("keyed.py.j2", variable=API_KEY))
    words = [sys.executable, str(tmp_path / "keyed.py"), program, "--port", "7"]
    env = {**os.environ, API_KEY: KEY}
    return subprocess.check_output(words, cwd=tmp_path, env=env, stderr=subprocess.STDOUT, text=True).splitlines()


@pytest.mark.parametrize("kind", ["module", "zip"])
def test_a_program_is_given_its_key_and_nobody_sees_it(tmp_path, kind):
    (tmp_path / "engine.py").write_text(PROGRAM + SPAWNS)
    with zipfile.ZipFile(tmp_path / "agent.pyz", "w") as archive:
        archive.writestr("__main__.py", PROGRAM)

    lines = ran(tmp_path, "engine" if kind == "module" else str(tmp_path / "agent.pyz"))

    assert f"argv 0 {len(KEY)}" in lines
    assert "server_args=Namespace(port='7', api_key='***')" in lines
    assert "started with 7 and ***" in lines
    assert {"all served", "printed ***"} <= set(lines)
    assert kind == "zip" or "child 0 False" in lines


def test_the_plan_and_every_file_but_the_sealed_ones_are_without_the_key():
    data = {"engine.kind": "simulator", "worker.api_key": {"env": "X"}, "router.api_key": {"file": "key"}}
    plan = open_inventory(project_root() / "inventory.py", data).plan({})
    wanted = wanted_on(plan, "@local", {one.name: {API_KEY: KEY} for one in plan.instances})

    holding = [file.path.rpartition("/")[2] for file in wanted.files if KEY in file.text]

    assert holding == ["prefill-0.secret", "decode-0.secret", "router-0.secret"]
    assert all(file.sealed and file.mode == "600" for file in wanted.files if KEY in file.text)
    assert [file.path for file in wanted.files if file.path.endswith("/keyed.py")] == [plan.instances[0].argv[1]]
    assert KEY not in json.dumps(to_json(plan))
    assert {one.argv[1] for one in plan.instances} == {plan.instances[0].argv[1]}


def test_an_api_key_among_the_arguments_is_warned_of_and_one_that_the_router_lacks_refused():
    def told(**data):
        found = open_inventory(project_root() / "inventory.py", {"engine.kind": "simulator", **data}).plan({}).findings
        return {finding.rule for finding in found if "key" in finding.rule}

    assert told(**{"router.server_args.api_key": "k"}) == {"key-in-arguments"}
    assert told(**{"worker.api_key": {"env": "X"}}) == {"router-key-missing"}
    assert told(**{"worker.api_key": {"env": "X"}, "router.api_key": {"env": "X"}}) == set()


def test_the_agent_of_a_host_finds_the_key_in_its_sealed_files(tmp_path):
    for name, env in (("prefill-0", {"HF_TOKEN": "t"}), ("router-0", {"HF_TOKEN": "t", API_KEY: 'a"b\\c$d`e'})):
        text = render("environment.j2", instance={"name": name}, deployment="demo", env=env)
        (tmp_path / f"{name}.secret").write_text(text)
    paths = [str(tmp_path / name) for name in ("absent.secret", "prefill-0.secret", "router-0.secret")]

    assert api_key(paths) == 'a"b\\c$d`e'
    assert api_key(paths[:2]) == ""


@pytest.mark.parametrize(("place", "shown"), [({"env": "X"}, "$X"), ({"file": "/k y"}, "$(cat '/k y')"), (None, "")])
def test_what_is_printed_to_try_has_the_place_of_the_key(place, shown):
    data = {"engine.kind": "simulator", "router.api_key": place}
    plan = open_inventory(project_root() / "inventory.py", data).plan({})

    (curl,) = [line for line in summary_lines(plan, "", "", "make destroy") if "curl" in line]

    assert ("Authorization" in curl) == bool(shown)
    assert (f'-H "Authorization: Bearer {shown}"' in curl) == bool(shown)
