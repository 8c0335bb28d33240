"""Each fault of the simulator is caught by the rung that the fault table names, behind the real router."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slipway.agent.simulator.faults import FAULTS
from slipway.verify.faults import Caught, caught, wired
from slipway.verify.rungs import rung_rows

from .cluster import Cluster, climbed, failed, make_model

Results = dict[str, tuple[str, str, str]]  # fault -> rung, subject, detail
AT_ONCE = 4  # clusters; most of a climb that fails is waiting
BY_AGENT = {row.fault: row for row in caught() if row.by_agent and not row.test}


def faulty(row: Caught, model: Path, folder: Path) -> tuple[str, str, str]:
    """What a climb of a cluster with one fault ends with."""
    folder.mkdir()
    cluster = Cluster(model, folder, address="127.0.0.2" if row.fault == "advertises-loopback" else "127.0.0.1")
    fault = f"{row.fault}={row.value}" if row.value else row.fault
    try:
        if row.worker in ("unified", "alone"):
            cluster.worker("unified", fault)
        for role in ("prefill", "decode") if not cluster.workers else ():
            cluster.worker(role, fault if row.worker in (role, "both") else "")
        if row.worker == "alone":
            return failed(climbed([cluster.wait().alone_subject()]))
        cluster.router()
        return failed(climbed(cluster.wait().subjects(**row.ask)))
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[str, str, str]]:
    """All climbs that this run asks for, several at once."""
    model, folder = make_model(tmp_path_factory.mktemp("model")), tmp_path_factory.mktemp("faults")
    ours = (item for item in request.session.items if item.path == request.path)
    named = (getattr(item, "callspec", None) for item in ours)
    rows = [BY_AGENT[spec.params["name"]] for spec in named if spec and spec.params.get("name") in BY_AGENT]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda row: faulty(row, model, folder / row.fault), rows))
    return dict(zip((row.fault for row in rows), found, strict=True))


@pytest.mark.router
@pytest.mark.parametrize("name", list(BY_AGENT))
def test_caught(results: Results, name: str) -> None:
    rung, subject, detail = results[name]
    assert rung == BY_AGENT[name].rung, (subject, detail)
    assert detail


def test_every_fault_has_a_row_that_names_a_rung_and_its_test(pytestconfig: pytest.Config) -> None:
    rows = {row.fault: row for row in caught()}
    rungs = {row.name for row in rung_rows()} | {"start-up", "stop"}
    assert list(rows) == [fault.name for fault in FAULTS]
    assert len(BY_AGENT) >= 30
    assert all(row.rung in rungs or (not row.rung and row.why) for row in rows.values())
    assert {row.rung for row in wired()} <= rungs
    tests = [row.seen_by for row in rows.values() if row.rung] + [row.test for row in wired()]
    assert [test for test in tests if not exists(pytestconfig.rootpath, test)] == []


def exists(root: Path, test: str) -> bool:
    """Whether a test stands where the table says."""
    file, _, function = test.partition("[")[0].partition("::")
    return (root / file).is_file() and f"def {function}(" in (root / file).read_text()
