"""The report in a real browser: its structure, and that it is legible light and dark, wide and narrow."""

import json
import re
import struct
import zlib
from pathlib import Path

import pytest

from slipway.cli import main
from slipway.plan.model import to_json
from tests.browser.chromium import browser, program
from tests.slipway.bench.results import provenance, repeats, void, write

if program() is None:
    pytest.skip("no Chromium here (scripts/test installs it where apt-get may)", allow_module_level=True)


def a_roofline():
    from slipway.knowledge import gpus
    from slipway.memory.roofline import Roofline

    gpu = gpus.find("NVIDIA H200")
    return to_json(Roofline(gpu.name, 4.8e12, 4e9, 60e9, 256, 8, 1, ("attention: 4 GB",)))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with everything that one can hold: better, worse, noise, void, a roofline, a target, hostile names."""
    folder = tmp_path_factory.mktemp("bench")
    known = {"roofline": {"decode": a_roofline()}}
    settings = {
        role: {**values, "moe_runner_backend": "<b>&cutlass"} for role, values in provenance()["settings"].items()
    }
    write(folder, "old", [*repeats(400.0, 402.0, 398.0), *repeats(600.0, 640.0, 560.0, concurrency=16)], **known)
    new = [*repeats(440.0, 441.0, 439.0), *repeats(610.0, 630.0, 590.0, concurrency=16)]
    new += [void(64, at, "3 requests failed: <script>alert(1)</script>") for at in (1, 2, 3)]
    write(folder, "new", new, settings=settings, **known)
    words = ["report", "new", "--baseline", "old", "--bench", str(folder), "--target", "output_throughput=500"]
    assert main(words) == 0
    return folder / "new/report.html"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def texts(page, selector):
    return page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent.trim())")


def test_the_page_says_what_came_out_and_what_does_not_count(page, report):
    page.open(report)

    assert texts(page, "h1") == ["new against old"]
    assert any("440.0 output tok/s, +10.0 %" in line and "better" in line for line in texts(page, ".lead li"))
    assert any("no difference beyond the noise" in line for line in texts(page, ".lead li"))
    assert texts(page, "section.void li")[0].startswith("new 1024/128 C=64: void, repeat 1: 3 requests failed")
    assert "void" in texts(page, "tbody td.void")
    assert "noise" in texts(page, "td.noise:last-child")
    assert any("upper bound: one user gets at most" in line for line in texts(page, "section li"))


def test_the_plots_have_a_line_for_each_result_and_the_limits(page, report):
    page.open(report)

    for plot in ("latency-1024-128", "pareto-1024-128"):
        inside = f"#{plot}"
        assert page.value(f"[...document.querySelectorAll('{inside} g.series')].map(e => e.dataset.series)") == [
            "new",
            "old",
        ]
        assert len(texts(page, f"{inside} .mark")) == 4
        assert page.value(f"document.querySelectorAll('{inside} path.bound').length") == 1
        assert texts(page, f"{inside} text.label") == ["C=8", "C=16", "C=8", "C=16"]
    assert texts(page, "#latency-1024-128 text.name") == ["target 500"]
    assert "void, so not drawn: new C=64" in texts(page, ".plots p.note")


def test_every_mark_lies_inside_its_plot(page, report):
    page.open(report)
    script = """[...document.querySelectorAll('svg.plot')].flatMap(plot => {
        const box = plot.getBoundingClientRect();
        return [...plot.querySelectorAll('.mark, text, path')].filter(mark => {
            const at = mark.getBoundingClientRect();
            return at.left < box.left - 1 || at.right > box.right + 1
                || at.top < box.top - 1 || at.bottom > box.bottom + 1;
        }).map(mark => mark.outerHTML)})"""

    assert page.value(script) == []


def test_nothing_is_fetched_and_nothing_hostile_runs(page, report):
    text = report.read_text()
    page.said.clear()
    page.open(report)

    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "http://" not in text
    assert "https://" not in text
    assert page.value("performance.getEntriesByType('resource').length") == 0
    assert page.said == []
    assert page.value("document.querySelectorAll('b').length") == 0


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_the_page_itself_never_scrolls_sideways(page, report, width):
    page.open(report, width=width)

    assert page.value("document.documentElement.scrollWidth") <= width
    columns = page.value("getComputedStyle(document.querySelector('.plots')).gridTemplateColumns.split(' ').length")
    assert columns == (2 if width > 1000 else 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page, report, scheme):
    page.open(report, scheme=scheme)
    script = """[...document.querySelectorAll('h1, li, td, th, figcaption, summary, text')].map(e => {
        let ground = e;
        while (ground && ['rgba(0, 0, 0, 0)', 'transparent'].includes(getComputedStyle(ground).backgroundColor))
            ground = ground.parentElement;
        const ink = e.tagName === 'text' ? getComputedStyle(e).fill : getComputedStyle(e).color;
        return [ink, getComputedStyle(ground).backgroundColor, e.textContent.trim().slice(0, 40)]})"""

    poor = [row for row in page.value(script) if contrast(row[0], row[1]) < 4.5]  # WCAG AA

    assert poor == []


def test_every_series_colour_is_legible():
    text = (Path(__file__).parents[2] / "templates/report.html.j2").read_text()
    light, dark = re.findall(r"--s0:.*", text)
    for colours_of, card in ((light, "#ffffff"), (dark, "#1b1e23")):
        found = re.findall(r"#[0-9a-f]{6}", colours_of)
        assert len(found) == 8
        assert [colour for colour in found if contrast(rgb(colour), rgb(card)) < 4.5] == []


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


def contrast(one, other):
    first, second = sorted((luminance(one), luminance(other)), reverse=True)
    return (first + 0.05) / (second + 0.05)


def luminance(colour):
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("scheme", "ground"), [("light", (252, 252, 251)), ("dark", (20, 22, 26))])
def test_a_screenshot_shows_the_scheme_and_both_series(page, report, scheme, ground):
    page.open(report, width=500, height=900, scheme=scheme)
    image = page.screenshot()
    target = Path(report).with_name(f"{scheme}.png")
    target.write_bytes(image)

    seen = colours(image)

    assert seen[0] == ground  # the corner
    ink = {"light": [(31, 111, 209), (186, 71, 20)], "dark": [(99, 164, 245), (242, 138, 91)]}[scheme]
    assert all(colour in seen for colour in ink)


def colours(png):
    """Distinct RGB colours, in the order in which they are met; a PNG of 8-bit RGB or RGBA, as Chromium writes it."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    size = {2: 3, 6: 4}[kind]
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    raw, stride = zlib.decompress(data), width * size
    seen, before = {}, bytearray(stride)
    for row in range(height):
        start = row * (stride + 1)
        before = unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), before, size)
        seen.update(dict.fromkeys(tuple(before[pixel : pixel + 3]) for pixel in range(0, stride, size)))
    return list(seen)


def unfiltered(kind, line, above, size):
    for at in range(len(line)):
        left = line[at - size] if at >= size else 0
        corner = above[at - size] if at >= size else 0
        line[at] = (line[at] + predicted(kind, left, above[at], corner)) & 255
    return line


def predicted(kind, left, up, corner):
    if kind == 4:
        guess = left + up - corner
        return min((left, up, corner), key=lambda value: abs(guess - value))
    return (0, left, up, (left + up) // 2)[kind]
