"""What a rule is: words about a fault, and a condition that finds it in what is known of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from slipway.finding import Finding, Severity

from .facts import Whole


@dataclass(frozen=True)
class Hit:
    """One place where a rule found its fault. fix: '' where the rule's own says what to do."""

    subject: str
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule. id: stable, by which a user waives it. checks: one sentence on what it looks at, for the page.

    source: issue, pull request or facts that it stems from; confidence: how far that was seen to hold.
    find: every place in the deployment where the fault is; it raises for no configuration.
    """

    id: str
    severity: Severity
    title: str
    checks: str
    fix: str
    source: str
    confidence: str
    find: Callable[[Whole], Iterable[Hit]] = field(repr=False, compare=False)

    def findings(self, whole: Whole) -> Iterator[Finding]:
        """What the rule has to say about a plan."""
        for hit in self.find(whole):
            yield Finding(self.id, self.severity, hit.subject, hit.message, hit.fix or self.fix, self.source)
