"""Layers of configuration: all < group < host < --data, merged deeply, typed and frozen."""

import dataclasses

import pytest

from .test_errors import loaded


def test_later_layers_win_and_mappings_merge(tmp_path):
    deployment = loaded(
        tmp_path,
        {
            "group_vars/all.yml": "worker: {tp: 1, server_args: {a: 1, b: 1}, env: {X: 1}}\n",
            "group_vars/decode.yml": "decode: {tp: 2, server_args: {b: 2}}\n",
            "host_vars/h2.yml": "decode: {server_args: {c: 3}}\n",
        },
        {"decode.server_args.d": 4},
    )

    decode = deployment.host("h2").workers["decode"]
    assert decode.tp == 2
    assert dict(decode.server_args) == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert deployment.host("h1").workers["prefill"].tp == 1


def test_a_role_s_settings_stay_with_the_role_on_a_shared_host(tmp_path):
    deployment = loaded(
        tmp_path,
        {"group_vars/prefill.yml": "prefill: {tp: 4}\n", "group_vars/decode.yml": "decode: {tp: 8}\n"},
    )

    assert deployment.host("h1").workers["prefill"].tp == 4
    assert deployment.host("h2").workers["decode"].tp == 8


def test_yaml_booleans_in_the_environment_become_what_a_shell_would_write(tmp_path):
    deployment = loaded(tmp_path, {"group_vars/decode.yml": "decode: {env: {A: true, B: 1, C: x}}\n"})

    assert dict(deployment.host("h2").workers["decode"].env) == {"A": "true", "B": "1", "C": "x"}


def test_nothing_of_a_deployment_can_be_changed_afterwards(tmp_path):
    worker = loaded(tmp_path, {}).host("h2").workers["decode"]

    with pytest.raises(dataclasses.FrozenInstanceError):
        worker.tp = 3
    with pytest.raises(TypeError):
        worker.env["X"] = "1"


def test_every_default_stands_in_the_schema(tmp_path):
    """A host of which nothing is said has a value for every typed setting."""
    worker = loaded(tmp_path, {}).host("h1").workers["prefill"]

    assert (worker.instances, worker.port, worker.bootstrap_port, worker.tp) == (1, 30000, 8998, 1)
