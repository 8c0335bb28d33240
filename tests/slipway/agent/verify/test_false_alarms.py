"""With no fault on, no rung ever fails or warns."""

from __future__ import annotations

import pytest

from .cluster import Cluster, climbed, failed

pytestmark = pytest.mark.router


@pytest.mark.parametrize("runs", [5, pytest.param(50, marks=pytest.mark.full)])
def test_no_false_alarm(pair: Cluster, runs: int) -> None:
    pair.worker("decode")
    pair.router()
    patient = {"timeout_s": 60, "settle_s": 60, "limits_s": {}}  # a busy test machine is no fault
    subjects = pair.wait().subjects(burst=208, mixed=16, repeats=3, **patient)
    subjects = [{**subject, **patient} for subject in subjects]
    assert [failed(climbed(subjects)) for _ in range(runs)] == [("", "", "")] * runs
