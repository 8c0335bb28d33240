"""The tables: every row has a source and a confidence, reads as code expects, and does not contradict another."""

import json

import pytest

from slipway.knowledge import architectures, backend_rows, families, gpus, releases, tables
from slipway.knowledge.backend_rows import load_tables
from slipway.knowledge.conditions import KEYS, When

YAML = ["architectures", "backends", "families", "gates", "gpus", "known_bad", "releases", "renames"]


def rows_of(value, path=""):
    """Find every mapping that looks like a row: one that has `source`, `confidence`, `when` or `span`."""
    if isinstance(value, dict):
        if {"source", "confidence", "when", "span", "patterns"} & set(value):
            yield path, value
            return
        for key, item in value.items():
            yield from rows_of(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from rows_of(item, f"{path}[{index}]")


@pytest.mark.parametrize("name", YAML)
def test_every_row_has_source_and_confidence(name):
    found = list(rows_of(tables.load(f"{name}.yml")))
    assert found
    for path, row in found:
        tables.check_row(f"{name}.yml", path, row)


def test_lists_of_flags_and_variables_have_source_and_confidence():
    for name in ["envs.json", *(f"flags/{item}.json" for item in tables.shipped("flags", ".json"))]:
        tables.check_row(name, "-", dict(tables.load(name)))


def test_everything_parses():
    assert load_tables().choices
    assert releases.known()
    assert gpus.known()
    assert architectures.known()
    assert releases.gate_names()


def all_rows():
    found = load_tables()
    for group in (found.choices, found.verdicts):
        for name, rows in group.items():
            yield from ((name, row) for row in rows)
    yield from ((row.setting, row) for row in (*found.constraints, *found.known_bad))
    yield from (("", row) for row in found.environment)


def test_rows_ask_only_for_words_that_exist():
    known = {
        "arch": {item.name for item in architectures.known()},
        "family": {str(row["family"]) for row in tables.rows("families.yml", "families")},
        "class": {row.name for row in load_tables().quantization_classes},
        "attention_class": {row.name for row in load_tables().attention_classes},
        "gpu": {gpu.id for gpu in gpus.known()},
        "role": {"prefill", "decode", "unified"},
        "clamp": {"present", "absent"},
        "ep": {"one", "tp", "other"},
        "tp": {"one", "many"},
    }
    for _, row in all_rows():
        for key, _, words in row.when.wants:
            assert words <= known.get(key, words), (row.where, key, words)


def test_choices_ask_only_about_what_was_resolved_before_them():
    order = load_tables().order
    for index, name in enumerate(order):
        for row in load_tables().choices.get(name, ()):
            asked = {key for key, _, _ in row.when.wants}
            assert not asked & (set(order[index:]) - {"quantization"}), row.where


def test_verdicts_ask_only_about_what_was_resolved_before_them():
    order = load_tables().order
    for index, name in enumerate(order):
        for row in load_tables().verdicts.get(name, ()):
            asked = {key for key, _, _ in row.when.wants}
            assert not asked & (set(order[index:]) - {"quantization"}), row.where


def test_texts_name_only_facts_that_exist():
    words = KEYS | {"release", "arch", "quantization", "clamp", "ep_size", "tp_size", "role"}
    for _, row in all_rows():
        remark = getattr(row, "remark", None)
        texts = [
            getattr(row, "reason", ""),
            getattr(row, "auto", ""),
            remark.message if remark else "",
            remark.fix if remark else "",
        ]
        for text in texts:
            for part in text.split("{")[1:]:
                assert part.split("}")[0] in words, row.where


def test_known_bad_ids_are_unique():
    ids = [row.id for row in load_tables().known_bad]
    assert len(ids) == len(set(ids))
    assert all(ids)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("DeepseekV4ForCausalLM", "deepseek_v4"),
        ("deepseek_v4", "deepseek_v4"),
        ("DeepseekV32ForCausalLM", "deepseek_v32"),
        ("DeepseekV3ForCausalLM", "deepseek_v3"),
        ("GlmMoeDsaForCausalLM", "glm_dsa"),
        ("Glm4MoeLiteForCausalLM", "glm47_flash"),
        ("glm4_moe_lite", "glm47_flash"),
        ("Glm4MoeForCausalLM", "glm4_moe"),
        ("KimiK25ForConditionalGeneration", "kimi_k25"),
        ("gpt_oss", "gpt_oss"),
        ("Gemma3ForCausalLM", "other"),
        ("", "other"),
        ("🦙", "other"),
    ],
)
def test_families(name, family):
    assert families.family_of(name) == family


