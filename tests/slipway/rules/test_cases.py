"""Each rule speaks where its cases say so, and nowhere else."""

import pytest

from slipway.rules import all_rules, check
from tests.slipway.rules import cases

RULES = {rule.id: rule for rule in all_rules()}


def test_a_sound_deployment_has_no_finding_of_a_rule():
    assert cases.findings_of({}) == []


def test_every_rule_has_failing_and_passing_cases_and_no_case_is_of_no_rule():
    assert cases.files() == sorted(RULES)
    assert [rule for rule in RULES if not cases.cases_of(rule)["fails"] or not cases.cases_of(rule)["passes"]] == []


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rule_speaks_in_its_failing_cases(rule):
    for case in cases.cases_of(rule)["fails"]:
        found = cases.findings_of(case)
        assert rule in {finding.rule for finding in found}, case
        others = {finding.rule for finding in found} - {rule, *case.get("also", [])}
        assert not others, f"other rules speak too: {others} in {case}"


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rule_is_silent_in_its_passing_cases(rule):
    for case in cases.cases_of(rule)["passes"]:
        assert rule not in {finding.rule for finding in cases.findings_of(case)}, case


@pytest.mark.parametrize("rule", sorted(RULES))
def test_findings_name_who_what_and_the_way_out(rule):
    for case in cases.cases_of(rule)["fails"]:
        for finding in (found for found in cases.findings_of(case) if found.rule == rule):
            assert finding.severity == RULES[rule].severity
            assert finding.subject
            assert finding.fix
            assert finding.source
            assert "{" not in finding.message.replace("{'", "")
            assert "\n" not in finding.message


def test_equal_evidence_gives_equal_findings_in_the_same_order():
    case = {"prefill": {"page_size": 32, "tp": 4}, "decode": {"server_args": {"max_queued_requests": 4}}}
    evidence = cases.evidence_of(case)
    assert check(evidence) == check(evidence) != []


def test_alike_workers_are_one_finding():
    case = {"decode": {"instances": 4, "server_args": {"num_reserved_decode_tokens": 8}}}
    assert [finding.subject for finding in cases.findings_of(case)] == ["decode-0, decode-1, decode-2 and 1 more"]


def test_a_waived_rule_becomes_a_note_with_the_reason():
    case = {"prefill": {"page_size": 32}, "waive": {"page-size-differs": "tried on 2026-11-20, see the log"}}
    (finding,) = cases.findings_of(case)
    assert (finding.rule, finding.severity) == ("page-size-differs", "note")
    assert "tried on 2026-11-20" in finding.message
