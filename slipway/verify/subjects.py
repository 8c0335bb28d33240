"""Makes what the agent is asked: for each instance its rungs, and all that they must know of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slipway.config.deployment import RouterSettings, VerifySettings, thawed
from slipway.converge.wanted import Wanted
from slipway.knowledge.flags import FlagError, FlagList
from slipway.plan.model import Instance, Plan
from slipway.plan.urls import url_of

from .rungs import RungRow, lenient, rungs_at

WORKERS = ("prefill", "decode", "unified")
# Never taken to a comparison: what they hold is secret, or means another thing on each host.
NOT_COMPARED = ("api_key", "admin_api_key", "ssl_keyfile_password")
PERIODIC_ANSWERS = 5  # known answers that the periodic check asks for
PACE = ("first_token_s", "token_ms")
SIZES = ("max_tokens", "burst", "mixed", "repeats", "long_tokens", "context_tokens", "pairs", *PACE)


@dataclass(frozen=True)
class Asking:
    """What a ladder is climbed with. key: the API key's value; ca: a certificate in PEM. known: rows of known answers.

    accuracy: the user's set, with its threshold; None without one. reference: {path, label, save, tolerance}. light:
    only rungs that cost little.
    """

    plan: Plan
    settings: VerifySettings
    known: Sequence[Mapping[str, Any]] = ()
    accuracy: Mapping[str, Any] | None = None
    reference: Mapping[str, Any] | None = None
    key: str = field(default="", repr=False)
    ca: str | None = None
    light: bool = False

    def rungs(self, place: str, left_out: Sequence[str] = ()) -> list[RungRow]:
        """The wanted rungs of a place."""
        return rungs_at(place, self.settings.rungs, left_out, self.light)


def start_subject(wanted: Wanted, instance: Instance, timeout_s: float, ca: str | None = None) -> dict[str, Any]:
    """What the rungs of a start need: process, ports, health."""
    manager = wanted.manager
    return {
        "name": instance.name,
        "url": url_of(instance),
        "address": instance.address,
        "serves": instance.serves,
        "ports": dict(instance.ports),
        "config": wanted.configs[instance.name],
        "timeout_s": timeout_s,
        "ca": ca,
        "service": {"manager": manager.kind, "name": manager.service(instance.name), "control": manager.control},
    }


def worker_subject(asking: Asking, wanted: Wanted, instance: Instance) -> dict[str, Any]:
    """A worker on its own host. Ranks above 0 answer no question that proves anything."""
    no_http = () if instance.serves else ("health", "settings", "model", "metrics")
    rungs = asking.rungs("worker", no_http)
    return _with_rungs(asking, rungs, 0, {**_local(asking, wanted, instance), **_settings(asking.plan, instance)})


def _local(asking: Asking, wanted: Wanted, instance: Instance) -> dict[str, Any]:
    """What the host's own rungs need."""
    asked = wanted.manager.limits(instance)
    return {
        **_start(asking, wanted, instance),
        "limits": {"memlock": asked.memlock, "nofile": asked.nofile},
        "env": dict(instance.env),
        "secrets": sorted(instance.secrets),
        "peers": [one.serves_at for one in asking.plan.serving(*WORKERS)],
        "model": served_name(asking.plan),
    }


def _start(asking: Asking, wanted: Wanted, instance: Instance) -> dict[str, Any]:
    subject = start_subject(wanted, instance, asking.settings.request_timeout_s, asking.ca)
    return {**subject, "key": asking.key}


def _with_rungs(asking: Asking, rungs: Sequence[RungRow], settle_s: int, subject: dict[str, Any]) -> dict[str, Any]:
    """Names, limits and leniency of the rungs; settle_s is on top of each limit."""
    settings = asking.settings
    limits = {row.name: settings.limits_s.get(row.name, row.limit_s + settle_s) for row in rungs}
    names = [row.name for row in rungs]
    return {**subject, "rungs": names, "limits_s": limits, "lenient": lenient(rungs, settings.rungs)}


def _settings(plan: Plan, instance: Instance) -> dict[str, Any]:
    """The settings to compare; those that the release reports under other names have these beside them."""
    release = next((one.release for one in plan.decisions if instance.leader in one.instances), "")
    names = {name: value for name, value in instance.settings.items() if name not in NOT_COMPARED}
    return {"settings": names, "renamed": _renamed(release, names), "release": release}