@pytest.mark.parametrize(
    ("capability", "name", "names"),
    [
        ("12.0", "sm_120", ("sm_120",)),
        ("12.1", "sm_121", ("sm_121", "sm_120")),
        ("10.3", "sm_103", ("sm_103", "sm_100")),
        ("9.0", "sm_90", ("sm_90",)),
        ("8.6", "sm_86", ("sm_86", "sm_80")),
    ],
)
def test_architectures(capability, name, names):
    found = architectures.of_capability(capability)
    assert (found.name, found.names) == (name, names)
    assert architectures.get(name.replace("_", "").upper()) == found


def test_an_unknown_architecture_is_none():
    assert architectures.of_capability("7.5") is None
    assert architectures.get("sm_75") is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"auto": "x", "reason": "y", "source": "s", "confidence": "source"}, "when is NoneType"),
        ({"when": {}, "auto": "x", "reason": "y", "confidence": "source"}, "has no source"),
        ({"when": {}, "auto": "x", "reason": "y", "source": "s", "confidence": "sure"}, "confidence is 'sure'"),
        ({"when": {}, "auto": "x", "source": "s", "confidence": "source"}, "has no reason"),
        (
            {"when": {"moon": "full"}, "auto": "x", "reason": "y", "source": "s", "confidence": "source"},
            "asks about 'moon'",
        ),
        ({"when": {"arch": True}, "auto": "x", "reason": "y", "source": "s", "confidence": "source"}, "must be a word"),
        (
            {"when": {"span": "0.5"}, "auto": "x", "reason": "y", "source": "s", "confidence": "source"},
            "is not a range",
        ),
        (
            {"when": {}, "auto": "x", "reason": "y", "valeu": "z", "source": "s", "confidence": "source"},
            "unknown key 'valeu'",
        ),
        ("text", "must be a mapping"),
    ],
)
def test_a_malformed_row_is_named(row, words):
    with pytest.raises(tables.TableError) as caught:
        backend_rows._choices("moe_runner_backend", [row])
    assert "backends.yml: row choices.moe_runner_backend[0]" in str(caught.value)
    assert words in str(caught.value)


def test_a_missing_table_is_named():
    with pytest.raises(tables.TableError, match=r"nope\.yml"):
        tables.load("nope.yml")


def test_conditions_say_themselves():
    when = When.parse("f", "r", {"arch": ["sm_120", "sm_90"], "not_patch": "pr-1", "span": "0.5.14+"})
    assert str(when) == "arch is sm_120 or sm_90, patch is not pr-1, release since 0.5.14"
    assert str(When.parse("f", "r", {})) == "always"


def test_flag_lists_are_one_flag_a_line():
    text = tables.read_text("flags/0.5.18.json")
    assert text.count("\n") == len(json.loads(text)["flags"]) + 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", "line 2: a key is written twice"),
        ("", "nothing"),
        ("a: yes\n", "'yes' is no text, number, true, false"),
        ("a: 2026-01-01\n", "no text, number"),
    ],
)
def test_yaml_that_could_mislead_is_refused(text, words):
    with pytest.raises(tables.TableError) as caught:
        tables.parse_yaml("x.yml", text)
    assert words in str(caught.value)


def test_yaml_reads_plain_values():
    assert tables.parse_yaml("x.yml", "{a: [1, 2.5, true, null, false], b: &x text, c: *x}") == {
        "a": [1, 2.5, True, None, False],
        "b": "text",
        "c": "text",
    }


def test_a_table_is_parsed_once():
    assert tables.load("gates.yml") is tables.load("gates.yml")
