"""`slipway report`: what its Markdown says of better, worse, noise, void and missing loads, rooflines and targets."""

import pytest

from slipway.bench.plot import Plot, Point, Series, axis_of, number, svg
from slipway.cli import main
from slipway.knowledge import gpus
from slipway.memory.roofline import Roofline
from slipway.plan.model import to_json
from tests.slipway.bench.results import cell, provenance, repeats, void, write


@pytest.fixture
def report(tmp_path, capsys):
    """Runs the command; exit code, what it printed, and report.md."""

    def run(*words):
        code = main(["report", *words, "--bench", str(tmp_path)])
        printed = capsys.readouterr()
        path = tmp_path / words[0] / "report.md"
        return code, printed.out + printed.err, path.read_text() if path.is_file() else ""

    run.bench = tmp_path
    return run


def row(text, start):
    return next(line for line in text.splitlines() if line.startswith(f"| {start} "))


def test_each_figure_has_value_baseline_delta_percent_and_verdict(report):
    write(report.bench, "old", repeats(400.0, 402.0, 398.0))
    write(report.bench, "new", repeats(440.0, 442.0, 438.0))

    code, out, text = report("new", "--baseline", "old")

    assert code == 0
    assert "written:" in out
    assert row(text, "output tok/s") == (
        "| output tok/s | tok/s | 440.0 [438.0 … 442.0] | 400.0 | +40.0 | +10.0 % ±1.2 | better |"
    )
    assert row(text, "TPOT median").endswith("| better |")
    assert row(text, "TTFT median").endswith("| +0.0 % ±0.0 | noise |")


def test_without_a_baseline_there_are_values_alone(report):
    write(report.bench, "new", repeats(440.0, 442.0))

    assert row(report("new")[2], "output tok/s") == "| output tok/s | tok/s | 441.0 [440.0 … 442.0] |"


def test_one_run_is_called_what_it_is(report):
    write(report.bench, "old", [cell(400.0)])
    write(report.bench, "new", [cell(800.0)])

    _, out, text = report("new", "--baseline", "old")

    assert "measured once, so nothing is known of the spread" in out
    assert row(text, "output tok/s").endswith("| +100.0 % | not known (1 run) |")


def test_void_and_missing_loads_are_in_sight(report):
    write(report.bench, "old", [*repeats(400.0, 401.0), *repeats(900.0, 901.0, concurrency=32)])
    write(
        report.bench,
        "new",
        [*repeats(440.0, 441.0), void(16, 1, "2 of 64 requests failed"), void(16, 2, "clock jumped")],
    )

    _, out, text = report("new", "--baseline", "old")

    for line in (
        "new 1024/128 C=16: void, repeat 1: 2 of 64 requests failed",
        "old 1024/128 C=32: new did not measure it",
    ):
        assert line in out
        assert f"- {line}" in text
    assert "| 1024/128 C=16 | void |" in text
    assert "clock jumped" in text


def test_a_void_run_is_no_part_of_a_mean(report):
    write(report.bench, "new", [*repeats(400.0, 410.0), void(8, 3)])

    text = report("new")[2]

    assert "405.0 [400.0 … 410.0]" in text
    assert "n=32, 2 run(s), 1 void" in text


def test_notes_of_a_cell_are_shown(report):
    write(report.bench, "new", [cell(400.0, notes=["client-bound: the server may be faster"])])

    assert "- new 1024/128 C=8: client-bound: the server may be faster" in report("new")[2]


def test_results_of_different_hardware_are_shown_with_a_warning(report):
    write(report.bench, "old", repeats(400.0, 401.0))
    write(report.bench, "new", repeats(440.0, 441.0), hosts={"a": {"hardware": "4 x NVIDIA B200"}})

    assert "GPUs differ: 4 of 4 x NVIDIA B200 and 4 of 4 x NVIDIA H200" in report("new", "--baseline", "old")[1]


def test_a_sweep_that_did_not_end_says_so(report):
    write(report.bench, "new", [cell(400.0)], complete=False)

    assert "new: the sweep did not come to its end" in report("new")[1]


def a_roofline(**more):
    values = {"always": 4e9, "experts": 64e9, "routed": 256, "active": 8, "tokens_a_step": 1, "lines": ("heads: 4 GB",)}
    return to_json(Roofline(gpus.find("NVIDIA H200").name, 4.8e12, **{**values, **more}))


def test_the_roofline_says_its_arithmetic_and_that_it_is_an_upper_bound(report):
    write(report.bench, "new", repeats(400.0, 401.0), roofline={"decode": a_roofline()})

    text = report("new")[2]

    assert "roofline, an upper bound: one user gets at most 4,800 GB/s / 6.000 GB = 800 output tok/s" in text
    assert "as if each token chose 8 of 256 evenly" in text
    assert "- heads: 4 GB" in text


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"simulated": True}, "the simulated engine reads no weights"),
        ({"engine": {"kind": "sglang", "device": "cpu"}}, "the memory bandwidth of a CPU is not in the catalogue"),
        ({}, "were not known to the plan"),
    ],
)
def test_where_there_is_no_roofline_it_says_why(report, more, why):
    write(report.bench, "new", repeats(400.0, 401.0), **more)

    assert f"no roofline: {why}" in report("new")[2].replace("the checkpoint's shapes or the GPU's bandwidth ", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nwe",), "nwe: no results"),
        (("new", "--baseline", "olt"), "olt: no results"),
        (("new", "--target", "output_throughput"), "must be METRIC=NUMBER"),
        (("new", "--target", "speed=3"), "speed: no such metric"),
        (("tried",), "tried is an experiment, not a label: slipway experiment tried --report"),
    ],
)
def test_wrong_words_are_told_without_a_file(report, words, said):
    write(report.bench, "new", repeats(400.0, 401.0))
    (report.bench / "tried").mkdir()
    (report.bench / "tried/state.json").write_text("{}")

    code, out, _ = report(*words)

    assert (code, said in out) == (1, True), out
    assert not list(report.bench.glob("*/report.*"))


def test_what_differs_besides_the_lever_stands_in_the_report(report):
    write(report.bench, "old", repeats(400.0, 401.0))
    write(report.bench, "new", repeats(440.0, 441.0), router={"version": "smg 1.14.0"})

    assert "- router.version: smg 1.13.0 -> smg 1.14.0" in report("new", "--baseline", "old")[2]
    assert provenance()["router"]["version"] == "smg 1.13.0"


def test_axes_start_at_zero_unless_values_span_more_than_an_order_of_magnitude():
    near, far = axis_of([40.0, 100.0], 0, 100), axis_of([1.0, 500.0], 0, 100)

    assert (near.lowest, near.logarithmic) == (0.0, False)
    assert far.logarithmic
    assert [number(value) for value in near.ticks()] == ["0", "25", "50", "75", "100"]
    assert [number(value) for value in far.ticks()] == ["1", "2", "5", "10", "20", "50", "100", "200", "500"]


def test_a_single_point_and_no_point_at_all_can_be_drawn():
    alone = Plot("a", "title", "x", "y", (Series("one", (Point(5.0, 5.0, "C=1"),)),))
    empty = Plot("b", "title", "x", "y", ())

    assert svg(alone).count('class="mark"') == 1
    assert "<svg" in svg(empty)
