"""What a report says, before it is Markdown or a page: tables, plots and sentences as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from slipway.bench.bounds import Bound, bound_lines, bound_of
from slipway.bench.charts import Targets, charts
from slipway.bench.compare import Row, gaps, noted, rows
from slipway.bench.folder import Result
from slipway.bench.metrics import shown
from slipway.bench.plot import Plot
from slipway.bench.provenance import differences, facets, unlike
from slipway.bench.record import Shape

Tone = Literal["", "better", "worse", "noise", "void", "unknown", "differs"]
# What a reader looks at first; all other figures stand folded below.
FIRST = (
    "output_throughput", "output_throughput_per_gpu_all", "total_throughput_per_gpu_all", "tok_s_per_user.median",
    "goodput.request_goodput",
    "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "median_itl_ms", "p99_itl_ms", "median_e2e_latency_ms",
    "p99_e2e_latency_ms",
)  # fmt: skip
OVERVIEW = ("output_throughput", "tok_s_per_user.median", "median_ttft_ms", "median_tpot_ms", "p99_e2e_latency_ms")
_WORDS = {"better": "better", "worse": "worse", "noise": "noise", "differs": "differs", "unknown": "not known (1 run)"}


@dataclass(frozen=True)
class Item:
    """One cell of a table; tone: what it means, told by words too. more: left out where there is little room."""

    text: str
    tone: Tone = ""
    more: str = ""

    @property
    def whole(self) -> str:
        """All of it."""
        return f"{self.text} {self.more}".rstrip()


@dataclass(frozen=True)
class Table:
    """A table. folded: of less interest, shown when asked for. note: a sentence.

    texts: words rather than figures. compared: its columns are those of a comparison.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Item, ...], ...]
    folded: bool = False
    note: str = ""
    texts: bool = False
    compared: bool = False


