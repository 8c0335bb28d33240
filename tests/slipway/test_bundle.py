"""The agent bundle: equal sources give equal bytes, and any Python 3.9 runs it."""

import json
import subprocess
import sys

from slipway.bundle import agent_bundle, agent_digest, agent_source


def test_equal_sources_give_equal_bytes():
    first, digest = agent_bundle(), agent_digest()
    agent_bundle.cache_clear()
    agent_digest.cache_clear()

    assert (agent_bundle(), agent_digest()) == (first, digest)


def test_a_program_runs_from_the_bundle(tmp_path):
    path = tmp_path / "agent.pyz"
    path.write_bytes(agent_bundle())

    done = subprocess.run(
        [sys.executable, path, "job", "status", str(tmp_path / "none")], capture_output=True, text=True
    )

    assert json.loads(done.stdout) == {"state": "absent"}


def test_a_wrong_call_says_how_it_is_called(tmp_path):
    path = tmp_path / "agent.pyz"
    path.write_bytes(agent_bundle())

    done = subprocess.run([sys.executable, path, "../x"], capture_output=True, text=True)

    assert (done.returncode, done.stderr.strip()) == (1, "usage: agent.pyz PROGRAM [ARGS]")


def test_probes_are_one_file_each():
    """They are handed to the host's python3 as text, so they can import nothing of ours."""
    for program in ("state", "hardware"):
        assert "slipway.agent" not in agent_source(program)
