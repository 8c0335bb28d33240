"""Settings: who says them, how they are spelt, and what is refused."""

import json

from slipway.knowledge.flags import FlagList
from tests.slipway.plan.site import ONE_HOST, campaign, flags, made, opened, planned, rules


def errors(plan, rule):
    return [finding for finding in plan.errors if finding.rule == rule]


def test_each_setting_has_its_origin(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18"))

    origins = {setting.name: setting.origin for setting in plan.decisions[0].settings}
    assert origins["tp_size"] == "configured"
    assert origins["moe_runner_backend"] == "table"


def test_what_the_plan_sets_itself_cannot_be_set_beside_it(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", server_args={"tp": 8, "model-path": "/x"}))

    found = errors(plan, "flag-planned")
    assert {finding.fix for finding in found} == {
        "it is decided by tp",
        "it is decided by model.path or model.host_path",
    }


def test_a_key_and_server_args_cannot_say_two_things(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", server_args={"mem_fraction_static": 0.5}))

    assert errors(plan, "flag-twice")


def test_null_takes_a_value_of_the_tables_back(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", server_args={"kv_cache_dtype": None}))

    assert "--kv-cache-dtype" not in flags(plan, "decode-0")


def test_a_flag_that_the_release_lacks_is_refused_and_left_out(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", server_args={"enable_metricks": True}))

    (error,) = {finding.message: finding for finding in errors(plan, "flag-unknown")}.values()
    assert "--enable-metrics" in error.fix
    assert "--enable-metricks" not in flags(plan, "decode-0")


def test_a_misspelt_variable_of_the_engine_is_told(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", env={"SGLANG_ENABLE_JIT_DEPGEMM": 0, "OMP_NUM_THREADS": 4}))

    found = [finding for finding in plan.findings if finding.rule == "env-unknown"]
    assert found
    assert "SGLANG_ENABLE_JIT_DEEPGEMM" in found[0].fix


def test_flags_learnt_from_a_built_engine_win_over_shipped_ones(tmp_path):
    folder = tmp_path / ".slipway" / "flags"
    folder.mkdir(parents=True)
    known = FlagList.for_release("0.5.23")
    rows = {name: {} for name in known.flags} | {"--brand-new": {"kind": "switch"}}
    (folder / "0.5.99.json").write_text(json.dumps({"release": "0.5.99", "source": "parser", "flags": rows}))
    settings = campaign("0.5.99", server_args={"brand_new": True})
    plan = opened(tmp_path, ONE_HOST, settings).plan({})

    assert flags(plan, "decode-0")["--brand-new"] == ""
    assert "flags-borrowed" not in rules(plan)


def test_a_borrowed_list_is_said_to_be_one(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.99"))

    assert "flags-borrowed" in rules(plan, "note")


def test_a_checkpoint_of_which_nothing_is_known_is_told_and_nothing_is_guessed(tmp_path):
    settings = {**campaign("0.5.18"), "model": {"host_path": "/models/secret"}}
    result = made(tmp_path, ONE_HOST, settings)

    assert "checkpoint-unread" in rules(result.plan, "warning")
    assert "--moe-runner-backend" not in flags(result.plan, "decode-0")
    assert result.evidence.by_name["decode-0"].memory is None


def test_a_folder_of_small_files_that_is_not_there_is_told(tmp_path):
    settings = {**campaign("0.5.18"), "model": {"host_path": "/models/secret", "facts": "nowhere"}}

    assert "checkpoint-unread" in rules(planned(tmp_path, ONE_HOST, settings))


def test_quantization_that_contradicts_the_checkpoint_is_refused(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", quantization="awq"))

    assert "quant-flag-mismatch" in rules(plan, "error")


def test_the_name_of_a_secret_is_checked_and_its_value_is_not(tmp_path):
    secrets = {"SGLANG_TIMEOUT_KEEP_ALIV": {"env": "X"}, "SGLANG_TIMEOUT_KEEP_ALIVE": {"env": "Y"}}
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", secret_env={**secrets, "HF_TOKEN": {"env": "HF_TOKEN"}}))

    (warning,) = {finding.message: finding for finding in plan.findings if finding.rule.startswith("env-")}.values()
    assert (warning.severity, warning.rule) == ("warning", "env-unknown")
    assert "SGLANG_TIMEOUT_KEEP_ALIVE" in warning.fix
