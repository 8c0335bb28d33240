"""Results are read strictly: what is wrong is named with its place, and nothing wrong is averaged in."""

import pytest

from slipway.bench.errors import BenchError
from slipway.bench.folder import read_result
from tests.slipway.bench.results import cell, void, write


def refused(tmp_path, *words, label="A"):
    with pytest.raises(BenchError) as caught:
        read_result(tmp_path, label)
    for word in words:
        assert word in str(caught.value)


def test_a_result_has_its_cells_with_what_follows_from_them(tmp_path):
    write(tmp_path, "A", [cell(400.0), void(16)])

    result = read_result(tmp_path, "A")

    assert [str(shape) for shape in result.shapes] == ["1024/128 C=8", "1024/128 C=16"]
    assert result.cells[0].values["total_throughput_per_gpu_all"] == 900.0
    assert result.cells[0].values["tok_s_per_user.median"] == pytest.approx(50.0)
    assert result.cells[1].void == ("1 of 32 requests failed",)


def test_an_unknown_label_names_the_nearest(tmp_path):
    write(tmp_path, "NVFP4_marlin", [cell(400.0)])

    refused(tmp_path, "NVFP4_merlin: no results", "did you mean NVFP4_marlin?", label="NVFP4_merlin")


def test_a_label_is_no_path(tmp_path):
    refused(tmp_path, "must be of letters", label="../A")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ("results.jsonl:2", "not JSON")),
        ("[1]", ("results.jsonl:2", "got list")),
        (cell(1.0, max_concurrency="8"), ("results.jsonl:2", "max_concurrency: got '8'")),
        (cell(1.0, num_prompts=0), ("num_prompts: got 0", "at least 1")),
        (cell(float("nan")), ("results.jsonl:2", "got nan")),
        (cell(-5.0, output_throughput=-5.0), ("got -",)),
        (cell(5.0, status="void"), ("contradict",)),
        (cell(5.0, reasons=["a request failed"]), ("contradict",)),
        (cell(5.0, status=None), ("status: got None",)),
        (cell(5.0, format=2), ("got format 2", "must be format 1")),
        ({key: value for key, value in cell(5.0).items() if key != "duration"}, ("without duration",)),
    ],
)
def test_a_broken_record_is_named_with_its_line(tmp_path, line, words):
    write(tmp_path, "A", [cell(400.0, 4), line])

    refused(tmp_path, *words)


def test_shapes_that_do_not_mix_are_refused(tmp_path):
    write(tmp_path, "A", [cell(400.0), cell(400.0, repeat=2, num_prompts=64)])

    refused(tmp_path, "with 32 and with 64 prompts", "label of its own")


def test_a_repeat_that_is_there_twice_is_refused(tmp_path):
    write(tmp_path, "A", [cell(400.0), cell(500.0)])

    refused(tmp_path, "repeat 1 is there twice")


def test_results_without_provenance_are_not_used(tmp_path):
    (write(tmp_path, "A", [cell(400.0)]) / "provenance.json").unlink()

    refused(tmp_path, "provenance.json: not there")


def test_a_folder_that_was_renamed_is_refused(tmp_path):
    write(tmp_path, "B", [cell(400.0)]).rename(tmp_path / "A")

    refused(tmp_path, "label 'B'; must be format 1, label 'A', the folder's name")


def test_a_line_that_a_crash_tore_is_left_out_and_the_sweep_not_called_ended(tmp_path):
    folder = write(tmp_path, "A", [cell(400.0), cell(410.0, repeat=2)])
    text = (folder / "results.jsonl").read_text()
    (folder / "results.jsonl").write_text(text + text[:100])
    (folder / "done.json").write_text('{"repeat": 1}')

    result = read_result(tmp_path, "A")

    assert (len(result.cells), result.complete) == (2, False)
