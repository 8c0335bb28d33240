"""A sweep on the real engine: through the real router, with the lengths that were asked for, and its provenance."""

import json
import shutil

import pytest

from tests.e2e.site import CHECKOUT

pytestmark = [pytest.mark.engine, pytest.mark.full]
CELLS = {"shapes": [[65, 16]], "concurrency": [1, 4], "prompts": 2, "warmups": 1}  # 5 of the template, 20 words of 3


def test_a_sweep_on_the_real_engine_is_valid_and_says_what_it_measured(engine_site):
    label, folder = f"{engine_site.name}-real", CHECKOUT / "bench" / f"{engine_site.name}-real"
    sweep = {"label": label, "bench.sweep": "small", "bench.sweeps.small": CELLS}
    try:
        done = engine_site.run("-y", "playbooks/bench.py", **sweep)

        assert done.rc == 0, done.out
        cells = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        assert [(cell["cell"], cell["status"]) for cell in cells] == [("65-16-c1", "valid"), ("65-16-c4", "valid")]
        assert [cell["total_output_tokens"] for cell in cells] == [2 * 16, 8 * 16]
        assert [cell["input_length_mismatches"] + cell["output_length_mismatches"] for cell in cells] == [0, 0]
        assert cells[1]["server"]["generation_tokens"] >= 8 * 16
        assert cells[1]["server"]["missing"] == []
        assert cells[1]["mean_itl_ms"] > 0
        record = json.loads((folder / "provenance.json").read_text())
        assert (record["simulated"], record["engine"]["version"]) == (False, "0.5.13")
        assert any(build["kind"] == "sglang" for build in record["builds"].values())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
