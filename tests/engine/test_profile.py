"""The profile of the real engine: its own profiler on the CPU, around a load through the real router."""

import shutil

import pytest

from tests.e2e.site import CHECKOUT

pytestmark = [pytest.mark.engine, pytest.mark.full]
QUESTION = "What is 17*23? Answer with the number only."


def test_the_engines_own_profiler_says_where_decode_time_goes(engine_site):
    before = engine_site.pids()
    results = CHECKOUT / "profile" / f"engine{engine_site.first_port}"
    shutil.rmtree(results, ignore_errors=True)

    done = engine_site.run("-y", "playbooks/profile.py", label=results.name, seconds=2, streams=2)

    assert done.rc == 0, done.out
    assert "aten::mm" in done.out
    assert "DECODE bs=" in done.out
    assert "0 failed" in done.out
    assert len(list(results.glob("*.svg"))) == 1
    assert engine_site.pids() == before
    assert engine_site.answer(QUESTION) == "391"
    shutil.rmtree(results)
