"""`slipway bench list|diff|check`, as a user and as CI see them."""

import copy

import pytest

from slipway.cli import main
from tests.slipway.bench.results import cell, instance, provenance, void, write


@pytest.fixture
def bench(tmp_path, capsys):
    def run(*words):
        code = main(["bench", *words, "--results", str(tmp_path)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    run.results = tmp_path
    return run


def repeats(*outputs, concurrency=8):
    return [cell(output, concurrency, repeat) for repeat, output in enumerate(outputs)]


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
    write(bench.results, "old", [cell(400.0, repeat=at, median_ttft_ms=20.0 + at) for at in range(3)])
    write(bench.results, "new", [cell(400.0, repeat=at, median_ttft_ms=40.0 + at) for at in range(3)])

    assert check(bench, "3%", "--metric", "median_ttft_ms")[0] == 1
    assert check(bench, "3%")[0] == 0


@pytest.mark.parametrize(
    ("cells", "more", "words"),
    [
        (repeats(300.0), {}, "one run a side tells no spread"),
        (repeats(300.0, 301.0, concurrency=64), {}, "no load in common"),
        ([void(), void(repeat=1)], {}, "void, repeat 0: 1 of 32 requests failed"),
        (repeats(300.0, 301.0), {"simulated": True}, "simulated engine"),
        (repeats(300.0, 301.0), {"gpus": [{"host": "x", "name": "NVIDIA B200", "count": 4}]}, "GPUs differ"),
        (repeats(300.0, 301.0), {"client": {"kind": "engine"}}, "client differ"),
    ],
)
def test_what_cannot_be_compared_ends_with_2(bench, cells, more, words):
    write(bench.results, "old", repeats(400.0))
    write(bench.results, "new", cells, **more)

    code, out = check(bench)

    assert (code, words in out) == (2, True), out


def test_another_driver_is_no_reason_not_to_compare(bench):
    write(bench.results, "old", repeats(400.0, 401.0))
    gpu = {"host": "gpu9", "name": "NVIDIA H200", "count": 4, "driver": "590.1"}
    write(bench.results, "new", repeats(400.0, 401.0), gpus=[gpu])

    assert check(bench)[0] == 0


def test_a_regression_is_not_hidden_by_a_void_cell(bench):
    write(bench.results, "old", [*repeats(400.0, 401.0), *repeats(600.0, 601.0, concurrency=16)])
    write(bench.results, "new", [*repeats(300.0, 301.0), void(16), void(16, 1)])

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


def test_diff_sets_the_lever_apart_from_all_else(bench):
    plan = copy.deepcopy(provenance()["plan"])
    plan["instances"] = [instance("decode-0", moe_runner_backend="flashinfer_cutlass", page_size=64)]
    write(bench.results, "A", repeats(400.0))
    write(bench.results, "B", repeats(410.0), plan=plan, router={"name": "smg", "version": "1.14.0"})

    code, out = bench("diff", "A", "B", "--lever", "moe_runner_backend")

    assert code == 0
    lever, _, besides = out.partition("besides the lever:")
    assert "instance decode-0: ~ --moe-runner-backend marlin -> flashinfer_cutlass" in lever
    assert "router: name smg, version 1.13.0 -> name smg, version 1.14.0" in besides
    assert "+ --page-size 64" in besides
    assert "date" not in out


def test_an_experiment_s_variant_names_its_lever_itself(bench):
    plan = copy.deepcopy(provenance()["plan"])
    plan["instances"] = [instance("decode-0", moe_runner_backend="triton")]
    write(bench.results, "A", repeats(400.0))
    folder = write(bench.results, "B", repeats(410.0), plan=plan)
    (folder / "experiment.json").write_text('{"levers": ["worker.moe_runner_backend"]}')

    out = bench("diff", "A", "B")[1]

    assert out.startswith("the lever:")
    assert "nothing else differs" in out


def test_list_has_every_label_and_says_of_a_broken_one_why(bench):
    write(bench.results, "A", [cell(400.0), void(16)])
    write(bench.results, "broken", ["{"])

    code, out = bench("list")

    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("A "))
    assert "complete" in row
    assert "NVIDIA H200" in row
    assert "broken" in out
    assert "unreadable" in out
    assert "not JSON" in out


def test_list_of_nothing_says_how_to_make_some(bench):
    assert "playbooks/bench.py" in bench("list")[1]
