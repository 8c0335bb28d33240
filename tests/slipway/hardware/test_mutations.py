"""Whatever a host answers and whatever a person declares: a finding, never a traceback."""

import json
from dataclasses import asdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.hardware import compare, declare, parse
from tests.slipway.hardware.captures import NAMES, capture

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


@st.composite
def mutated(draw: Any) -> Any:
    """A recorded answer with one to four places replaced, removed or garbled."""
    probe: Any = capture(draw(st.sampled_from(NAMES)))
    for _ in range(draw(st.integers(1, 4))):
        *above, key = draw(st.sampled_from(places(probe)[1:] or [("format",)]))
        holder = probe
        for step in above:
            holder = holder[step]
        old = holder[key] if key in (holder if isinstance(holder, dict) else range(len(holder))) else None
        change = draw(st.sampled_from(["replace", "remove", "garble"]))
        if change == "garble" and isinstance(old, str):
            at = draw(st.integers(0, len(old)))
            holder[key] = old[:at] + draw(st.text(max_size=5)) + old[at + draw(st.integers(0, 9)) :]
        elif change == "remove" and isinstance(holder, dict):
            holder.pop(key, None)
        else:
            holder[key] = draw(VALUES)
    return probe


@settings(max_examples=60, deadline=None)
@given(mutated())
def test_mutated_answers_never_raise(probe):
    host = parse(probe, "h1")
    json.dumps(asdict(host))
    assert host.describe()
    assert sorted(index for island in host.nvlink_islands for index in island) == list(host.indices)
    assert sorted(index for island in host.numa_islands for index in island) == list(host.indices)
    assert all(finding.subject.startswith("h1") for finding in host.findings)
    assert all(gpu.memory_mib >= 0 and gpu.index >= 0 for gpu in host.gpus)
    compare(host, parse(capture("h100-x8")), "h1")
    compare(parse(capture("h100-x8")), host, "h1")


@settings(max_examples=50, deadline=None)
@given(VALUES)
def test_any_json_is_an_answer(value):
    assert parse(value, "h1").findings


KEYS = st.sampled_from(["gpu", "count", "nvlink", "numa_nodes", "rdma", "memory_gib", "compute_capability", "x"])


@settings(max_examples=50, deadline=None)
@given(VALUES | st.dictionaries(KEYS | st.integers(), VALUES | st.sampled_from(["H100", "GB10"]), max_size=5))
def test_any_declaration_is_a_host_or_a_finding(value):
    host, findings = declare(value, "h1")
    assert value is None or (host is None) == bool(findings)
    if host is not None:
        json.dumps(asdict(host))
