"""Changes under load: what was asked for while something changed was answered."""

from __future__ import annotations

from pathlib import Path

from tests.staging.load import Load
from tests.staging.pairs import WORKERS, flag_of
from tests.staging.site import Site

STREAMS = 8


def test_a_new_flag_and_a_release_that_fails_cost_no_request(pairs: Site, tmp_path: Path) -> None:
    with Load(pairs, STREAMS, tmp_path) as load:
        changed = pairs.deploy("--data", "worker.max_running_requests=9", timeout=600)
        flags = {name: flag_of(pairs, name) for name in WORKERS}
        failed = pairs.deploy("--data", "decode.env.SLIPWAY_SIM_FAULTS=dies-loading", timeout=600)

    assert changed.rc == 0, changed.out
    assert flags == dict.fromkeys(WORKERS, "9")
    assert failed.rc == 1, failed.out
    assert "serves again, and every rung of its ladder holds" in failed.out, failed.out
    assert {name: flag_of(pairs, name) for name in WORKERS} == flags
    assert load.lost == 0, load.failures
    assert len(load.all_rows) > STREAMS * 4
