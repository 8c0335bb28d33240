"""Steps of an experiment: their output, and that one which outlives its driver keeps the claim."""

import os
import signal
import subprocess
import sys
import time

import pytest

from slipway.agent.step import BusyError, Claim, run_logged


def test_a_step_s_lines_are_shown_kept_and_logged(tmp_path):
    shown = []
    script = "import sys; print('\x1b[31mred\x1b[0m'); print('bad', file=sys.stderr); sys.exit(3)"

    code, lines = run_logged([sys.executable, "-c", script], str(tmp_path / "log"), shown.append)

    assert code == 3
    assert sorted(lines) == sorted(shown) == ["bad", "red"]
    assert "red" in (tmp_path / "log").read_text()


def test_an_unended_last_line_is_kept_and_an_earlier_step_s_lines_are_not(tmp_path):
    (tmp_path / "log").write_text("of a step before\n")

    _, lines = run_logged([sys.executable, "-c", "print('end', end='')"], str(tmp_path / "log"), lambda line: None)

    assert lines == ["end"]


def test_two_drivers_do_not_share_an_experiment(tmp_path):
    claim = Claim(str(tmp_path / "claim"), print)

    with pytest.raises(BusyError, match=f"process {os.getpid()} goes through"):
        Claim(str(tmp_path / "claim"), print)
    claim.release()
    Claim(str(tmp_path / "claim"), print).release()


DRIVER = """
import sys
from slipway.agent.step import Claim, run_logged
claim = Claim(sys.argv[1], print)
script = "import time; print('begun', flush=True); time.sleep(3); print('ended', flush=True)"
run_logged([sys.executable, "-c", script], sys.argv[2], lambda line: print(line, flush=True), claim)
"""


def test_a_step_outlives_its_killed_driver_and_the_next_one_waits_for_it(tmp_path):
    log, path, said = tmp_path / "log", str(tmp_path / "claim"), []
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, path, str(log)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout.readline() == "begun\n"
    driver.send_signal(signal.SIGKILL)
    driver.wait(10)
    driver.stdout.close()

    Claim(path, said.append).release()

    assert said == ["a step that a killed run left is still going; waiting for its end"]
    deadline = time.monotonic() + 10
    while "ended" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert log.read_text().endswith("ended\n")
