"""Whoever follows a link or a source that Slipway names finds a page."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"(?<![\w/])docs/[\w./-]+\.(?:md|html)")
KEPT = ("slipway", "roles", "docs", "examples", "experiments", "hardware", "playbooks", "templates", "patches")
ELSEWHERE = {"docs/operations/disaggregation/sglang.md"}  # of another project, which the source names before it


def texts(*endings: str) -> dict[Path, str]:
    found = [path for top in KEPT for path in (ROOT / top).rglob("*") if path.suffix in endings and path.is_file()]
    return {path: path.read_text() for path in [*found, *ROOT.glob("*.md")] if "__pycache__" not in path.parts}


def test_links_between_pages_lead_somewhere():
    wrong = [
        f"{path.relative_to(ROOT)}: {target}"
        for path, text in texts(".md").items()
        for target in LINK.findall(text)
        if not (path.parent / target).exists()
    ]
    assert wrong == []


def test_pages_that_messages_and_sources_name_are_there():
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts(".md", ".py", ".yml", ".json", ".j2").items()
        for name in NAMED.findall(text)
        if name not in ELSEWHERE and not (ROOT / name).exists()
    ]
    assert wrong == []
