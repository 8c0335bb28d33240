"""Environment variables of the engine by release: names, types, old names."""

import pytest

from slipway.knowledge import envs, releases


@pytest.mark.parametrize(
    ("name", "value", "release", "kind", "words"),
    [
        ("SGLANG_ENABLE_JIT_DEEPGEM", "0", "0.5.18", "env-unknown", "SGLANG_ENABLE_JIT_DEEPGEMM"),
        ("SGLANG_WHOLLY_MADE_UP_THING", "0", "0.5.18", "env-unknown", "does nothing"),
        ("SGLANG_ENABLE_JIT_DEEPGEMM", "maybe", "0.5.18", "env-type", "true or false"),
        ("SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", "5m", "0.5.18", "env-type", "whole number"),
        ("SGLANG_DISAGGREGATION_HEARTBEAT_INTERVAL", "soon", "0.5.18", "env-type", "a number"),
        ("SGLANG_DISAGG_STAGING_BUFFER_SIZE_MB", "64", "0.5.18", "env-other-release", "0.5.13 to 0.5.16"),
        ("SGLANG_DSV4_KV_LAYOUT", "v4", "0.5.18", "env-other-release", "0.5.23"),
        ("SGLANG_NSA_FUSE_TOPK", "1", "0.5.18", "env-deprecated", "SGLANG_DSA_FUSE_TOPK"),
    ],
)
def test_what_is_wrong(name, value, release, kind, words):
    (problem,) = envs.check(name, value, release)
    assert (problem.kind, problem.subject) == (kind, name)
    assert words in problem.message + problem.fix
    assert problem.source


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SGLANG_ENABLE_JIT_DEEPGEMM", "0"),
        ("SGLANG_ENABLE_JIT_DEEPGEMM", False),
        ("SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", 300),
        ("SGLANG_HOST_IP", "10.0.0.1"),
        ("SGLANG_USE_CPU_ENGINE", "1"),
        ("SGL_FORCE_SHUTDOWN", "1"),
        ("SGLANG_CACHE_DIR", "/x"),
        ("MOONCAKE_PROTOCOL", "tcp"),
        ("NCCL_NVLS_ENABLE", "what ever"),
        ("HOME", ""),
    ],
)
def test_what_is_fine(name, value):
    assert envs.check_all({name: value}, "0.5.18") == []


@pytest.mark.parametrize(
    ("name", "release", "kind", "default"),
    [
        ("SGLANG_DSV4_FP4_EXPERTS", "0.5.13", "bool", "True"),
        ("SGLANG_DISAGGREGATION_QUEUE_SIZE", "0.5.23", "int", "4"),
        ("SGLANG_AUTO_NUMA_BIND", "0.5.17", "bool", "False"),
        ("SGLANG_AUTO_NUMA_BIND", "0.5.18", "bool", "True"),
    ],
)
def test_types_and_defaults(name, release, kind, default):
    variable = envs.known(release)[name]
    assert (variable.type, variable.default) == (kind, default)


def test_every_release_of_the_table_has_its_variables():
    for release in releases.known():
        assert len(envs.known(str(release.version))) > 350


def test_other_releases_borrow_the_nearest():
    assert envs.known("0.5.99") == envs.known("0.5.23")
    assert envs.known("0.5.18.post1") == envs.known("0.5.18")
    assert envs.known("0.4") == envs.known("0.5.13")
    assert envs.known("c0bb04b67f") == envs.known("0.5.23")


def test_noise_of_the_registry_is_not_a_variable():
    assert {"FUNCTION", "OFF", "_allow_set_name"} & set(envs.known("0.5.18")) == set()
