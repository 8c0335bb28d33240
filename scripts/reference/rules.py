"""docs/reference/rules.md: every rule, and every other finding that a user may meet."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.rules import Known, Rule, all_rules, known_others

PATH = "docs/reference/rules.md"
HEAD = """\
# Rules

Made by `make docs` from `slipway/rules/`; edit the rules, not this page.

`slipway check` and `slipway plan` judge every plan by these rules, offline, before anything starts. An **error** stops
a deploy, a **warning** is told, a **note** is for the curious. Whoever knows better waives a finding by its id; the
reason is recorded with the release:

```yaml
waive:
  tp-unequal-gqa: proven by a burst of 512 requests on 2026-11-20
```

Confidence says how far a rule was seen to hold: `source` read in the engine's code · `observed` seen running · `issue`
stated in an issue or pull request · `third_party` another repository or documentation · `inferred` deduced, not run.
Rows of the tables that decide backends have findings of their own; they are listed at the end.
"""
TAIL = """\
## Other findings

Made while the plan itself is made; waived by id like rules, where the plan is complete without their cure.
"""


def text() -> str:
    """The page."""
    rules = all_rules()
    return (
        "\n".join([HEAD, *index(rules), "", *(line for rule in rules for line in section(rule)), TAIL, *others()])
        + "\n"
    )


def index(rules: tuple[Rule, ...]) -> Iterator[str]:
    """One line a rule."""
    yield f"{len(rules)} rules:\n"
    yield "| rule | severity | in a sentence |"
    yield "| --- | --- | --- |"
    for rule in rules:
        yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity} | {cell(rule.title)} |"


def section(rule: Rule) -> Iterator[str]:
    """All about one rule."""
    yield f"### {rule.id}\n"
    yield f"**{rule.severity}** · {rule.title}\n"
    yield f"- Checks: {rule.checks}"
    yield f"- Fix: {rule.fix}"
    yield f"- Source: {rule.source}"
    yield f"- Confidence: {rule.confidence}\n"


def others() -> Iterator[str]:
    """Findings of other parts, one line each."""
    yield "| finding | severity | from | says |"
    yield "| --- | --- | --- | --- |"
    for known in known_others():
        yield row(known)


def row(known: Known) -> str:
    """One line of the table."""
    return f"| `{known.id}` | {known.severity} | {cell(known.where)} | {cell(known.says)} |"


def cell(words: str) -> str:
    """A text that may stand in a table."""
    return words.replace("|", "\\|")
