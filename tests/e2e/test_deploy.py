"""The one command on this machine, with the simulated engine and everything else real."""

import shlex
import subprocess
import urllib.error
import urllib.request

from tests.e2e.conftest import QUESTION
from tests.e2e.site import BIN, CHECKOUT


def test_the_first_deploy_ends_with_a_summary_and_a_right_answer(site):
    assert "answer: 391" in site.first.out
    assert "30 of 30" in site.first.out or "known answers right" in site.first.out
    assert f"http://127.0.0.1:{site.ports['router.port']}/v1/chat/completions" in site.first.out
    assert "SIMULATED" in site.first.out
    *_, stop, command = site.first.out.rstrip().splitlines()
    assert stop.strip() == "Stop it:"
    assert shlex.split(command)[1:] == [*site.overrides({}), str(CHECKOUT / "inventory.py"), "playbooks/destroy.py"]


def test_the_status_tells_each_instance_its_health_and_where_it_serves(site):
    done = subprocess.run(
        [BIN / "slipway", "status", *site.overrides({})], cwd=CHECKOUT, capture_output=True, text=True, timeout=120
    )

    assert (done.returncode, done.stderr) == (0, "")
    for name in ("prefill-0", "decode-0", "router-0"):
        (line,) = [line for line in done.stdout.splitlines() if line.split()[:1] == [name]]
        assert "healthy" in line, done.stdout
    assert f":{site.ports['router.port']}" in done.stdout
    assert "release 1; a deploy would make 0 change(s)" in done.stdout


def test_the_status_of_an_inventory_that_is_not_there_says_so(site):
    done = subprocess.run(
        [BIN / "slipway", "status", "no.py"], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (1, "no.py: no such file; name an inventory such as inventory.py\n")


def test_a_client_is_answered_and_told_that_it_is_simulated(site):
    status, reply = site.ask(QUESTION)

    assert (status, reply["choices"][0]["message"]["content"]) == (200, "391")
    assert reply["metadata"]["simulated"] is True


def test_a_second_deploy_changes_nothing_and_keeps_every_process(site):
    before = site.pids()

    again = site.deploy()

    assert (again.rc, again.changes) == (0, 0), again.out
    assert site.pids() == before
    assert set(before) == {"prefill-0", "decode-0", "router-0"}


def test_a_dry_run_on_a_converged_host_reports_nothing(site):
    dry = site.dry()

    assert (dry.rc, dry.changes) == (0, 0), dry.out


def test_a_flag_of_one_role_changes_and_restarts_just_that_role(site):
    before = site.pids()

    dry = site.dry(decode__max_running_requests=7)
    done = site.deploy(decode__max_running_requests=7)

    assert "--max-running-requests 7" in dry.out
    assert "restart instance decode-0" in dry.out
    assert "restart instance prefill-0" not in dry.out
    assert dry.changes == done.changes
    assert done.rc == 0, done.out
    after = site.pids()
    assert after["decode-0"] != before["decode-0"]
    assert (after["prefill-0"], after["router-0"]) == (before["prefill-0"], before["router-0"])
    assert site.deploy().rc == 0


def test_a_changed_worker_port_reaches_the_router_too(site):
    done = site.deploy(**{"decode__port": site.first_port + 70})

    assert done.rc == 0, done.out
    assert site.answer(QUESTION) == "391"
    assert site.deploy().rc == 0


def test_the_plan_names_every_instance_with_its_command_line(site):
    done = subprocess.run(
        [BIN / "slipway", "plan", *site.overrides({})], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("prefill-0", "decode-0", "router-0", "--disaggregation-mode decode", "SGLANG_HOST_IP=127.0.0.1"):
        assert word in done.stdout


def test_a_killed_worker_is_started_again_by_the_next_deploy_at_the_latest(site):
    import os
    import signal

    os.kill(site.pids()["decode-0"], signal.SIGKILL)

    done = site.deploy()

    assert done.rc == 0, done.out
    assert site.answer(QUESTION) == "391"


def test_the_workers_listen_on_no_other_address(site):
    url = f"http://127.0.0.1:{site.ports['prefill.port']}/server_info"
    with urllib.request.urlopen(url, timeout=5) as reply:
        assert reply.status == 200


def test_the_plan_is_compared_with_the_deployed_release(site):
    def difference(**more):
        words = [BIN / "slipway", "plan", "inventory.py", *site.overrides(more), "--diff"]
        return subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, timeout=120).stdout.splitlines()

    assert difference() == ["nothing differs from the deployed release"]
    changed = difference(**{"decode.max_running_requests": 7})
    assert "~ instance decode-0" in changed
    assert any("max_running_requests" in line.replace("-", "_") and "7" in line for line in changed)
    assert not any("prefill-0" in line for line in changed)
