"""From group_vars to the cells of a sweep and to what its results record of the deployment."""

import dataclasses

import pytest

from slipway.bench.errors import BenchError
from slipway.bench.subject import other_sweep, plan_hash, provenance, unlike_before, with_times
from slipway.bench.sweep import sweep_request
from slipway.front import open_inventory
from slipway.local import local_facts
from slipway.report import summary_lines
from tests.e2e.site import CHECKOUT

NOTHING: dict = {}


def made(**data):
    """The plan of the default inventory with overrides, and the settings of its host."""
    opened = open_inventory(CHECKOUT / "inventory.py", {key.replace("__", "."): value for key, value in data.items()})
    return opened.plan(local_facts(opened.deployment)), opened.deployment.hosts[0]


def request(**data):
    plan, host = made(**data)
    return sweep_request(plan, host.bench, "one", None)


def test_the_default_sweep_is_a_quick_look_at_three_concurrencies():
    cells = request()["cells"]

    assert [(cell["concurrency"], cell["prompts"]) for cell in cells] == [(1, 8), (8, 32), (16, 48)]


def test_the_standard_sweep_doubles_its_concurrency_over_three_shapes():
    cells = request(bench__sweep="standard", worker__context_length=16384, worker__max_total_tokens=16384)["cells"]

    assert {(cell["input"], cell["output"]) for cell in cells} == {(1024, 1024), (1024, 8192), (8192, 1024)}
    assert [cell["concurrency"] for cell in cells[:8]] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert all(cell["prompts"] == 10 * cell["concurrency"] for cell in cells)
    assert all(cell["warmups"] == 2 * cell["concurrency"] for cell in cells)


def test_both_sweeps_stay_when_a_third_is_written():
    own = {"shapes": [[10, 10]], "concurrency": [1], "prompts": 1, "warmups": 0}
    sweeps = made(bench__sweeps={"mine": own})[1].bench.sweeps

    assert sorted(sweeps) == ["mine", "origin", "standard"]


REFUSED = {
    "a sweep that is not there": ({"bench__sweep": "standart"}, "did you mean standard?"),
    "a shape beyond the context": ({"bench__sweep": "standard"}, "1024 + 8192 tokens do not fit the workers' context"),
    "prompts and levels that do not pair": ({"bench__sweeps__origin__prompts": [1]}, "1 numbers of prompts for 3"),
    "fewer prompts than streams": ({"bench__sweeps__origin__prompts": [1, 8, 8]}, "8 prompts at C=16 never reach"),
    "an engine's client without an engine": (
        {"bench__client": "engine", "engine__kind": "simulator"},
        "no SGLang build",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sweep_that_cannot_be_run_is_refused_before_it_begins(case):
    data, reason = REFUSED[case]
    with pytest.raises(BenchError, match=reason.replace("?", r"\?").replace("+", r"\+")):
        request(**data)


def test_the_engines_own_client_is_called_as_its_release_calls_it():
    engine = request(bench__client="engine")["engine"]

    assert engine["module"] == "sglang.bench_serving"
    assert engine["python"].endswith("/venv/bin/python")
    assert engine["env"]["SGLANG_USE_CPU_ENGINE"] == "1"


def test_what_is_measured_is_recorded_and_told_apart_from_something_else():
    plan, host = made()
    other, _ = made(decode__max_running_requests=7)
    record = provenance(plan, "one", host, NOTHING)

    assert record["plan"] == plan_hash(plan) != plan_hash(other)
    assert record["checkpoint"]["name"] == "local--tiny"
    assert record["settings"]["decode"]["attention_backend"] == "torch_native"
    assert record["router"]["version"] == "1.13.0"
    assert unlike_before(record, record) == []
    assert unlike_before(record, provenance(other, "one", host, NOTHING))[0].startswith("plan: ")


def test_a_plan_that_only_found_something_else_worth_saying_is_the_same():
    plan, _ = made()

    assert plan_hash(dataclasses.replace(plan, findings=())) == plan_hash(plan)


def test_another_sweep_is_no_repeat_but_another_seed_is():
    asked = request()

    assert other_sweep(asked, {**asked, "seed": "x"}) == []
    assert other_sweep(asked, {**asked, "api": "completions"}) == ["sweep.api: chat then, completions now"]


def test_runs_carry_the_times_of_their_cells():
    cells = [
        {"repeat": 1, "started": "2026-11-30T08:00:00Z", "ended": "2026-11-30T08:01:00Z"},
        {"repeat": 1, "started": "2026-11-30T08:02:00Z", "ended": "2026-11-30T08:03:00Z"},
    ]
    found = with_times({"runs": [{"repeat": 1, "release": 4}, {"repeat": 2, "release": 4}]}, cells)["runs"]

    assert (found[0]["started"], found[0]["ended"]) == ("2026-11-30T08:00:00Z", "2026-11-30T08:03:00Z")
    assert found[1] == {"repeat": 2, "release": 4}


def test_a_router_that_speaks_tls_is_asked_so_and_named_so_at_the_end_of_a_deploy():
    plan, host = made(**{"router__server_args": {"tls_cert_path": "/c.pem", "tls_key_path": "/k.pem"}})

    assert sweep_request(plan, host.bench, "one", None)["url"].startswith("https://")
    assert any("curl -s https://" in line for line in summary_lines(plan, "", "", "make destroy"))
