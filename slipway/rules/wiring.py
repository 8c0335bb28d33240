"""Addresses that workers give to each other."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.placement.addresses import literal, useless

from .constants import words_of
from .facts import Worker
from .registry import worker_rule


@worker_rule(
    "advertised-address-unroutable",
    "error",
    title="Workers advertise an address that the other hosts reach",
    fix="take it out of env: the plan sets SGLANG_HOST_IP to the host's address",
    source="sgl-project/sglang#27608, #29456; ai-dynamo/dynamo#12026; reported_faults.md 9",
    confidence="issue",
)
def advertised_address_unroutable(worker: Worker) -> Iterator[str]:
    """With workers on several hosts, SGLANG_HOST_IP and HOST_IP are not loopback, wildcard or link-local."""
    if worker.get("worker_hosts") < 2:
        return
    for name in words_of("advertised_variables"):
        address = literal(str(worker.entry.settings.env.get(name, "")))
        why = useless(address) if address else ""
        if why:
            yield f"{name} is {address}, {why}: registration fails and /route answers 503 for ever"


@worker_rule(
    "advertised-address-foreign",
    "warning",
    title="Workers advertise the address that the plan gives their host",
    fix="set address: of the host instead, so that router, peers and checks use it too",
    source="sgl-project/sglang#19900, #34865; sglang.md D3; reported_faults.md 10",
    confidence="issue",
)
def advertised_address_foreign(worker: Worker) -> Iterator[str]:
    """SGLANG_HOST_IP and HOST_IP in env are the host's planned address."""
    planned = worker.entry.instance.address
    for name in words_of("advertised_variables"):
        text = worker.entry.settings.env.get(name)
        address = literal(text) if text else None
        if text and text != planned and not (address and useless(address)):
            yield f"{name} is {text}, and the plan gives the host {planned}: decode asks one, the router the other"
