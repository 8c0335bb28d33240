"""What a user reads when the configuration is wrong: one row per rule, with the whole text."""

from pathlib import Path

import pytest

from slipway.config.errors import InvalidConfigError
from slipway.config.load import load

GROUPS = {"prefill": ["h1"], "decode": ["h2"], "router": ["h1"]}
GOOD = "deployment: demo\nmodel: {path: models/tiny}\n"


def loaded(tmp_path: Path, files: dict[str, str], overrides: dict | None = None):
    for name, text in {"group_vars/all.yml": GOOD, **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return load(tmp_path, GROUPS, overrides or {}, tmp_path)


def message(tmp_path: Path, files: dict[str, str], overrides: dict | None = None) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        loaded(tmp_path, files, overrides)
    return str(caught.value)


CASES = {
    "wrong type": (
        {"group_vars/decode.yml": "decode:\n  tp: four\n"},
        'group_vars/decode.yml:2: decode.tp: got "four"; must be a whole number\n'
        "    hint: write the number without quotes",
    ),
    "number for text": (
        {"group_vars/router.yml": "router:\n  version: 1.13\n"},
        'group_vars/router.yml:2: router.version: got 1.13; must be text\n    hint: put quotes around it: "1.13"',
    ),
    "a key where its place is expected": (
        {"group_vars/router.yml": "router:\n  api_key: sk-4711\n"},
        "group_vars/router.yml:2: router.api_key: got a value that is not shown; must be a mapping or null\n"
        "    hint: Where the controller finds the API key that the router asks clients for, and sends to workers",
    ),
    "out of range": (
        {"group_vars/router.yml": "\n\nrouter:\n  port: 70000\n"},
        "group_vars/router.yml:4: router.port: got 70000; must be at most 65535\n    hint: Port for clients",
    ),
    "unknown word": (
        {"group_vars/all.yml": "engine:\n  kind: sgland\n"},
        'group_vars/all.yml:2: engine.kind: got "sgland"; must be one of sglang, simulator\n'
        "    hint: did you mean sglang?",
    ),
    "list for a mapping": (
        {"group_vars/all.yml": "- a\n- b\n"},
        "group_vars/all.yml:1: got a list; must be a mapping of keys",
    ),
    "twice the same key": (
        {"group_vars/all.yml": "deployment: a\ndeployment: b\n"},
        "group_vars/all.yml:2: deployment: got the same key twice; must be one key, once",
    ),
    "unknown group": (
        {"group_vars/decod.yml": "decode: {tp: 1}\n"},
        "group_vars/decod.yml: got unknown group decod; must be one of all, decode, prefill, router, unified\n"
        "    hint: did you mean decode?",
    ),
    "unknown host": (
        {"host_vars/h9.yml": "address: 10.0.0.9\n"},
        "host_vars/h9.yml: got unknown host h9; must be one of h1, h2\n"
        "    hint: add the host to the inventory, or remove the file",
    ),
    "another file": (
        {"group_vars/all.json": "{}"},
        "group_vars/all.json: got a file ending in .json; must be a .yml file",
    ),
    "a setting of the whole deployment": (
        {"host_vars/h2.yml": "deployment: other\n"},
        "host_vars/h2.yml:1: deployment: got another value on h2 than on the other hosts; must be equal on all hosts\n"
        "    hint: set it in group_vars/all.yml",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_error_names_place_value_allowed_and_fix(tmp_path, name):
    files, expected = CASES[name]

    assert message(tmp_path, files) == expected


def test_an_unknown_key_names_the_nearest_known_one(tmp_path):
    text = message(tmp_path, {"group_vars/prefill.yml": "prefill:\n  mem_fraction_statik: 0.8\n"})

    assert text.startswith(
        'group_vars/prefill.yml:2: prefill.mem_fraction_statik: got unknown key "mem_fraction_statik"'
    )
    assert text.endswith("hint: did you mean mem_fraction_static?")


def test_a_syntax_error_names_the_line(tmp_path):
    text = message(tmp_path, {"group_vars/all.yml": "deployment: demo\nworker:\n  tp: [1\n  pp: 2\n"})

    assert text.startswith("group_vars/all.yml:4: got a YAML syntax error")
    assert "hint: check indentation" in text


def test_all_errors_come_at_once_in_the_order_of_the_files(tmp_path):
    text = message(
        tmp_path,
        {
            "group_vars/decode.yml": "decode:\n  tp: 0\n  pq: 1\n",
            "group_vars/prefill.yml": "prefil: {}\n",
            "group_vars/router.yml": "router: {policy: fair}\n",
        },
    )

    lines = [line.split(": ")[0] for line in text.splitlines() if not line.startswith(" ")]
    assert sorted(lines) == [
        "group_vars/decode.yml:2",
        "group_vars/decode.yml:3",
        "group_vars/prefill.yml:1",
        "group_vars/router.yml:1",
    ]


def test_an_override_that_is_wrong_is_named_as_such(tmp_path):
    assert message(tmp_path, {}, {"decode.tp": "x"}).startswith('--data: decode.tp: got "x"; must be a whole number')


def test_text_that_is_not_utf8_is_an_error_not_a_traceback(tmp_path):
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_bytes(b"deployment: \xff\xfe\n")

    with pytest.raises(InvalidConfigError, match="must be UTF-8 text"):
        load(tmp_path, GROUPS, {}, tmp_path)