def _renamed(release: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Names under which the release reports settings that it calls otherwise."""
    try:
        known = FlagList.for_release(release)
    except FlagError:
        return {}
    found = ((name, known.translate(name, value)) for name, value in settings.items())
    return {name: meant[0].dest for name, meant in found if meant and meant[0].dest != name}


def decode_subject(asking: Asking, wanted: Wanted, instance: Instance) -> dict[str, Any] | None:
    """A decode's way to every prefill; None where it has none."""
    prefills = [_prefill(one) for one in asking.plan.serving("prefill")]
    rungs = asking.rungs("decode")
    if not prefills or not rungs or not instance.serves:
        return None
    subject = {**_start(asking, wanted, instance), "prefills": prefills, "settle_s": 10}
    return _with_rungs(asking, rungs, 10, subject)


def _prefill(instance: Instance) -> dict[str, Any]:
    host = instance.serves_at.partition("://")[2].rpartition(":")[0]
    return {
        "name": instance.name,
        "bootstrap": f"http://{host}:{instance.ports['bootstrap']}",
        "advertised": instance.env.get("SGLANG_HOST_IP", ""),
    }


def pairs_subject(asking: Asking, wanted: Wanted, instance: Instance) -> dict[str, Any]:
    """Workers asked in pairs from a router's host, past the router: what is right there may get traffic."""
    rungs = [row for row in asking.rungs("router") if row.name == "pairs"]
    return _with_rungs(asking, rungs, 10, {**_local(asking, wanted, instance), **_asked(asking, 10)})


def router_subject(asking: Asking, wanted: Wanted, instance: Instance, router: RouterSettings) -> dict[str, Any]:
    """A router on its own host, with all that goes through it."""
    settle = settle_s(router)
    local = [row for row in asking.rungs("worker") if row.name in ("process", "ports", "environment")]
    rungs = [*local, *asking.rungs("router", _pointless(asking))]
    return _with_rungs(asking, rungs, settle, {**_local(asking, wanted, instance), **_asked(asking, settle)})


def _pointless(asking: Asking) -> list[str]:
    """Rungs that nothing was given for."""
    left_out = [] if asking.reference else ["reference"]
    return left_out if asking.accuracy else [*left_out, "accuracy"]


def periodic_subject(asking: Asking, instance: Instance, router: RouterSettings) -> dict[str, Any]:
    """A router as the periodic check sees it: as the service's user, who may ask no manager, and with few answers."""
    light = replace(asking, light=True, known=asking.known[:PERIODIC_ANSWERS], accuracy=None, reference=None)
    settle = settle_s(router)
    subject = {
        "name": instance.name,
        "url": url_of(instance),
        "timeout_s": asking.settings.request_timeout_s,
        "key": asking.key,
        "ca": asking.ca,
    }
    rungs = light.rungs("router", _pointless(light))
    return _with_rungs(light, rungs, settle, {**subject, **_asked(light, settle)})


def controller_subject(asking: Asking, instance: Instance) -> dict[str, Any]:
    """A router as the controller sees it."""
    settings = asking.settings
    subject = {
        "name": f"{instance.name} from here",
        "url": url_of(instance),
        "timeout_s": settings.request_timeout_s,
        "key": asking.key,
        "ca": asking.ca,
    }
    return _with_rungs(asking, asking.rungs("controller"), 0, {**subject, **_asked(asking, 5)})


def again_subject(asking: Asking, wanted: Wanted, instance: Instance, pid: int) -> dict[str, Any]:
    """A worker after the load: the same process as before."""
    subject = {**_start(asking, wanted, instance), "expected_pid": pid}
    return _with_rungs(asking, asking.rungs("again"), 0, subject)


def settle_s(router: RouterSettings) -> int:
    """Seconds after which the router must have seen a worker that came up: two good looks, and a rested circuit."""
    return 4 * router.health_check_interval_s + router.circuit_open_s + 5


def served_name(plan: Plan) -> str:
    """The model's name in requests."""
    return next((host.checkpoint.served_name for host in plan.hosts if host.checkpoint), "")


def _asked(asking: Asking, settle: int) -> dict[str, Any]:
    """What requests are made of, and how many."""
    settings, plan = asking.settings, asking.plan
    return {
        "model": served_name(plan),
        "settle_s": settle,
        "expected_workers": {role: [url_of(one) for one in plan.serving(role)] for role in WORKERS},
        "workers": [_worker(one) for one in plan.serving(*WORKERS)],
        "known_answers": [dict(row) for row in asking.known],
        "known_share": settings.known_share,
        "accuracy": dict(asking.accuracy) if asking.accuracy else None,
        "reference": dict(asking.reference) if asking.reference else None,
        "truncates": any("--allow-auto-truncate" in one.argv for one in plan.serving(*WORKERS)),
        "fields": thawed(settings.request_fields),
        **{name: getattr(settings, name) for name in SIZES},
    }


def _worker(instance: Instance) -> dict[str, Any]:
    bootstrap = instance.ports.get("bootstrap")
    return {"name": instance.name, "role": instance.role, "url": url_of(instance), "bootstrap_port": bootstrap}
