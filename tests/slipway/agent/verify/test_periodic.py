"""The periodic check asks a worker by the real rungs: a healthy one that answers wrongly is 0 in the metric."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.agent import periodic

from .conftest import NewCluster


@pytest.mark.parametrize(("fault", "ok"), [("", 1), ("wrong-answer", 0), ("health-ok-generation-hangs", 0)])
def test_what_the_check_finds_is_its_metric(new_cluster: NewCluster, tmp_path: Path, fault: str, ok: int) -> None:
    cluster = new_cluster()
    cluster.worker("unified", fault)
    cluster.wait()
    subject = cluster.alone_subject(timeout_s=2, settle_s=0, rungs=["completion", "known-answers"])
    request = {"deployment": "d", "subjects": [subject], "logs": [], "patterns": [], "timeout_s": 60}
    (tmp_path / "request.json").write_text(json.dumps(request))

    assert periodic.main([str(tmp_path)]) == 0

    lines = (tmp_path / "verify.prom").read_text().splitlines()
    assert f'slipway_verify_ok{{deployment="d"}} {ok}' in lines
