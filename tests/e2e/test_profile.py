"""The profile of a worker by its own profiler, around a load through the router; the worker is left as it was."""

import shutil
import xml.etree.ElementTree as ElementTree

from tests.e2e.conftest import QUESTION
from tests.e2e.site import CHECKOUT


def profile(site, **more):
    return site.run("-y", "playbooks/profile.py", **more)


def test_a_profile_says_where_decode_time_goes_and_leaves_nothing(site):
    before = site.pids()
    results = CHECKOUT / "profile" / f"test{site.first_port}"
    shutil.rmtree(results, ignore_errors=True)

    done = profile(site, label=results.name, seconds=1, streams=2)

    assert done.rc == 0, done.out
    rows = [line.split() for line in done.out.splitlines()]
    assert ["GEMM", "45.0%"] in [[row[0], row[2]] for row in rows if len(row) == 4]
    assert any(row[-1] == "nvjet_tst_64x8_64x16_4x1_v_bz_TNT" and row[1] == "45.0%" for row in rows if row)
    assert "requests answered, 0 failed" in done.out
    (picture,) = results.glob("*.svg")
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert list(results.glob("*.trace.json.gz"))
    assert site.pids() == before
    assert site.answer(QUESTION) == "391"
    left = [path for path in site.root.rglob("*") if "profile" in path.name and "engines" not in path.parts]
    assert left == []
    shutil.rmtree(results)


def test_a_worker_that_the_plan_does_not_have_is_refused(site):
    done = profile(site, worker="decode-7")

    assert done.rc != 0
    assert "--data worker=decode-7: must be one of decode-0, prefill-0" in done.out
    assert "Traceback" not in done.out
