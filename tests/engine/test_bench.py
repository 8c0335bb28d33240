"""A sweep on the real engine: through the real router, with the lengths that were asked for, and its provenance."""

import json
import shutil

import pytest

from tests.e2e.site import CHECKOUT

LOCKS = CHECKOUT / ".slipway/locks"
pytestmark = [pytest.mark.engine, pytest.mark.full]
CELLS = {"shapes": [[65, 16]], "concurrency": [1, 4], "prompts": 2, "warmups": 1}  # 5 of the template, 20 words of 3


def test_a_sweep_on_the_real_engine_is_valid_and_says_what_it_measured(engine_site):
    cells, record = measured(engine_site, f"{engine_site.name}-real")

    assert [(cell["cell"], cell["status"]) for cell in cells] == [("65-16-c1", "valid"), ("65-16-c4", "valid")]
    assert [cell["total_output_tokens"] for cell in cells] == [2 * 16, 8 * 16]
    assert [cell["input_length_mismatches"] + cell["output_length_mismatches"] for cell in cells] == [0, 0]
    assert cells[1]["server"]["generation_tokens"] >= 8 * 16
    assert cells[1]["server"]["missing"] == []
    assert cells[1]["mean_itl_ms"] > 0
    assert (record["simulated"], record["engine"]["version"]) == (False, "0.5.13")
    assert any(build["kind"] == "sglang" for build in record["builds"].values())


def test_the_engine_s_own_client_measures_the_same_cells_with_the_same_keys(engine_site):
    """It wants a package that the engine does not bring, so this is another build, which is deployed first."""
    ours, _ = measured(engine_site, f"{engine_site.name}-ours")
    before = set(LOCKS.glob("*"))
    extra = {"engine.extra_packages": ["datasets"]}
    try:
        deployed = engine_site.run("-y", "deploy.py", timeout=1800, **extra)
        assert deployed.rc == 0, deployed.out
        both = {**CELLS, "shapes": [[65, 16], [512, 16]]}
        theirs, _ = measured(engine_site, f"{engine_site.name}-theirs", both, **extra, **{"bench.client": "engine"})
    finally:
        back = engine_site.run("-y", "deploy.py", timeout=1800)
        for lock in set(LOCKS.glob("*")) - before:  # resolved for this build; an operator would commit it
            lock.unlink()
    assert back.rc == 0, back.out

    short, long = theirs[:2], theirs[2:]
    assert [(cell["cell"], cell["reasons"]) for cell in long] == [("512-16-c1", []), ("512-16-c4", [])]
    assert [cell["cell"] for cell in short] == [cell["cell"] for cell in ours]
    # Its random tokens, decoded and encoded again, are not as many; few short prompts may be too far off to count.
    assert [reason for cell in short for reason in cell["reasons"] if not reason.startswith("prompts have")] == []
    assert [cell["total_output_tokens"] for cell in theirs] == [2 * 16, 8 * 16] * 2
    assert set(ours[0]) == set(theirs[0])
    assert all(cell["median_ttft_ms"] > 0 and cell["output_throughput"] > 0 for cell in theirs)


def measured(site, label, cells=CELLS, **more):
    """The cells of a small sweep, and their provenance."""
    folder = CHECKOUT / "bench" / label
    sweep = {"label": label, "bench.sweep": "small", "bench.sweeps.small": cells, **more}
    try:
        done = site.run("-y", "playbooks/bench.py", **sweep)
        assert done.rc == 0, done.out
        cells = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        return cells, json.loads((folder / "provenance.json").read_text())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
