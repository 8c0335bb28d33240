"""What is asked of routers and hosts while steps are walked, and what a step that fails leaves."""

import json
from dataclasses import replace
from types import SimpleNamespace

import gevent
import pytest

from roles.ladder import Row
from roles.rollout import traffic, walk
from roles.run import Run
from slipway.converge.wanted import wanted_on
from slipway.plan.model import to_json
from slipway.rollout import Step, steps
from tests.slipway.plan.site import opened
from tests.slipway.rollout.test_order import FOUR, ROLLING, SMALL, all_due, change, live, removal


class Site:
    """Hosts that say what they were told. routers: by URL, the workers that each has, and their roles.

    found: by instance, what its manager says of it; what is to be started is stopped.
    """

    def __init__(self, run, monkeypatch):
        self.run, self.said, self.lost, self.draining = run, [], set(), []
        router = run.plan.of("router")[0]
        self.routers = {router.serves_at: {one.serves_at: one.role for one in run.plan.serving("prefill", "decode")}}
        self.failing, self.found = set(), {}
        monkeypatch.setattr(walk, "reread", self.reread)
        for module, name in ((traffic, "ask_agent"), (walk, "wait_started"), (walk, "Services")):
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(traffic, "POLL_S", 0)
        monkeypatch.setattr(
            traffic, "ladder_of", lambda *_a, **_k: SimpleNamespace(asking=SimpleNamespace(key="", ca=None))
        )
        monkeypatch.setattr(walk, "ladder_of", lambda _run, plan=None, *_a, **_k: plan or run.plan)
        monkeypatch.setattr(walk, "climb_workers", lambda _ladder, workers: [self.row(one.name) for one in workers])
        monkeypatch.setattr(walk, "climb_router", self.climb_router)
        monkeypatch.setattr(walk, "climb_pairs", self.climb_pairs)
        monkeypatch.setattr(walk, "explain", lambda *_: None)
        for name in ("before_step", "after_step"):
            monkeypatch.setattr(walk, name, lambda *_: None)

    def reread(self, run, names):
        for name in names:
            service = run.wanted[name].manager.service
            found = {service(one.name): self.found.get(one.name, {"state": "stopped"}) for one in run.plan.on(name)}
            run.states[name] = {"services": found}

    def row(self, name):
        return Row("health", name, name not in self.failing, 0.0, "no" if name in self.failing else "")

    def climb_router(self, plan, router):
        """The rung that counts: the router has the workers that are to get traffic now, and no others."""
        planned = {one.serves_at for one in plan.serving("prefill", "decode", "unified")}
        assert set(self.routers[router.serves_at]) == planned
        self.said.append("prove")
        return [self.row(router.name)]

    def climb_pairs(self, plan, _router):
        """Workers that are tried past the router must not be in it yet."""
        self.said.append("pair " + " ".join(sorted(one.name for one in plan.serving("prefill", "decode", "unified"))))
        return [self.row("pairs")]

    def ask_agent(self, _host, _plan, program, *words, request=None):
        if program == "in_hand":
            return SimpleNamespace(stdout=[json.dumps({"running": 0})], said="")
        if request["url"] in self.lost or request["url"] not in self.routers:
            return SimpleNamespace(stdout=[], said="refused")
        rows = self.routers[request["url"]]
        for url in request.get("remove", ()):
            self.said.append(f"out {url}")
            rows.pop(url, None)
        for spec in request.get("add", ()):
            self.said.append(f"in {spec['url']}")
            rows[spec["url"]] = spec["worker_type"]
        answer = {"error": "", "workers": {url: {"role": role, "bootstrap_port": None} for url, role in rows.items()}}
        return SimpleNamespace(stdout=[json.dumps(answer)], said="")

    def wait_started(self, _run, _services, instances):
        for one in instances:
            if one.role == "router":  # it comes up with the workers of its command line
                kinds = {"--prefill": "prefill", "--decode": "decode", "--worker-urls": "regular"}
                words = zip(one.argv, one.argv[1:], strict=False)
                self.routers[one.serves_at] = {url: kinds[flag] for flag, url in words if flag in kinds}

    def Services(self, _run, host):
        def told(verb):
            return lambda one: self.said.append(f"{verb} {getattr(one, 'name', one)}")

        def stop(one):
            self.said.append(f"stop {one.name}" + (f" beside {', '.join(self.draining)}" if self.draining else ""))
            self.draining.append(one.name)
            gevent.sleep(0.01)
            self.draining.remove(one.name)

        return SimpleNamespace(
            ready=lambda: None,
            stop=stop,
            start=told("start"),
            forget=told("forget"),
            host=None,
            plan=self.run.plan.host(host),
            manager=self.run.wanted[host].manager,
        )


