"""The example report under docs/, made by a real run on the CPU engine: it opens offline and says what it is."""

from pathlib import Path

import pytest

from tests.browser.chromium import browser, program

if program() is None:
    pytest.skip("no Chromium here (scripts/test installs it where apt-get may)", allow_module_level=True)

EXAMPLE = Path(__file__).parents[2] / "docs/examples/report.html"


def test_the_example_opens_offline_and_is_of_the_real_engine(tmp_path):
    with browser(tmp_path) as page:
        page.open(EXAMPLE)

        assert page.value("document.querySelector('h1').textContent") == "Experiment cpu"
        assert page.value("performance.getEntriesByType('resource').length") == 0
        assert page.value("document.querySelectorAll('svg.plot').length") == 2
        assert page.value("document.querySelectorAll('table').length") > 3
        assert "SIMULATED" not in page.value("document.body.textContent")
        assert "kind sglang, version 0.5.13, device cpu" in page.value("document.body.textContent")
    assert page.said == []
    assert EXAMPLE.with_suffix(".md").is_file()
