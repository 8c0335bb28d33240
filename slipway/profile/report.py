"""A breakdown as a table for the terminal and as one picture (SVG) that opens anywhere."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .breakdown import Breakdown, Share

# Told apart in light and dark, and by those who do not see red and green: Okabe and Ito's colours.
COLOURS = {
    "attention": "#0072B2", "moe": "#D55E00", "gemm": "#009E73", "communication": "#CC79A7", "other": "#888888",
}  # fmt: skip
LABELS = {"attention": "attention", "moe": "MoE", "gemm": "GEMM", "communication": "communication", "other": "other"}
WIDTH, ROW, TOP, LEFT, BAR = 960, 22, 96, 24, 912


def table_lines(found: Breakdown, most: int = 20) -> list[str]:
    """Groups, then the kernels that take longest: time, share, calls, mean."""
    what = "kernel" if found.device == "gpu" else "CPU operator (the trace has no GPU kernels)"
    lines = [summary(found), "", f"{'group':<16}{'ms':>12}{'share':>9}{'calls':>10}"]
    lines += [f"{LABELS[row.name]:<16}{row.us / 1e3:>12.3f}{row.part:>9.1%}{row.calls:>10}" for row in _sorted(found)]
    lines += ["", f"{'ms':>10}{'share':>8}{'calls':>8}{'mean us':>10}  {'group':<14} {what}"]
    for row in found.kernels[:most]:
        mean = row.us / row.calls if row.calls else 0.0
        lines.append(
            f"{row.us / 1e3:>10.3f}{row.part:>8.1%}{row.calls:>8}{mean:>10.1f}  {LABELS[row.group]:<14} {row.name[:90]}"
        )
    rest = found.kernels[most:]
    if rest:
        us, part = sum(row.us for row in rest), sum(row.part for row in rest)
        lines.append(f"{us / 1e3:>10.3f}{part:>8.1%}{sum(row.calls for row in rest):>8}{'':>10}  {len(rest)} more")
    return lines


def summary(found: Breakdown) -> str:
    """Span, busy and idle in one sentence."""
    who = "GPU" if found.device == "gpu" else "CPU threads"
    text = (
        f"{found.span_us / 1e3:.1f} ms from first to last, {who} busy {found.busy_us / 1e3:.1f} ms, "
        f"idle {found.idle:.1%}"
    )
    steps = ", ".join(f"{count} x {name}" for name, count in found.steps[:3])
    text += f"; {steps}" + (" and others" if len(found.steps) > 3 else "") if steps else ""
    return text + (f"; {found.left_out} events were left out" if found.left_out else "")


def _sorted(found: Breakdown) -> list[Share]:
    return sorted(found.groups, key=lambda row: -row.us)


def picture(found: Breakdown, title: str, most: int = 24) -> str:
    """One SVG: a bar of the groups, then a bar for each of the kernels that take longest."""
    rows = found.kernels[:most]
    height = TOP + 56 + ROW * len(rows) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{_text(title)}</title>",
        "<style>.ink{fill:#111}.paper{fill:#fff}@media (prefers-color-scheme:dark){.ink{fill:#eee}.paper{fill:#161616}}"
        "</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="ink" x="{LEFT}" y="28" font-size="16" font-weight="600">{_text(title)}</text>',
        f'<text class="ink" x="{LEFT}" y="48">{_text(summary(found))}</text>',
        *_group_bar(found),
        *_kernel_bars(rows),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _group_bar(found: Breakdown) -> list[str]:
    parts, left = [], float(LEFT)
    for row in _sorted(found):
        width = BAR * row.part
        words = f"{LABELS[row.name]}: {row.us / 1e3:.3f} ms, {row.part:.1%}, {row.calls} calls"
        parts.append(
            f'<rect x="{left:.1f}" y="62" width="{width:.1f}" height="26" fill="{COLOURS[row.name]}">'
            f"<title>{_text(words)}</title></rect>"
        )
        left += width
    return parts + _legend(found)


def _legend(found: Breakdown) -> list[str]:
    parts = []
    for index, row in enumerate(_sorted(found)):
        x = LEFT + index * 182
        parts.append(f'<rect x="{x}" y="{TOP + 6}" width="12" height="12" fill="{COLOURS[row.name]}"/>')
        parts.append(f'<text class="ink" x="{x + 18}" y="{TOP + 16}">{LABELS[row.name]} {row.part:.1%}</text>')
    return parts


def _kernel_bars(rows: Sequence[Share]) -> list[str]:
    """Names are cut for the eye and whole in the tooltip."""
    longest = max((row.part for row in rows), default=0.0) or 1.0
    parts = []
    for index, row in enumerate(rows):
        y, width = TOP + 44 + ROW * index, 300 * row.part / longest
        words = f"{row.us / 1e3:.3f} ms  {row.part:.1%}  {row.calls}x  {row.name}"
        parts.append(
            f'<g><title>{_text(words)}</title><rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{ROW - 6}" '
            f'fill="{COLOURS[row.group]}"/>'
            f'<text class="ink" x="{LEFT + 310}" y="{y + 12}">{_text(words[:96])}</text></g>'
        )
    return parts


def _text(text: str) -> str:
    return html.escape(text, quote=True)
