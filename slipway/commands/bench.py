"""`slipway bench list|diff|check`: results of sweeps, what differs between two, and the regression gate."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

BENCH = "bench"


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand with its actions; its parser."""
    parser: argparse.ArgumentParser = commands.add_parser("bench", help="list, tell apart or check results of sweeps")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the labels that there are results of")
    listing.set_defaults(run=run_list)
    differing = actions.add_parser("diff", help="what differs between two, besides the lever")
    differing.add_argument("one", metavar="A")
    differing.add_argument("other", metavar="B")
    text = "a flag, variable or facet that was meant to differ, such as moe_runner_backend or NCCL_PROTO"
    differing.add_argument("--lever", action="append", default=[], metavar="NAME", help=text)
    differing.set_defaults(run=run_diff)
    _add_check(actions)
    for action in (listing, differing, actions.choices["check"]):
        add_results(action)
    return parser


def add_results(parser: argparse.ArgumentParser) -> None:
    """Where results lie."""
    text = f"folder of labels, beside the inventory; default: {BENCH}"
    parser.add_argument("--bench", default=BENCH, metavar="FOLDER", help=text)


def _add_check(actions: Any) -> None:
    check = actions.add_parser(
        "check", help="exit 1 on a real regression, 0 without one, 2 when the two cannot be compared"
    )
    check.add_argument("label", metavar="LABEL")
    check.add_argument("--baseline", required=True, metavar="B")
    check.add_argument("--max-drop", required=True, metavar="PERCENT", help="how much worse it may be, such as 3%%")
    check.add_argument("--metric", default="output_throughput", help="default: output_throughput")
    add_spread(check)
    check.set_defaults(run=run_check)


def add_spread(parser: argparse.ArgumentParser) -> None:
    """What to take as the spread of a run where no side has repeats."""
    text = "relative standard deviation of a run that you know of, such as 1%%, for where no side has repeats"
    parser.add_argument("--spread", metavar="PERCENT", help=text)


def spread_of(arguments: argparse.Namespace) -> float | None:
    """The spread as a share; None where none was named. Raises BenchError."""
    from slipway.bench.gate import percent

    return None if arguments.spread is None else percent(arguments.spread) / 100


def run_list(arguments: argparse.Namespace) -> int:
    """One line a label."""
    from slipway.bench.listing import HEAD, listed
    from slipway.report import table

    rows = listed(Path(arguments.bench))
    if not rows:
        print(f"{arguments.bench} holds no results; make some: pyinfra -y INVENTORY playbooks/bench.py")
        return 0
    print("\n".join(table(HEAD, rows)))
    return 0


def run_diff(arguments: argparse.Namespace) -> int:
    """The lever's lines, then all besides; 1 when one cannot be read."""
    from slipway.bench.errors import BenchError
    from slipway.bench.folder import read_results
    from slipway.bench.provenance import differences

    try:
        one, other = read_results(Path(arguments.bench), (arguments.one, arguments.other))
    except BenchError as error:
        return _fail(error, 1)
    meant, besides = differences(one.provenance, other.provenance, arguments.lever)
    if meant:
        print("\n".join(["the lever:", *(f"  {line}" for line in meant)]))
    title = "besides the lever:" if meant else "what differs (name the lever by --lever to set it apart):"
    print("\n".join([title, *(f"  {line}" for line in besides)]) if besides else "nothing else differs")
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """The gate."""
    from slipway.bench.errors import BenchError
    from slipway.bench.folder import read_results
    from slipway.bench.gate import NOT_COMPARABLE, judge, metric_named, percent

    try:
        result, baseline = read_results(Path(arguments.bench), (arguments.label, arguments.baseline))
        metric, most = metric_named(arguments.metric), percent(arguments.max_drop)
        judgement = judge(result, baseline, metric, most, spread_of(arguments))
    except BenchError as error:
        return _fail(error, NOT_COMPARABLE)
    print("\n".join(judgement.lines))
    words = ("no regression", "REGRESSION", "not comparable")[judgement.code]
    print(f"{arguments.label} against {arguments.baseline}: {words}")
    return judgement.code


def _fail(error: object, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
