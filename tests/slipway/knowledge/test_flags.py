"""Flags: spelt as each release spells them, checked as its parser would, renamed both ways, removed with reason."""

import argparse
import itertools
import json

import pytest

from slipway.knowledge import releases, tables
from slipway.knowledge.flags import Flag, FlagError, FlagList, shipped_releases
from slipway.knowledge.versions import version

RENAMES = tables.rows("renames.yml", "renames")
REMOVED = tables.rows("renames.yml", "removed")


def kinds(problems):
    return [(problem.severity, problem.kind) for problem in problems]


def test_every_release_of_the_table_has_its_flag_list():
    assert list(shipped_releases()) == [str(release.version) for release in releases.known()]


@pytest.mark.parametrize(
    ("release", "settings", "argv"),
    [
        ("0.5.13", {"tp": 4}, ["--tensor-parallel-size", "4"]),
        ("0.5.18", {"tp": 4}, ["--tp-size", "4"]),
        ("0.5.18", {"tp_size": 4}, ["--tp-size", "4"]),
        ("0.5.18", {"tensor_parallel_size": 4}, ["--tp-size", "4"]),
        ("0.5.18", {"--tensor-parallel-size": 4}, ["--tp-size", "4"]),
        ("0.5.13", {"ep": 8, "pp-size": 2}, ["--expert-parallel-size", "8", "--pipeline-parallel-size", "2"]),
        ("0.5.23", {"model": "m"}, ["--model-path", "m"]),
        ("0.5.19", {"cuda_graph_max_bs": 32}, ["--cuda-graph-max-bs", "32"]),
        ("0.5.20", {"cuda_graph_max_bs": 32}, ["--cuda-graph-max-bs-decode", "32"]),
        ("0.5.13", {"cuda_graph_max_bs_decode": 32}, ["--cuda-graph-max-bs", "32"]),
        ("0.5.14", {"cuda_graph_max_bs_decode": 32}, ["--cuda-graph-max-bs-decode", "32"]),
        ("0.5.23", {"cuda_graph_bs": [1, 2]}, ["--cuda-graph-bs-decode", "1", "2"]),
        ("0.5.23", {"disable_piecewise_cuda_graph": True}, ["--cuda-graph-backend-prefill", "disabled"]),
        ("0.5.23", {"disable_piecewise_cuda_graph": False}, []),
        ("0.5.13", {"cuda_graph_backend_prefill": "disabled"}, ["--disable-piecewise-cuda-graph"]),
        ("0.5.15", {"optimistic_prefill_attempts": 2}, ["--optimistic-prefill-retries", "2"]),
        ("0.5.18", {"trust_remote_code": True, "enable_metrics": False}, ["--trust-remote-code"]),
        ("0.5.18", {"lora_strict_loading": False}, ["--no-lora-strict-loading"]),
        ("0.5.18", {"lora_strict_loading": True}, ["--lora-strict-loading"]),
        ("0.5.18", {"mem_fraction_static": 0.85, "kv_cache_dtype": None}, ["--mem-fraction-static", "0.85"]),
        (
            "0.5.18",
            {"preferred_sampling_params": {"temperature": 0}},
            ["--preferred-sampling-params", '{"temperature":0}'],
        ),
        ("0.5.18", {"json_model_override_args": {"a": [1]}}, ["--json-model-override-args", '{"a":[1]}']),
        ("0.5.18", {"log_requests_target": ["stdout", "/x"]}, ["--log-requests-target", "stdout", "/x"]),
        (
            "0.5.18",
            {"lora_paths": [{"lora_name": "a", "lora_path": "b"}]},
            ["--lora-paths", '{"lora_name":"a","lora_path":"b"}'],
        ),
        ("0.5.18", {"uvicorn_access_log_exclude_prefixes": []}, ["--uvicorn-access-log-exclude-prefixes"]),
        ("0.5.18", {"model_checksum": True}, ["--model-checksum"]),
        ("0.5.18", {"context_length": "128k"}, ["--context-length", "128k"]),
        ("0.5.18", {"chunked_prefill_size": -1}, ["--chunked-prefill-size=-1"]),
        ("0.5.18", {"gc_threshold": 700}, ["--gc-threshold", "700"]),
    ],
)
def test_render(release, settings, argv):
    assert FlagList.for_release(release).render(settings) == argv