@pytest.fixture
def made(tmp_path, monkeypatch):
    def make(groups, settings=SMALL):
        found = opened(tmp_path, groups, settings)
        plan = found.plan({})
        hosts = dict.fromkeys(host.name for host in plan.hosts)
        run = Run(plan, found, {}, {name: wanted_on(plan, name) for name in hosts}, {name: [] for name in hosts}, hosts)
        monkeypatch.setattr(walk, "check", lambda *_: None)
        return Site(run, monkeypatch)

    return make


def walked(site, monkeypatch, changes, before):
    monkeypatch.setattr(walk, "live_of", lambda _run: before)
    walk.Walk(site.run).walk(steps(site.run.plan, changes, before, ROLLING))
    return site.said


def test_a_worker_is_out_before_it_stops_and_proven_before_it_is_in(made, monkeypatch):
    site = made(FOUR)
    plan = site.run.plan

    said = walked(site, monkeypatch, [change(plan, "decode-0", "restart")], live(plan))

    assert said == [
        "out http://c:30000",
        "stop decode-0",
        "start decode-0",
        "pair decode-0 prefill-0",
        "in http://c:30000",
        "prove",
    ]


@pytest.mark.parametrize(
    ("state", "config", "stopped"),
    [
        ("stopped", "", False),
        ("failed", "", False),
        ("running", "as planned", False),
        ("running", "1 in the unit of 2", True),
        ("starting", None, True),
        ("restarting", None, True),
    ],
)
def test_what_came_up_by_itself_stays_only_when_it_is_as_planned(made, monkeypatch, state, config, stopped):
    site = made(FOUR)
    plan = site.run.plan
    planned = site.run.wanted["c"].configs["decode-0"]
    site.found["decode-0"] = {"state": state, "config": planned if config == "as planned" else config}
    before = [one for one in live(plan) if one.name != "decode-0"]

    said = walked(site, monkeypatch, [change(plan, "decode-0", "start")], before)

    assert ("stop decode-0" in said) is stopped, said
    assert "start decode-0" in said


def test_every_worker_in_turn_and_the_router_last(made, monkeypatch):
    site = made(FOUR)

    said = walked(site, monkeypatch, all_due(site.run.plan), live(site.run.plan))

    assert [word for word in said if word.startswith("stop")] == [
        "stop prefill-0", "stop prefill-1", "stop decode-0", "stop decode-1", "stop router-0",
    ]  # fmt: skip
    assert said.count("prove") == 1  # before its restart the router runs what it ran


def test_workers_that_come_back_by_themselves_do_not_end_the_rollout(made, monkeypatch):
    site = made(FOUR)
    plan = site.run.plan
    off = {"prefill-1", "decode-1"}  # of a host that has just been switched on; the router has not looked again yet
    before = [replace(one, routed=one.name not in off) for one in live(plan)]

    said = walked(site, monkeypatch, [change(plan, "decode-0", "restart")], before)

    assert said.count("prove") == 1


def test_workers_of_one_step_drain_side_by_side(made, monkeypatch):
    site = made(FOUR)
    workers = tuple(one for one in site.run.plan.instances if one.name in ("prefill-0", "decode-0"))
    leaving = tuple(one for one in live(site.run.plan) if one.name in ("prefill-0", "decode-0"))
    monkeypatch.setattr(walk, "live_of", lambda run: live(run.plan))

    walk.Walk(site.run).walk([Step("restart", workers, leaving, {})])

    stops = [word for word in site.said if word.startswith("stop")]
    assert stops == ["stop prefill-0", "stop decode-0 beside prefill-0"]


def test_a_worker_that_fails_its_rungs_gets_no_traffic_and_ends_the_rollout(made, monkeypatch):
    site = made(FOUR)
    site.failing.add("decode-0")
    plan = site.run.plan

    with pytest.raises(walk.RungError, match="decode-0, rung health: no"):
        walked(site, monkeypatch, [change(plan, f"decode-{n}", "restart") for n in (0, 1)], live(plan))

    assert "in http://c:30000" not in site.said
    assert "stop decode-1" not in site.said


def test_a_worker_that_answers_wrong_is_found_before_it_gets_traffic(made, monkeypatch):
    site = made(FOUR)
    site.failing.add("pairs")
    plan = site.run.plan

    with pytest.raises(walk.RungError):
        walked(site, monkeypatch, [change(plan, "decode-0", "restart")], live(plan))

    assert "in http://c:30000" not in site.said


