"""From one worker for all to prefill and decode, in one deployment: the router changes its mode with them."""

import shutil

import pytest

from tests.e2e.conftest import QUESTION
from tests.e2e.site import CHECKOUT, Site


@pytest.fixture
def site(tmp_path_factory):
    """With an inventory of its own, so that groups can change; gone afterwards."""
    folder = tmp_path_factory.mktemp("t")  # short, as sockets lie below it
    shutil.copytree(CHECKOUT / "group_vars", folder / "group_vars")
    site = Site("top", folder / "r", 22100, {"engine.kind": "simulator"}, inventory=folder / "inventory.py")
    site.data["unified.port"] = site.ports["prefill.port"]
    yield site
    gone = site.destroy()
    assert gone.rc == 0, gone.out


def write_inventory(site, *groups):
    lines = [f'{group} = ["@local"]' for group in groups]
    text = ["from roles.inventory import hosts as _hosts", *lines, "all = _hosts(__file__, globals())"]
    site.inventory.write_text("\n".join(text) + "\n")


def test_unified_becomes_prefill_and_decode_and_back(site):
    write_inventory(site, "unified", "router")
    first = site.deploy()
    assert first.rc == 0, first.out
    assert site.answer(QUESTION) == "391"

    write_inventory(site, "prefill", "decode", "router")
    second = site.deploy()
    assert second.rc == 0, second.out
    assert "remove unified-0" in second.out
    assert set(site.pids()) == {"prefill-0", "decode-0", "router-0"}
    assert site.answer(QUESTION) == "391"
    assert site.dry().changes == 0

    write_inventory(site, "unified", "router")
    back = site.deploy()
    assert back.rc == 0, back.out
    assert set(site.pids()) == {"unified-0", "router-0"}
    assert site.answer(QUESTION) == "391"