@dataclass(frozen=True)
class Report:
    """The whole. lead: what it comes to. warnings: what keeps figures from being held against one another."""

    title: str
    lead: tuple[str, ...]
    warnings: tuple[str, ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    gaps: tuple[str, ...]
    notes: tuple[str, ...]
    details: tuple[Table, ...]
    meant: tuple[str, ...]
    besides: tuple[str, ...]
    bounds: tuple[str, ...]
    provenance: Table


@dataclass(frozen=True)
class Request:
    """What a report is made of. targets: metric key -> value to reach. spread: as of noise.compare."""

    results: tuple[Result, ...]
    baseline: Result | None = None
    targets: Targets = field(default_factory=dict)
    spread: float | None = None
    title: str = ""
    lead: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


def make_report(request: Request) -> Report:
    """Everything that can be said of the results."""
    everyone = [*request.results, *([request.baseline] if request.baseline else [])]
    bounds = {result.label: bound_of(result) for result in everyone}
    compared = {result.label: rows(result, request.baseline, request.spread) for result in request.results}
    meant, besides = _differences(request)
    return Report(
        title=request.title or _title(request),
        lead=request.lead or tuple(_lead(compared)),
        warnings=tuple(_warnings(request, compared)),
        tables=(*request.tables, *(_overview(one, compared[one.label]) for one in request.results)),
        plots=tuple(charts(everyone, bounds, request.targets)),
        gaps=tuple(dict.fromkeys(line for result in request.results for line in gaps(result, request.baseline))),
        notes=tuple(dict.fromkeys(line for result in everyone for line in noted(result))),
        details=tuple(_details(request, compared)),
        meant=meant,
        besides=besides,
        bounds=_bound_words(bounds),
        provenance=_provenance(everyone),
    )


def _title(request: Request) -> str:
    names = ", ".join(result.label for result in request.results)
    return f"{names} against {request.baseline.label}" if request.baseline else names


def _differences(request: Request) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if request.baseline is None:
        return (), ()
    meant: list[str] = []
    besides: list[str] = []
    for result in request.results:
        found = differences(request.baseline.provenance, result.provenance)
        prefix = f"{result.label}: " if len(request.results) > 1 else ""
        meant += [prefix + line for line in found[0]]
        besides += [prefix + line for line in found[1]]
    return tuple(meant), tuple(besides)


def _warnings(request: Request, compared: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    if any(result.provenance.get("simulated") for result in request.results):
        yield "measured on the SIMULATED engine: the figures are those of its timing model, not of any hardware"
    if request.baseline:
        for result in request.results:
            yield from (
                f"{result.label}: {reason}" for reason in unlike(result.provenance, request.baseline.provenance)
            )
    alone = [label for label, found in compared.items() if found and all(len(row.values) == 1 for row in found)]
    if alone and request.spread is None:
        yield f"{', '.join(alone)}: measured once, so nothing is known of the spread from run to run"


def _lead(compared: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """One sentence a load, of output tok/s."""
    for label, found in compared.items():
        for row in found:
            if row.metric.key == "output_throughput":
                yield f"{label}, {row.shape}: {_sentence(row)}"


def _sentence(row: Row) -> str:
    text = f"{shown(row.metric, row.value)} output tok/s"
    if row.difference is None or row.difference.percent is None:
        return text
    verdict = row.difference.verdict
    difference = f"{row.difference.percent:+.1f} %{_half(row.difference.half_percent)}"
    words = {
        "noise": f"no difference beyond the noise ({difference})",
        "unknown": f"{difference} against the baseline, and one run a side cannot tell whether that is noise",
    }
    return f"{text}, {words.get(verdict, f'{difference}: {verdict} than the baseline')}"


def _half(percent: float | None) -> str:
    if percent is None:
        return ""
    return f" ±{percent:.1f}" if percent < 1000 else " ±>999"


def _overview(result: Result, found: Sequence[Row]) -> Table:
    """A row a load, the figures that most decisions are made by; loads without a run that counts as well."""
    by = {(row.shape, row.metric.key): row for row in found}
    titles = {row.metric.key: row.metric for row in found}
    keys = [key for key in OVERVIEW if key in titles]
    head = ("load", *(_heading(titles[key].title, titles[key].unit) for key in keys))
    counted = {row.shape for row in found}
    body = [
        (
            Item(str(shape)),
            *(_short(by.get((shape, key))) if shape in counted else Item("void", "void") for key in keys),
        )
        for shape in result.shapes
    ]
    return Table(f"{result.label}, in short", head, tuple(body))


def _heading(title: str, unit: str) -> str:
    return f"{title}, {unit}" if unit and unit not in title else title


def _short(row: Row | None) -> Item:
    if row is None:
        return Item("")
    text = shown(row.metric, row.value)
    if row.difference is None or row.difference.percent is None:
        return Item(text)
    verdict = row.difference.verdict
    return Item(f"{text} ({row.difference.percent:+.1f} %, {_WORDS[verdict]})", verdict)


def _details(request: Request, compared: Mapping[str, Sequence[Row]]) -> Iterator[Table]:
    for result in request.results:
        found = compared[result.label]
        for shape in result.shapes:
            here = [row for row in found if row.shape == shape]
            yield _table(request, result, shape, [row for row in here if row.metric.key in FIRST], folded=False)
            rest = [row for row in here if row.metric.key not in FIRST]
            if rest:
                yield _table(request, result, shape, rest, folded=True)


def _table(request: Request, result: Result, shape: Shape, found: Sequence[Row], folded: bool) -> Table:
    title = f"{result.label}, {shape}" + (", further figures" if folded else "")
    void = [reason for cell in result.of(shape) for reason in cell.void]
    if request.baseline is None:
        head: tuple[str, ...] = ("figure", "unit", "value")
    else:
        head = ("figure", "unit", "value", _baseline_name(request.baseline), "delta", "percent", "")
    body = [_cells(row, request.baseline is not None) for row in found]
    if not found:
        body = [(Item("void", "void"), Item(""), Item("; ".join(void), "void"), *[Item("")] * (len(head) - 3))]
    count = sum(cell.valid for cell in result.of(shape))
    note = "" if folded else f"n={shape.prompts}, {count} run(s)" + (f", {len(void)} void" if void else "")
    return Table(title, head, tuple(body), folded, note, compared=request.baseline is not None)


def _baseline_name(baseline: Result) -> str:
    return baseline.label if baseline.label == "baseline" else f"baseline ({baseline.label})"


def _cells(row: Row, compared: bool) -> tuple[Item, ...]:
    metric, ends = row.metric, row.ends
    between = f"[{shown(metric, ends[0])} … {shown(metric, ends[1])}]" if ends else ""
    first = (Item(metric.title), Item(metric.unit), Item(shown(metric, row.value), more=between))
    if not compared:
        return first
    difference = row.difference
    if difference is None:
        return (*first, Item("N/A"), Item(""), Item(""), Item("not measured", "unknown"))
    percent = "" if difference.percent is None else f"{difference.percent:+.1f} %"
    half = _half(difference.half_percent).strip() if percent else ""
    delta = f"{difference.delta:+,.{max(metric.digits, 1)}f}"
    verdict = difference.verdict
    base = Item(shown(metric, difference.baseline))
    return (*first, base, Item(delta), Item(percent, verdict, half), Item(_WORDS[verdict], verdict))


def _bound_words(bounds: Mapping[str, Bound | str]) -> tuple[str, ...]:
    """The arithmetic of each bound; the same one once."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, bound in bounds.items():
        alike.setdefault(bound_lines(bound), []).append(label)
    return tuple(f"{', '.join(labels)}: {line}" if not at else line
                 for lines, labels in alike.items() for at, line in enumerate(lines))  # fmt: skip


def _provenance(everyone: Sequence[Result]) -> Table:
    known = {result.label: facets(result.provenance) for result in everyone}
    names = list(dict.fromkeys(name for found in known.values() for name in found))
    body = [(Item(name), *(Item(known[result.label].get(name, "")) for result in everyone)) for name in names]
    return Table("Provenance", ("", *(result.label for result in everyone)), tuple(body), texts=True)