def test_a_worker_that_moved_to_another_port_leaves_by_its_old_one(made, monkeypatch):
    site = made(FOUR)
    plan, url = site.run.plan, site.run.plan.of("router")[0].serves_at
    before = [one for one in live(plan) if one.name != "decode-0"]
    before.append(type(before[0])("decode-0", "c", "decode", "http://c:39999"))
    site.routers[url] = {one.url: one.role for one in before if one.role != "router"}

    said = walked(site, monkeypatch, [change(plan, "decode-0", "restart")], before)

    assert said[0] == "out http://c:39999"
    assert "in http://c:30000" in said
    assert set(site.routers[url]) == {one.serves_at for one in plan.serving("prefill", "decode")}


def test_a_router_of_another_mode_gets_no_worker_that_it_cannot_take(made, monkeypatch):
    site = made({"unified": ["c"], "router": ["a"]})
    plan, url = site.run.plan, site.run.plan.of("router")[0].serves_at
    one = live(plan, "unified-0")[0]
    kind = type(one)
    before = [kind("prefill-0", "a", "prefill", "http://a:30000"), kind("decode-0", "b", "decode", "http://b:1"), one]
    site.routers[url] = {"http://a:30000": "prefill", "http://b:1": "decode"}
    changes = [removal("prefill-0", "a"), removal("decode-0", "a"), change(plan, "unified-0", "start"),
               change(plan, "router-0", "restart")]  # fmt: skip

    said = walked(site, monkeypatch, changes, before)

    assert "in http://c:30000" not in said
    assert said.index("stop router-0") < said.index("forget prefill-0")
    assert site.routers[url] == {"http://c:30000": "regular"}


def test_dead_workers_are_forgotten_and_lost_ones_found(made, monkeypatch):
    site = made(FOUR)
    plan, url = site.run.plan, site.run.plan.of("router")[0].serves_at
    site.routers[url] = {"http://gone:1": "decode", "http://a:30000": "prefill", "http://b:30000": "prefill",
                         "http://c:30000": "decode"}  # fmt: skip
    before = [one for one in live(plan) if one.name != "decode-1"]
    before.append(type(before[0])("decode-1", "d", "decode", "http://d:30000", routed=False))

    said = walked(site, monkeypatch, [change(plan, "decode-0", "restart")], before)

    assert said[0] == "out http://gone:1"
    assert said[-1] == "in http://d:30000"


def test_a_router_that_does_not_answer_is_left_out(made, monkeypatch):
    site = made(FOUR)
    site.lost.update(site.routers)
    plan = site.run.plan

    said = walked(site, monkeypatch, [change(plan, "decode-0", "restart")], live(plan))

    assert said == ["stop decode-0", "start decode-0", "pair decode-0 prefill-0"]


@pytest.mark.parametrize("page", [None, 64])
def test_a_second_set_is_proven_first_and_never_beside_what_it_must_not_meet(made, monkeypatch, page):
    worker = {"tp": 4, **({"page_size": page} if page else {})}
    site = made({"prefill": ["a"], "decode": ["b"], "router": ["a"]},
                {**SMALL, "worker": worker, "rollout": {"strategy": "blue-green"}})  # fmt: skip
    run, plan = site.run, site.run.plan
    changes = [change(plan, name, "restart") for name in ("prefill-0", "decode-0")]
    run.changes = {"a": changes[:1], "b": changes[1:]}
    run.before = to_json(plan)
    if page:
        for one in run.before["instances"]:
            one["settings"]["page_size"] = 32
    for name in ("live_of", "write_green"):
        monkeypatch.setattr(walk, name, lambda *_: live(plan))

    walking = walk.Walk(run)
    walking.walk(steps(plan, changes, live(plan), walking.policy, walking.green))

    said = [word for word in site.said if word.split()[0] in ("in", "out")]
    blue, green = ["http://a:30000", "http://b:30000"], ["http://a:30001", "http://b:30001"]
    first = [*(f"out {url}" for url in blue), *(f"in {url}" for url in green)]
    assert said == [
        *(first if page else [*first[2:], *first[:2]]),
        *(f"in {url}" for url in blue),
        *(f"out {url}" for url in green),
    ]
    assert site.said.index("start router-0-green") < site.said.index("prove") < site.said.index("stop prefill-0")
    assert set(site.routers[plan.of("router")[0].serves_at]) == set(blue)
    assert [word for word in site.said if word.startswith("forget")] == [
        "forget prefill-0-green", "forget decode-0-green", "forget router-0-green",
    ]  # fmt: skip
