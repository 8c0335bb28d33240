"""One deployed simulator for the tests of this folder; each leaves it as it found it, or deploys again."""

import pytest

from tests.e2e.site import Site

QUESTION = "What is 17*23? Answer with the number only."


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The whole path with the simulated engine: supervisor, the real router, a prefill and a decode."""
    site = Site("sim", tmp_path_factory.mktemp("r"), 21000, {"engine.kind": "simulator"})
    first = site.deploy()
    site.first = first
    assert first.rc == 0, first.out
    yield site
    gone = site.destroy()
    assert gone.rc == 0, gone.out
    assert site.pids() == {}
    assert not site.root.exists()
