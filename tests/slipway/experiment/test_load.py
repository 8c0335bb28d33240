"""experiments/NAME.yml: its forms become variants, and what is wrong is told with its line."""

import pytest

from slipway.config.errors import InvalidConfigError
from slipway.experiment.load import load_experiment


@pytest.fixture
def load(tmp_path):
    def load(text, about="about: what is to be found out\n"):
        (tmp_path / "x.yml").write_text(about + text)
        return load_experiment(tmp_path, "x")

    return load


def names(experiment):
    return [variant.name for variant in experiment.variants]


def refused(load, text, *words, **more):
    with pytest.raises(InvalidConfigError) as caught:
        load(text, **more)
    for word in words:
        assert word in str(caught.value), str(caught.value)


LEVERS = """
  runner:
    marlin: {set: {worker: {moe_runner_backend: marlin}}}
    cutlass: {set: {worker: {moe_runner_backend: flashinfer_cutlass}}}
  graphs:
    "on": {}
    "off": {set: {decode: {server_args: {disable_cuda_graph: true}}}}
"""


def test_one_at_a_time_changes_one_lever_in_each_variant(load):
    text = LEVERS.replace('    "on": {}\n', "")

    experiment = load(f"one_at_a_time:{text}")

    assert names(experiment) == ["baseline", "runner-marlin", "runner-cutlass", "graphs-off"]
    assert experiment.variant("graphs-off").change.data == {"decode.server_args.disable_cuda_graph": True}


def test_matrix_has_every_combination_but_the_baseline_itself(load):
    experiment = load(f"matrix:{LEVERS}")

    assert names(experiment) == [
        "baseline", "runner-marlin", "runner-marlin_graphs-off", "runner-cutlass", "runner-cutlass_graphs-off",
    ]  # fmt: skip
    assert experiment.variants[2].levels == {"runner": "marlin", "graphs": "off"}
    assert len(experiment.variants[2].change.data) == 4  # the runner of each role, and the graphs of decode


def test_zip_takes_levels_together(load):
    experiment = load(f"zip:{LEVERS}")

    assert names(experiment) == ["baseline", "runner-marlin", "runner-cutlass_graphs-off"]


def test_worker_means_every_worker_whatever_group_vars_say_of_a_role(load):
    change = load("variants: [{name: a, set: {worker: {tp: 2}}, env: {NCCL_PROTO: LL}}]").variants[1].change

    assert change.data == {
        "prefill.tp": 2, "decode.tp": 2, "unified.tp": 2,
        "prefill.env.NCCL_PROTO": "LL", "decode.env.NCCL_PROTO": "LL", "unified.env.NCCL_PROTO": "LL",
    }  # fmt: skip
    assert change.keys == ("worker.tp", "worker.env.NCCL_PROTO")


def test_a_variant_stands_on_the_baseline_s_own_changes(load):
    text = """
baseline: {set: {engine: {kind: simulator}}, patches: [pr-1]}
variants: [{name: a, patches: [pr-2], inventory: other.py}]
"""
    variant = load(text).variants[1]

    assert variant.change.data == {"engine.kind": "simulator"}
    assert variant.change.patches == ("pr-1", "pr-2")
    assert variant.own.keys == ("engine.patches", "inventory")


def test_what_is_not_said_has_the_schema_s_default(load):
    experiment = load("variants: [{name: a, env: {A: 1}}]")

    assert (experiment.repeats, experiment.order, experiment.sweep) == (3, "interleaved", None)
    assert experiment.label("a") == "x.a"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("variants: [{name: a, sett: {}}]", ("experiments/x.yml:2", "unknown key sett", "did you mean set?")),
        ("repeats: 0\nvariants: [{name: a, env: {A: 1}}]", ("x.yml:2: repeats: got 0", "at least 1")),
        ("variants: [{name: 'a b', env: {A: 1}}]", ("variants.0.name", "got \"a b\"")),
        ("variants: [{name: a, env: {A: 1}}, {name: a, env: {A: 2}}]", ("a twice",)),
        ("variants: [{name: baseline, env: {A: 1}}]", ("baseline twice", "baseline is taken")),
        ("variants: [{name: a}]", ("a, which changes nothing",)),
        ("repeats: 2", ("no variant",)),
        ("zip: {a: {x: {env: {A: 1}}}, b: {x: {env: {B: 1}}, y: {env: {B: 2}}}}", ("a with 1, b with 2",)),
        ("metric: output_trougput\nvariants: [{name: a, env: {A: 1}}]", ("metric", "did you mean output_throughput?")),
        ("variants: [{name: a, env: {A: 1}}", ("YAML syntax error",)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(load, text, words):
    refused(load, text, *words)


def test_an_experiment_says_what_for(load):
    refused(load, "variants: [{name: a, env: {A: 1}}]", "about", about="")


def test_an_unknown_name_has_the_nearest(tmp_path):
    (tmp_path / "campaign.yml").write_text("about: what is to be found out\n")

    with pytest.raises(InvalidConfigError, match="did you mean campaign"):
        load_experiment(tmp_path, "campagne")
