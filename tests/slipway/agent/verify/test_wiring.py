"""Engines that are well and put together wrongly: the rung that says so, and in which words."""

from __future__ import annotations

import pytest

from .cluster import Cluster, agent, climbed, failed
from .conftest import NewCluster

pytestmark = pytest.mark.router
LIGHT = ["readiness", "workers", "completion", "known-answers"]


def test_a_healthy_cluster_holds_every_rung(pair: Cluster) -> None:
    pair.router()
    rows = climbed(pair.wait().subjects())
    assert failed(rows) == ("", "", "")
    assert len(rows) > 20


def test_a_router_without_a_decode(pair: Cluster) -> None:
    decode = pair.workers.pop()
    pair.router()
    pair.workers.append(decode)
    rung, _, detail = failed(agent({"subjects": [pair.wait().router_subject(settle_s=2)]}))
    assert (rung, "a role has no healthy worker" in detail) == ("readiness", True)


def test_a_router_that_also_sends_elsewhere(pair: Cluster) -> None:
    pair.worker("decode")
    pair.router()
    extra = pair.wait_router().workers.pop()
    rung, _, detail = failed(agent({"subjects": [pair.router_subject()]}))
    assert rung == "workers"
    assert f"also sends to {extra['url']}, which the plan does not have" in detail


def test_a_router_with_the_wrong_bootstrap_port(pair: Cluster) -> None:
    right = pair.workers[0]["bootstrap_port"]
    pair.workers[0]["bootstrap_port"] = right + 1
    pair.router()
    pair.workers[0]["bootstrap_port"] = right
    subject = pair.wait().router_subject(rungs=LIGHT, timeout_s=2, settle_s=4)
    assert failed(agent({"subjects": [subject]}))[0] == "completion"


def test_one_pair_of_several_that_does_not_work(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.worker("prefill")
    cluster.worker("decode")
    cluster.worker("decode", "transfer-errors")
    rows = agent({"subjects": [cluster.wait().router_subject(rungs=["pairs"])]})
    rung, _, detail = failed(rows)
    assert rung == "pairs"
    assert detail.startswith("1 of 2 pairs do not work: prefill-0 with decode-1: decode-1 answers 500")


def test_more_pairs_than_wanted_try_each_worker_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    for role in ("prefill", "prefill", "decode", "decode", "decode"):
        cluster.worker(role)
    (row,) = agent({"subjects": [cluster.wait().router_subject(rungs=["pairs"], pairs=4)]})
    assert row["detail"] == "3 pairs of 6, each worker at least once (verify.pairs) answer rightly"


def test_page_sizes_that_differ(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.worker("prefill", "", "--page-size", "64")
    cluster.worker("decode", "", "--page-size", "16")
    (row,) = agent({"subjects": [cluster.wait().decode_subject(cluster.workers[1])]})
    assert row["detail"] == "prefill-0 registered page_size 64; this decode has 16: they must be equal"


def test_a_decode_that_keeps_the_address_of_a_prefill_that_was_replaced(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    first = cluster.worker("prefill")
    cluster.worker("decode", "stale-prefill", SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="2")
    cluster.router()
    subject = cluster.wait().router_subject(rungs=LIGHT)
    assert failed(agent({"subjects": [subject]})) == ("", "", "")
    first.stop()
    cluster.replaced(first)
    rung, _, _ = failed(agent({"subjects": [cluster.wait().router_subject(rungs=LIGHT, timeout_s=5, settle_s=12)]}))
    assert rung == "completion"