@pytest.mark.parametrize(
    ("release", "name", "value", "kind", "words"),
    [
        ("0.5.23", "moe_runner_backed", "marlin", "flag-unknown", "--moe-runner-backend"),
        ("0.5.23", "zzzz", 1, "flag-unknown", "flag list"),
        ("0.5.23", "moe_runner_backend", "marline", "flag-choice", "marlin"),
        ("0.5.13", "moe_runner_backend", "humming", "flag-choice", "triton_kernel"),
        ("0.5.23", "attention_backend", "cutlass_mla", "flag-choice", "cutedsl_mla"),
        ("0.5.23", "tp", "four", "flag-type", "whole number"),
        ("0.5.23", "tp", 4.5, "flag-type", "whole number"),
        ("0.5.23", "tp", True, "flag-type", "whole number"),
        ("0.5.23", "tp", [4], "flag-arity", "not a list"),
        ("0.5.23", "mem_fraction_static", "much", "flag-type", "number"),
        ("0.5.23", "enable_metrics", "yes", "flag-boolean", "true or false"),
        ("0.5.23", "lora_strict_loading", "yes", "flag-boolean", "true or false"),
        ("0.5.23", "cuda_graph_bs_decode", [], "flag-arity", "one or more"),
        ("0.5.23", "cuda_graph_bs_decode", [1, "x"], "flag-type", "whole number"),
        ("0.5.23", "context_length", "many", "flag-type", "Ki"),
        ("0.5.23", "preferred_sampling_params", "{", "flag-type", "JSON"),
        ("0.5.23", "forward_hooks", "{}", "flag-type", "JSON list"),
        ("0.5.23", "host", ["a"], "flag-arity", "one value"),
        ("0.5.23", "torchao_config", "int4", "flag-removed", "0.5.18"),
        ("0.5.23", "prefill_cp_mode", "in-seq-split", "flag-removed", "--cp-strategy"),
        ("0.5.23", "collect_tokens_histogram", True, "flag-removed", "--enable-metrics"),
        ("0.5.18", "attn_dp_size", 2, "flag-other-release", "0.5.22"),
        ("0.5.23", "cuda_graph_tc_compiler", "eager", "flag-removed", "0.5.22"),
        ("0.5.23", "disable_piecewise_cuda_graph", "yes", "flag-other-release", "0.5.19"),
    ],
)
def test_what_a_release_refuses(release, name, value, kind, words):
    (problem,) = FlagList.for_release(release).check(name, value)
    assert (problem.severity, problem.kind, problem.subject) == ("error", kind, name)
    assert words in problem.message + problem.fix
    assert release in problem.message
    assert problem.source


def test_a_rename_is_noted_and_accepted():
    (note,) = FlagList.for_release("0.5.23").check("cuda_graph_max_bs", 32)
    assert (note.severity, note.kind) == ("note", "flag-renamed")
    assert "--cuda-graph-max-bs-decode since 0.5.14" in note.message


def test_deprecated_flags_are_noted_with_what_replaces_them():
    (note,) = FlagList.for_release("0.5.23").check("enable_dp_attention", True)
    assert (note.severity, note.kind) == ("note", "flag-deprecated")
    assert "--attn-dp-size" in note.fix
    (warning,) = FlagList.for_release("0.5.13").check("enable_piecewise_cuda_graph", True)
    assert (warning.severity, warning.kind) == ("warning", "flag-deprecated")


@pytest.mark.parametrize(
    "pair", [("tp", "tensor_parallel_size"), ("cuda_graph_max_bs", "cuda_graph_max_bs_decode"), ("model", "model-path")]
)
def test_one_thing_set_twice_is_an_error(pair):
    problems = FlagList.for_release("0.5.18").check_all({pair[0]: 1, pair[1]: 1})
    assert ("error", "flag-twice") in kinds(problems)


def test_null_beside_a_value_is_not_twice():
    assert FlagList.for_release("0.5.18").check_all({"tp": 4, "tp_size": None}) == []


def test_render_refuses_with_every_problem():
    with pytest.raises(FlagError) as caught:
        FlagList.for_release("0.5.18").render({"tp": "x", "nope_at_all": 1, "host": "a"})
    assert len(caught.value.problems) == 2
    assert "--tp-size" in str(caught.value)


def test_has_counts_renames():
    flags = FlagList.for_release("0.5.23")
    assert flags.has("cuda_graph_max_bs")
    assert flags.has("tp")
    assert not flags.has("torchao_config")


def test_spelling():
    assert FlagList.for_release("0.5.13").spelling("tp") == "--tensor-parallel-size"
    assert FlagList.for_release("0.5.23").spelling("nope") is None


@pytest.mark.parametrize("row", RENAMES, ids=lambda row: row["old"])
def test_renames_agree_with_the_shipped_lists(row):
    have_old = [item for item in shipped_releases() if row["old"] in FlagList.for_release(item).flags]
    have_new = [item for item in shipped_releases() if FlagList.for_release(item).find(row["new"])]
    after_old = next(item for item in shipped_releases() if version(item) > version(have_old[-1]))
    assert version(row["old_until"]) == version(after_old)
    assert version(row["new_since"]) == version(have_new[0])


