"""Power and utilisation from what nvidia-smi prints."""

from pathlib import Path

import pytest

from slipway.bench.power import gpu_figures, read_samples

CAPTURED = Path(__file__).resolve().parents[2] / "data/bench/nvidia-smi-h200.csv"  # idle, then matrix products


def sampled(host: str = "gpu1") -> str:
    """The captured lines, one a second from 1000.0 on, as the sampler writes them."""
    lines = CAPTURED.read_text().splitlines()
    return "\n".join(f"{1000 + second}.000, {line}" for second, line in enumerate(lines))


CELL = {"wall_start": 1006.0, "duration": 9.5, "total_output_tokens": 1000}


def test_a_cell_has_the_power_of_its_own_seconds():
    found = gpu_figures(read_samples("gpu1", sampled()), {"gpu1": [0]}, CELL)

    assert found["power_w_mean"] == pytest.approx(692, abs=2)
    assert found["energy_j"] == pytest.approx(692 * 9.5, rel=0.01)
    assert found["energy_j_per_output_token"] == pytest.approx(6.6, rel=0.01)
    assert found["utilisation_mean"] == pytest.approx(1.0, abs=0.01)
    assert (found["samples"], found["hosts"], found["memory_mib_max"]) == (10, ["gpu1"], 883)


def test_energy_is_that_of_all_gpus_and_power_that_of_one():
    samples = read_samples("gpu1", sampled()) + read_samples("gpu2", sampled())

    found = gpu_figures(samples, {"gpu1": [0], "gpu2": [0]}, CELL)

    assert found["power_w_mean"] == pytest.approx(692, abs=2)
    assert found["energy_j"] == pytest.approx(2 * 692 * 9.5, rel=0.01)


def test_gpus_of_others_do_not_count_and_a_gpu_without_samples_leaves_no_figure():
    samples = read_samples("gpu1", sampled().replace(", 0, ", ", 5, ")) + read_samples("gpu1", sampled())

    assert gpu_figures(samples, {"gpu1": [0]}, CELL)["power_w_mean"] == pytest.approx(692, abs=2)
    assert gpu_figures(samples, {"gpu1": [0, 1]}, CELL) is None
    assert gpu_figures(samples, {"gpu1": [0]}, {**CELL, "duration": 1.5}) is None


def test_what_a_gpu_does_not_report_is_none():
    text = "\n".join(f"{1006 + second}.0, 0, [N/A], 50, [N/A], 100, 40" for second in range(9))

    found = gpu_figures(read_samples("spark", text + "\n1015.0, 0, 7"), {"spark": [0]}, CELL)

    assert (found["power_w_mean"], found["energy_j"], found["memory_mib_max"]) == (None, None, None)
    assert found["utilisation_mean"] == 0.5
