"""Changes under load: what was asked for while something changed was answered."""

from __future__ import annotations

from pathlib import Path

from tests.staging.load import Load
from tests.staging.pairs import WORKERS, flag_of
from tests.staging.site import Site

STREAMS = 8


def test_a_changed_flag_reaches_every_worker_and_no_request_is_lost(pairs: Site, tmp_path: Path) -> None:
    with Load(pairs, STREAMS, tmp_path) as load:
        ran = pairs.deploy("--data", "worker.max_running_requests=9")
    assert ran.rc == 0, ran.out
    assert {name: flag_of(pairs, name) for name in WORKERS} == dict.fromkeys(WORKERS, "9")
    assert load.lost == 0, load.failures
    assert len(load.all_rows) > STREAMS * 4
