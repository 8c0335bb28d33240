"""Releases: what each needs, how it stops, what it answers; unknown is said, never guessed."""

import pytest

from slipway.knowledge import gates, releases


@pytest.mark.parametrize(
    ("release", "python", "torch", "flashinfer", "kernel", "transformers", "deep_gemm"),
    [
        ("0.5.13", "3.10", "2.11.0", "0.6.12", "0.4.3", "5.8.1", "0.1.2"),
        ("0.5.16", "3.10", "2.11.0", "0.6.14", "0.4.5", "5.12.1", "0.1.4.post1"),
        ("0.5.18", "3.10", "2.13.0", "0.6.17", "0.4.6.post1", "5.12.1", "0.1.5.post3"),
        ("0.5.20", "3.10", "2.13.0", "0.6.18", "0.4.7", "5.12.1", "0.2.0"),
        ("0.5.23", "3.11", "2.14.1", "0.7.2", "0.4.10", "5.19.0", "0.2.3.post2"),
    ],
)
def test_the_release_matrix(release, python, torch, flashinfer, kernel, transformers, deep_gemm):
    found = releases.get(release)
    assert found is not None
    assert found.python_min == python
    assert dict(found.pins) == {
        "torch": torch,
        "flashinfer-python": flashinfer,
        "sglang-kernel": kernel,
        "transformers": transformers,
        "sgl-deep-gemm": deep_gemm,
    }
    assert found.cuda_majors == (13,)
    assert found.driver_min == "580"


def test_all_releases_are_there_in_order():
    names = [str(release.version) for release in releases.known()]
    assert names == ["0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", *(f"0.5.{n}" for n in range(16, 24))]


@pytest.mark.parametrize(
    ("release", "ready", "signal", "status", "systemd"),
    [
        ("0.5.13", "/health", 9, None, "SuccessExitStatus=SIGKILL"),
        ("0.5.18", "/health", 9, None, "SuccessExitStatus=SIGKILL"),
        ("0.5.19", "/health", None, 0, ""),
        ("0.5.20", "/ready", None, 0, ""),
        ("0.5.23", "/ready", None, 0, ""),
    ],
)
def test_ready_endpoint_and_clean_stop(release, ready, signal, status, systemd):
    found = releases.get(release)
    assert found.ready_path == ready
    assert (found.shutdown.exit_signal, found.shutdown.exit_status, found.shutdown.systemd) == (signal, status, systemd)


@pytest.mark.parametrize(
    ("path", "has", "lacks"), [("/get_load", "0.5.20", "0.5.21"), ("/pd_role_switch", "0.5.21", "0.5.20")]
)
def test_endpoints_by_release(path, has, lacks):
    assert releases.get(has).answers(path)
    assert not releases.get(lacks).answers(path)
    assert releases.get(lacks).answers("/server_info")


@pytest.mark.parametrize(
    ("release", "role", "runs"),
    [
        ("0.5.13", "decode", True),
        ("0.5.13", "unified", True),
        ("0.5.15.post1", "unified", True),
        ("0.5.15.post1", "prefill", False),
        ("0.5.16", "unified", False),
        ("0.5.23", "prefill", False),
        ("0.5.18", "unified", None),
    ],
)
def test_cpu_engine_yes_no_and_not_tried(release, role, runs):
    assert releases.get(release).runs_on_cpu(role) is runs


def test_listeners_of_a_role_with_default_ports():
    ports = {item.name: item.port for item in releases.get("0.5.18").listeners_of("prefill") if item.port}
    assert ports == {"api": 30000, "bootstrap": 8998, "engine_info": 6789, "tcp_store": 29600}
    assert "bootstrap" not in [item.name for item in releases.get("0.5.18").listeners_of("decode")]


@pytest.mark.parametrize(
    ("asked", "stands"),
    [
        ("0.5.18", "0.5.18"),
        ("0.5.18.post1", "0.5.18"),
        ("0.5.99", "0.5.23"),
        ("0.4.9", "0.5.13"),
        ("c0bb04b67f", "0.5.23"),
    ],
)
def test_nearest(asked, stands):
    assert str(releases.nearest(asked).version) == stands


@pytest.mark.parametrize("unknown", ["0.5.99", "main", "", "0.5.18.post1"])
def test_an_unknown_release_is_none(unknown):
    assert releases.get(unknown) is None


GATES = [
    ("hybrid_fp8_nvfp4_detection", "0.5.13.post1", "0.5.14"),
    ("nvfp4_flashinfer_cutlass_honours_swiglu_limit", "0.5.20", "0.5.21"),
    ("nvfp4_runner_cutlass_raises", "0.5.15", "0.5.16"),
    ("fp8_moe_triton_fallback_under_flashinfer_cutlass", "0.5.19", "0.5.20"),
    ("dsv4_sm12x_default_flashinfer_mxfp4", "0.5.15", "0.5.16"),
    ("gpt_oss_sm12x_flashinfer_mxfp4", "0.5.16", "0.5.17"),
    ("sigterm_exit_status_zero", "0.5.18", "0.5.19"),
    ("modelopt_mixed_by_content", "0.5.14", "0.5.15"),
    ("modelopt_mxfp8_by_name", "0.5.17", "0.5.18"),
    ("deep_gemm_on_sm120", "0.5.20", "0.5.21"),
    ("ready_endpoint", "0.5.19", "0.5.20"),
    ("attn_dp_size_flag", "0.5.21", "0.5.22"),
    ("caches_under_sglang_cache_dir", "0.5.17", "0.5.18"),
]


@pytest.mark.parametrize(("name", "before", "since"), GATES)
def test_gates_open_with_their_first_release(name, before, since):
    assert gates.holds(name, before) is False
    assert gates.holds(name, since) is True


def test_gates_that_close():
    assert gates.holds("cuda_graph_max_bs_old_spelling", "0.5.19")
    assert not gates.holds("cuda_graph_max_bs_old_spelling", "0.5.20")
    assert gates.holds("dsv4_sm12x_default_marlin", "0.5.15.post1")
    assert not gates.holds("dsv4_sm12x_default_marlin", "0.5.16")


def test_a_patch_opens_its_gate():
    assert gates.holds("hybrid_fp8_nvfp4_detection", "0.5.13", frozenset({"pr-25820"}))
    assert not gates.holds("hybrid_fp8_nvfp4_detection", "0.5.13", frozenset({"pr-1"}))


def test_a_commit_is_unknown_to_a_gate():
    assert gates.holds("ready_endpoint", "c0bb04b67f") is None


def test_an_unknown_gate_names_those_that_exist():
    with pytest.raises(KeyError, match="ready_endpoint"):
        gates.gate("nope")
    assert "ready_endpoint" in gates.gate_names()
