"""`slipway explain`: settings, findings, hardware."""

from slipway.cli import main
from tests.slipway.plan.site import campaign
from tests.slipway.plan.test_shown import inventory


def test_a_setting_is_explained_for_the_plan(tmp_path, capsys):
    assert main(["explain", "moe_runner_backend", inventory(tmp_path, campaign("0.5.18"))]) == 0

    out = capsys.readouterr().out
    assert "moe_runner_backend of prefill-0, decode-0" in out
    assert "value       marlin (table, passed to the engine)" in out
    assert "by itself   flashinfer_trtllm_routed" in out
    assert "confidence: inferred" in out


def test_what_the_user_wrote_is_explained_with_its_verdict(tmp_path, capsys):
    settings = campaign("0.5.18", moe_runner_backend="flashinfer_trtllm_routed")
    main(["explain", "--", "--moe-runner-backend", inventory(tmp_path, settings)])

    out = capsys.readouterr().out
    assert "flashinfer_trtllm_routed (explicit" in out
    assert "does not work on sm_120" in out


def test_without_an_inventory_every_row_is_listed(capsys):
    assert main(["explain", "moe_runner_backend"]) == 0

    out = capsys.readouterr().out
    assert "every row of the tables" in out
    assert "source: " in out


def test_a_setting_of_the_plan_that_no_table_speaks_of(tmp_path, capsys):
    assert main(["explain", "mem_fraction_static", inventory(tmp_path, campaign("0.5.18"))]) == 0

    assert "mem_fraction_static of prefill-0: 0.9 (configured)" in capsys.readouterr().out


def test_a_finding_is_explained(capsys):
    assert main(["explain", "backend-forbidden"]) == 0
    assert "backend-forbidden (error)" in capsys.readouterr().out


def test_hardware_lists_the_names(capsys):
    assert main(["explain", "hardware"]) == 0
    assert "sm_120" in capsys.readouterr().out


def test_an_unknown_name_names_the_nearest(capsys):
    assert main(["explain", "moe_runer_backend"]) == 2
    assert "did you mean moe_runner_backend?" in capsys.readouterr().err
