"""The page of rules is made from the rules."""

from scripts.reference import rules as page
from scripts.reference.__main__ import ROOT
from slipway.rules import known_ids


def test_the_committed_page_is_what_the_rules_say():
    assert (ROOT / page.PATH).read_text(encoding="utf-8") == page.text(), "stale: run make docs"


def test_the_page_names_every_finding():
    text = page.text()
    assert [rule for rule in known_ids() if f"`{rule}`" not in text] == []
