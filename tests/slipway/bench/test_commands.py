"""`slipway bench list|diff|check`, as a user and as CI see them."""

import pytest

from slipway.cli import main
from tests.slipway.bench.results import cell, provenance, repeats, void, write


@pytest.fixture
def bench(tmp_path, capsys):
    def run(*words):
        code = main(["bench", *words, "--bench", str(tmp_path)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    run.results = tmp_path
    return run


def check(bench, drop="3%", *more):
    return bench("check", "new", "--baseline", "old", "--max-drop", drop, *more)


def test_a_real_regression_ends_with_1(bench):
    write(bench.results, "old", repeats(400.0, 402.0, 398.0))
    write(bench.results, "new", repeats(380.0, 381.0, 379.0))

    code, out = check(bench)

    assert code == 1
    assert "REGRESSION" in out
    assert "380.0 against 400.0 tok/s, -5.0" in out
    assert "(3 and 3 runs)" in out


def test_noise_ends_with_0(bench):
    write(bench.results, "old", repeats(400.0, 430.0, 370.0))
    write(bench.results, "new", repeats(380.0, 395.0, 365.0))  # 5 % less, inside the spread

    code, out = check(bench)

    assert (code, "noise" in out) == (0, True)


def test_a_sure_but_small_drop_ends_with_0(bench):
    write(bench.results, "old", repeats(400.0, 400.2, 399.8))
    write(bench.results, "new", repeats(396.0, 396.2, 395.8))

    code, out = check(bench)

    assert (code, "within limits" in out) == (0, True)
    assert check(bench, "0.5%")[0] == 1


def test_a_latency_that_rises_is_a_regression(bench):
    write(bench.results, "old", [cell(400.0, repeat=at, median_ttft_ms=20.0 + at) for at in (1, 2, 3)])
    write(bench.results, "new", [cell(400.0, repeat=at, median_ttft_ms=40.0 + at) for at in (1, 2, 3)])

    assert check(bench, "3%", "--metric", "median_ttft_ms")[0] == 1
    assert check(bench, "3%")[0] == 0


@pytest.mark.parametrize(
    ("cells", "more", "words"),
    [
        (repeats(300.0), {}, "one run a side tells no spread"),
        (repeats(300.0, 301.0, concurrency=64), {}, "no load in common"),
        ([void(), void(repeat=2)], {}, "void, repeat 1: 1 of 32 requests failed"),
        (repeats(300.0, 301.0), {"simulated": True}, "simulated engine"),
        (repeats(300.0, 301.0), {"hosts": {"x": {"hardware": "4 x NVIDIA B200"}}}, "GPUs differ"),
        (repeats(300.0, 301.0), {"client": {"name": "engine"}}, "clients differ"),
    ],
)
def test_what_cannot_be_compared_ends_with_2(bench, cells, more, words):
    write(bench.results, "old", repeats(400.0))
    write(bench.results, "new", cells, **more)

    code, out = check(bench)

    assert (code, words in out) == (2, True), out


def test_another_driver_is_no_reason_not_to_compare(bench):
    write(bench.results, "old", repeats(400.0, 401.0))
    write(bench.results, "new", repeats(400.0, 401.0), hosts={"x": {"hardware": "4 x NVIDIA H200", "driver": "590.1"}})

    assert check(bench)[0] == 0


def test_a_regression_is_not_hidden_by_a_void_cell(bench):
    write(bench.results, "old", [*repeats(400.0, 401.0), *repeats(600.0, 601.0, concurrency=16)])
    write(bench.results, "new", [*repeats(300.0, 301.0), void(16), void(16, 2)])

    code, out = check(bench)

    assert code == 1
    assert "not comparable  1024/128 C=16: void" in out


def test_single_runs_can_be_judged_by_a_spread_that_is_named(bench):
    write(bench.results, "old", repeats(400.0))
    write(bench.results, "new", repeats(300.0))

    assert check(bench, "3%", "--spread", "2%")[0] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("check", "new", "--baseline", "olt", "--max-drop", "3%"), "did you mean old?"),
        (("check", "new", "--baseline", "old", "--max-drop", "much"), "must be a percentage"),
        (("check", "new", "--baseline", "old", "--max-drop", "3%", "--metric", "output_trougput"), "did you mean"),
    ],
)
def test_wrong_words_end_with_2(bench, words, said):
    write(bench.results, "old", repeats(400.0))
    write(bench.results, "new", repeats(400.0))

    code, out = bench(*words)

    assert (code, said in out) == (2, True), out


def with_setting(**more):
    settings = provenance()["settings"]
    return {role: {**values, **more} for role, values in settings.items()}


def test_diff_sets_the_lever_apart_from_all_else(bench):
    settings = with_setting(moe_runner_backend="flashinfer_cutlass", page_size=64)
    write(bench.results, "A", repeats(400.0))
    write(bench.results, "B", repeats(410.0), settings=settings, router={"version": "smg 1.14.0"}, plan="9z")

    code, out = bench("diff", "A", "B", "--lever", "moe_runner_backend")

    assert code == 0
    lever, _, besides = out.partition("besides the lever:")
    assert "settings.moe_runner_backend (prefill, decode): marlin -> flashinfer_cutlass" in lever
    assert "router.version: smg 1.13.0 -> smg 1.14.0" in besides
    assert "settings.page_size (prefill, decode): not there -> 64" in besides
    assert "9z" not in out


def test_diff_names_a_variable_of_one_instance(bench):
    write(bench.results, "A", repeats(400.0))
    write(bench.results, "B", repeats(410.0), environment={"prefill-0": {"A": "1"}, "decode-0": {"A": "2"}})

    assert "environment.A (decode-0): 1 -> 2" in bench("diff", "A", "B")[1]


def test_an_experiment_s_variant_names_its_lever_itself(bench):
    write(bench.results, "A", repeats(400.0))
    folder = write(bench.results, "B", repeats(410.0), settings=with_setting(moe_runner_backend="triton"))
    (folder / "experiment.json").write_text('{"levers": ["worker.moe_runner_backend"]}')

    out = bench("diff", "A", "B")[1]

    assert out.startswith("the lever:")
    assert "nothing else differs" in out


def test_what_follows_from_another_engine_version_is_the_lever_s(bench):
    write(bench.results, "A", repeats(400.0))
    folder = write(
        bench.results,
        "B",
        repeats(410.0),
        engine={"kind": "sglang", "version": "0.5.24", "device": "cuda"},
        builds={"sglang-2": {}},
    )
    (folder / "experiment.json").write_text('{"levers": ["engine.version"]}')

    assert "nothing else differs" in bench("diff", "A", "B")[1]


def test_list_has_every_label_and_says_of_a_broken_one_why(bench):
    write(bench.results, "A", [cell(400.0), void(16)])
    write(bench.results, "broken", ["{"])

    code, out = bench("list")

    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("A "))
    assert "complete" in row
    assert "2026-11-30" in row
    assert "4 (2 prefill, 2 decode)" in row
    assert "broken" in out
    assert "unreadable" in out
    assert "not JSON" in out


def test_list_of_nothing_says_how_to_make_some(bench):
    assert "playbooks/bench.py" in bench("list")[1]
