"""Watches instances come up: elapsed time against the budget, the last log line, and early failure."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from pyinfra import logger

from roles.remote import RemoteError, ask_agent
from roles.run import Run
from roles.services import Services
from roles.together import together
from slipway.knowledge.log_patterns import matchers
from slipway.plan.model import Instance
from slipway.plan.urls import url_of
from slipway.startup import Course, Look, begun, failure, is_up, progress, seen

POLL_S = 1.0
SAY_EVERY_S = 5.0
HEALTH_TIMEOUT_S = 20.0
SLACK_S = 2.0  # lines of the log that are this much older than the watch may still be of this start


def wait_started(run: Run, services: Mapping[str, Services], instances: Sequence[Instance]) -> None:
    """Until each instance's port is open and it says it is healthy; routers too. Raises RemoteError."""
    began, said = time.monotonic(), 0.0
    watches = [Watch(run, services[one.host], one) for one in instances]
    while watches:
        elapsed = time.monotonic() - began
        _look(watches, elapsed)
        for watch in list(watches):
            if is_up(watch.course):
                logger.info(f"    {watch.instance.host}: {watch.instance.name} is up after {elapsed:.0f} s")
                watches.remove(watch)
            elif why := failure(watch.course):
                _fail(watch, why)
        if watches and elapsed - said >= SAY_EVERY_S:
            said = elapsed
            for watch in watches:
                one = watch.instance
                logger.info(f"    {one.host}: waiting for {one.name}, {progress(watch.course)}")
        time.sleep(POLL_S if watches else 0)


class Watch:
    """One instance that comes up, its course so far, and where in its log to read on."""

    def __init__(self, run: Run, service: Services, instance: Instance) -> None:
        config = run.wanted[instance.host].configs[instance.name]
        self.service, self.instance = service, instance
        self.course: Course = begun(instance.name, instance.host, instance.start_budget_s, config, instance.serves)
        self.cursor: Any = None

    def question(self, elapsed: float) -> dict[str, Any]:
        """What slipway/agent/watch.py must know of it."""
        instance, manager = self.instance, self.service.manager
        log = {"source": manager.log_source(instance.name), "sealed": [manager.secrets_path(instance.name)]}
        fresh = {"cursor": self.cursor} if self.cursor else {"scope": "start"}
        return {
            "name": instance.name,
            "service": {"manager": manager.kind, "name": manager.service(instance.name), "control": manager.control},
            "address": instance.address,
            "ports": dict(instance.ports),
            "url": url_of(instance),
            "timeout_s": HEALTH_TIMEOUT_S,
            "log": {**log, **fresh, "within_s": elapsed + SLACK_S},
        }

    def saw(self, found: Mapping[str, Any], elapsed: float) -> None:
        """Take in what was found; `error` when the host could not be asked."""
        known = {one.name for one in fields(Look)}
        look = Look(**{key: value for key, value in found.items() if key in known})
        self.cursor = look.log.get("cursor") or self.cursor
        self.course = seen(self.course, look, elapsed)


def _look(watches: Sequence[Watch], elapsed: float) -> None:
    """One execution a host, all hosts at once."""
    hosts: dict[str, list[Watch]] = {}
    for watch in watches:
        hosts.setdefault(watch.instance.host, []).append(watch)
    together(partial(_look_at, group, elapsed) for group in hosts.values())


def _look_at(watches: Sequence[Watch], elapsed: float) -> None:
    service = watches[0].service
    request = {"instances": [watch.question(elapsed) for watch in watches], "patterns": list(matchers())}
    output = ask_agent(service.host, service.plan, "watch", request=request)
    found = {row["name"]: row for row in map(json.loads, filter(_is_row, output.stdout))}
    for watch in watches:
        watch.saw(found.get(watch.instance.name, {"state": "unknown", "error": output.said}), elapsed)


def _is_row(line: str) -> bool:
    return line.startswith("{")


def _fail(watch: Watch, why: str) -> None:
    one = watch.instance
    logger.error(f"    last lines of {one.name} on {one.host}:")
    for line in watch.service.last_lines(one.name):
        logger.error(f"      {line}")
    raise RemoteError(f"{one.host}: {why}")
