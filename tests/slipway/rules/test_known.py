"""Every id that a finding can have is known, so that it can be waived and looked up."""

import ast
from collections.abc import Iterator
from pathlib import Path

from slipway.knowledge import tables
from slipway.knowledge.backends import _KIND_OF
from slipway.knowledge.flag_values import value_problem
from slipway.rules import all_rules, known_ids, known_others

ROOT = Path(__file__).parents[3]
# Where the id is not written beside the finding: it is handed on from a problem or a rule.
AT = {"Finding": 0, "Problem": 1}
FLAGS = ("flag-boolean", "flag-type", "flag-arity", "flag-choice")


def written_ids() -> Iterator[str]:
    """Ids in calls of Finding, Problem and placement's fault."""
    for path in sorted((ROOT / "slipway").rglob("*.py")):
        if "rules" in path.parts or "agent" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in AT and len(node.args) > AT[name]:
                yield from constants(node.args[AT[name]])
            if name == "fault" and "placement" in path.parts and node.args:
                yield from (f"placement.{word}" for word in constants(node.args[0]))


def constants(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)


def table_ids() -> set[str]:
    """Kinds of the rows of backends.yml, and of verdicts and known-bad rows."""
    raw = tables.load("backends.yml")
    rows = [row for section in raw["choices"].values() for row in section] + raw["constraints"]
    return {row["kind"] for row in rows if "kind" in row} | set(_KIND_OF.values()) | {"known-bad"}


def test_the_list_of_other_findings_is_what_the_code_makes():
    assert value_problem.__module__.endswith("flag_values")
    made = {*written_ids(), *table_ids(), *FLAGS}
    assert {other.id for other in known_others()} == made


def test_ids_are_unique_and_of_one_shape():
    ids = [rule.id for rule in all_rules()] + [other.id for other in known_others()]
    assert len(ids) == len(set(ids)) == len(known_ids())
    assert [
        rule.id for rule in all_rules() if not rule.id.replace("-", "").isalnum() or rule.id.lower() != rule.id
    ] == []


def test_there_are_at_least_sixty_rules_and_each_says_all_there_is_to_say():
    assert len(all_rules()) >= 60
    for rule in all_rules():
        assert rule.severity in ("error", "warning", "note")
        assert rule.confidence in tables.CONFIDENCES
        assert all((rule.title, rule.checks, rule.fix, rule.source)), rule.id
        assert not rule.title.endswith("."), rule.id
