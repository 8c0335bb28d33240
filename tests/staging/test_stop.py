"""Workers that are told to stop and wait for what they need not, under systemd."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.staging.load import Load
from tests.staging.pairs import flag_of
from tests.staging.site import Site

KEEPING = ("--data", "decode.env.SLIPWAY_SIM_FAULTS=keeps-refused")


@pytest.mark.full
def test_workers_that_wait_for_what_they_refused_are_ended_once_idle_and_nobody_is_cut(
    pairs: Site, tmp_path: Path
) -> None:
    assert pairs.deploy(*KEEPING).rc == 0
    with Load(pairs, 8, tmp_path) as load:
        ran = pairs.deploy(*KEEPING, "--data", "decode.max_running_requests=9", timeout=600)

    assert ran.rc == 0, ran.out
    ended = [name for name in ("decode-0", "decode-1") if f"{name} had no request in hand and did not end" in ran.out]
    assert ended, ran.out  # the one that the ladder's refused requests went to, or both
    for host, name in (("h1", "decode-0"), ("h2", "decode-1")):
        assert flag_of(pairs, name) == "9"
        assert pairs.sh(host, "systemctl --failed --no-legend") == ""
    assert load.lost == 0, load.failures
    assert pairs.deploy(timeout=600).rc == 0
