"""Whatever is written, the answer is a configuration error or a finding, never a traceback."""

import random

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.mutations import SOUND, broken, examples, hosts, known, merged, outcome, read, rounds
from slipway.plan.make import make
from tests.slipway.rules.cases import baseline


def test_what_is_broken_was_sound_before():
    for groups, change in SOUND:
        files = {"all": merged(baseline()["all"], change)}
        files |= {host: {"address": f"10.0.0.{host[1:]}"} for host in hosts(groups)}
        kinds = {name: "group_vars" if name == "all" else "host_vars" for name in files}
        texts = {f"{kinds[name]}/{name}.yml": yaml.safe_dump(data) for name, data in files.items()}
        assert make(read(groups, texts), known()).plan.errors == (), change


def test_the_examples_are_mutated_and_were_sound_before():
    for groups, files in examples():
        texts = {name: yaml.safe_dump(data) for name, data in files.items()}
        assert make(read(groups, texts), known()).plan.errors == (), groups


@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(min_value=0, max_value=2**32))
def test_a_mutated_configuration_gives_errors_or_findings(seed):
    groups, texts = broken(random.Random(seed))
    assert outcome(groups, texts) in ("refused", "error", "warning", "note", "clean")


def test_mutations_reach_the_rules_and_not_only_the_schema():
    assert {"refused", "error", "warning"} <= set(rounds(0, 120))


def test_a_port_that_is_not_to_be_had_is_a_finding():
    """Found by mutation 1028: planning stopped at a KeyError."""
    written = merged(baseline()["all"], {"worker": {"port": 65535, "instances": 2, "bootstrap_port": 65535}})
    texts = {"group_vars/all.yml": yaml.safe_dump(written | {"hardware": "8xH200"})}
    plan = make(read({"prefill": ["h1"], "decode": ["h1"], "router": ["h1"]}, texts), known()).plan
    assert "placement.ports-exhausted" in {finding.rule for finding in plan.errors}