@pytest.mark.parametrize("row", REMOVED, ids=lambda row: row["flag"])
def test_removals_agree_with_the_shipped_lists(row):
    have = [item for item in shipped_releases() if row["flag"] in FlagList.for_release(item).flags]
    after = next(item for item in shipped_releases() if version(item) > version(have[-1]))
    assert version(row["gone_since"]) == version(after)


def test_every_flag_that_left_is_in_the_table():
    said = {row["old"] for row in RENAMES} | {row["flag"] for row in REMOVED}
    lists = [FlagList.for_release(item) for item in shipped_releases()]
    left = {name for older, newer in itertools.pairwise(lists) for name in older.flags if not newer.find(name)}
    assert left <= said


@pytest.mark.parametrize(
    ("asked", "lender"),
    [("0.5.19.post1", "0.5.19"), ("0.6.0", "0.5.23"), ("0.5.1", "0.5.13"), ("c0bb04b67f", "0.5.23")],
)
def test_a_release_without_a_list_borrows_and_says_so(asked, lender):
    flags = FlagList.for_release(asked)
    assert not flags.exact
    assert f"the list of {lender} stands in" in flags.note
    assert asked in flags.note


def test_an_exact_list_says_nothing():
    flags = FlagList.for_release("0.5.18")
    assert flags.exact
    assert flags.note == ""
    assert FlagList.for_release("v0.5.18").exact


@pytest.mark.parametrize("asked", [item for item in shipped_releases() if item not in ("0.5.13", "0.5.18", "0.5.23")])
def test_a_borrowed_list_follows_the_renames(asked):
    borrowed = FlagList.for_release(asked, shipped=("0.5.13", "0.5.18", "0.5.23"))
    true = FlagList.for_release(asked)
    names = {row["old"] for row in RENAMES} | {row["flag"] for row in REMOVED}
    assert not borrowed.exact
    assert {name for name in names if name in borrowed.flags and name not in true.flags} == set()
    assert borrowed.render({"cuda_graph_max_bs": 8}) == true.render({"cuda_graph_max_bs": 8})


def test_a_learnt_list_works_like_a_shipped_one():
    learnt = {
        "release": "abc123",
        "source": "built engine",
        "flags": {"--tp-size": {"also": ["--tp"], "type": "int"}, "--fast": {"kind": "switch"}},
    }
    flags = FlagList.from_json(json.dumps(learnt))
    assert flags.render({"tp": 2, "fast": True}) == ["--tp-size", "2", "--fast"]
    assert kinds(flags.check("slow", True)) == [("error", "flag-unknown")]


@pytest.mark.parametrize(
    ("learnt", "words"),
    [
        ({"flags": {"tp": {}}}, "must be '--name'"),
        ({"flags": {"--tp": {"knd": "switch"}}}, "unknown key 'knd'"),
        ({"flags": {"--tp": {"kind": "dial"}}}, "kind is 'dial'"),
        ({}, "must be {"),
    ],
)
def test_a_malformed_list_is_named(learnt, words):
    with pytest.raises(tables.TableError, match="learnt flag list") as caught:
        FlagList.from_json(learnt)
    assert words in str(caught.value)


VALUES = {"int": 3, "float": 0.5, "size": "8k", "json": {"a": 1}, "json_list": ["a"], "str": "word"}


def sample(flag: Flag):
    if flag.kind != "value":
        return True
    one = flag.choices[0] if flag.choices else VALUES[flag.type]
    return [one, one] if flag.nargs in ("+", "*") else one


def parser_of(flags: FlagList) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for flag in flags.flags.values():
        if flag.kind == "toggle":
            parser.add_argument(flag.name, *flag.also, dest=flag.name, action=argparse.BooleanOptionalAction)
        elif flag.kind != "value":
            parser.add_argument(flag.name, *flag.also, dest=flag.name, action="store_true")
        else:
            kind = {"int": int, "float": float, "json": json.loads, "json_list": json.loads}.get(flag.type, str)
            parser.add_argument(
                flag.name, *flag.also, dest=flag.name, type=kind, nargs=flag.nargs, choices=flag.choices or None
            )
    return parser


@pytest.mark.parametrize("release", shipped_releases())
def test_every_flag_survives_a_real_parser(release):
    flags = FlagList.for_release(release)
    settings = {flag.name: sample(flag) for flag in flags.flags.values()}
    refused = {name for name, value in settings.items() if any(p.severity == "error" for p in flags.check(name, value))}
    assert refused == set()
    argv = [word for name, value in settings.items() for word in flags.render({name: value})]
    parsed = vars(parser_of(flags).parse_args(argv))
    assert {name: parsed[name] for name in settings if name != "--lora-paths"} == {
        name: settings[name] for name in settings if name != "--lora-paths"
    }
