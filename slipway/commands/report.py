"""`slipway report LABEL [--baseline LABEL]`: a sweep as Markdown and as one page that opens offline."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser."""
    from slipway.commands.bench import add_results, add_spread

    parser: argparse.ArgumentParser = commands.add_parser(
        "report", help="tables and plots of a sweep, as .md and .html"
    )
    parser.add_argument("labels", nargs="+", metavar="LABEL", help="what is reported; several share the plots")
    parser.add_argument("--baseline", metavar="LABEL", help="what they are compared with")
    text = "a value to reach, such as output_throughput=1200 or tok_s_per_user.median=50; drawn as a line"
    parser.add_argument("--target", action="append", default=[], metavar="METRIC=VALUE", help=text)
    parser.add_argument("--into", metavar="FOLDER", help="default: the folder of the first label")
    add_results(parser)
    add_spread(parser)
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Write both files; 1 when results cannot be read."""
    from slipway.bench.errors import BenchError
    from slipway.bench.report import make_report

    try:
        request = _request(arguments)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report = make_report(request)
    folder = Path(arguments.into) if arguments.into else Path(arguments.bench) / arguments.labels[0]
    for line in (*report.warnings, *report.lead, *report.gaps):
        print(line)
    for path in write(folder, report):
        print(f"written: {path}")
    return 0


def _request(arguments: argparse.Namespace) -> Any:
    from slipway.bench.folder import read_result, read_results
    from slipway.bench.report import Request
    from slipway.commands.bench import spread_of

    bench = Path(arguments.bench)
    results = read_results(bench, dict.fromkeys(arguments.labels))
    baseline = read_result(bench, arguments.baseline) if arguments.baseline else None
    return Request(tuple(results), baseline, targets_of(arguments.target), spread_of(arguments))


def targets_of(words: list[str]) -> dict[str, float]:
    """METRIC=VALUE pairs. Raises BenchError."""
    from slipway.bench.errors import BenchError
    from slipway.bench.gate import metric_named

    found = {}
    for word in words:
        key, _, text = word.partition("=")
        try:
            found[metric_named(key).key] = float(text)
        except ValueError:
            raise BenchError(f"--target {word}: must be METRIC=NUMBER, such as output_throughput=1200") from None
    return found


def write(folder: Path, report: Any) -> list[Path]:
    """report.md and report.html, whole or not at all."""
    from slipway.bench.markdown import markdown
    from slipway.bench.page import page

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in (("report.md", markdown(report)), ("report.html", page(report))):
        part = folder / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        paths.append(part.replace(folder / name))
    return paths
