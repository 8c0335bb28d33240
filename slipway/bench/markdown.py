"""A report as Markdown: everything but the plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slipway.bench.report import Report, Table


def markdown(report: Report) -> str:
    """The text of REPORT.md."""
    return "\n".join([f"# {report.title}", "", *_body(report)]).rstrip() + "\n"


def _body(report: Report) -> Iterator[str]:
    yield from _list("", [f"**{line}**" for line in report.warnings])
    yield from _list("", report.lead)
    for table in report.tables:
        yield from _table(table)
    yield from _list("What does not count", report.gaps)
    yield from _list("To be seen beside the figures", report.notes)
    yield from ("## Every load", "")
    for table in report.details:
        yield from _table(table)
    yield from _list("The lever", report.meant)
    yield from _list("What differs besides the lever", report.besides)
    yield from _list("Roofline", report.bounds)
    yield from _table(report.provenance)


def _list(title: str, lines: Iterable[str]) -> Iterator[str]:
    items = [f"- {plain(line)}" for line in lines]
    if items:
        yield from ([f"## {title}", ""] if title else [])
        yield from (*items, "")


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    yield from (f"### {plain(table.title)}", "")
    yield "| " + " | ".join(map(plain, table.head)) + " |"
    yield "|" + " --- |" * len(table.head)
    yield from ("| " + " | ".join(plain(item.whole) for item in row) + " |" for row in table.rows)
    yield from ("", *([plain(table.note), ""] if table.note else []))


def plain(text: str) -> str:
    """Text that a Markdown table takes: one line, without its own bars."""
    return text.replace("|", "\\|").replace("\n", " ")
