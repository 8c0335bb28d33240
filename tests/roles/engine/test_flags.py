"""Flags of a release that ships no list are learnt from the built engine, kept, and obeyed by the next plan."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from roles.engine import deploy
from roles.remote import Output
from slipway.builds.recipe import Asked, make_build, recipe_named
from slipway.front import open_inventory, project_root

LEARNT = {
    "release": "0.5.99",
    "source": "parser of the built engine",
    "flags": {"--model-path": {"dest": "model_path"}, "--brand-new": {"kind": "switch"}},
}


@pytest.fixture
def host(monkeypatch):
    """A host that holds the flag list of its engine."""
    text = json.dumps(LEARNT, indent=1).splitlines()
    monkeypatch.setattr(deploy, "execute", lambda host, words: Output(words[0] == "cat", text, []))
    return SimpleNamespace(print_prefix="")


def build(version):
    made = make_build(recipe_named("sglang-cuda"), version, "3.11", Asked())
    return replace(made, version=version)


def test_a_release_without_a_list_is_learnt_and_then_known_to_the_plan(host, tmp_path):
    deploy.learn_flags(host, "/opt/x", build("0.5.99"), tmp_path / ".slipway/flags")

    (tmp_path / "inventory.py").write_text((project_root() / "inventory.py").read_text())
    flags = open_inventory(tmp_path / "inventory.py", {"model.path": "models/tiny"}).learnt
    assert flags["0.5.99"].has("brand_new")
    assert not flags["0.5.99"].has("tp_size")


def test_a_release_whose_list_ships_is_not_written_again(host, tmp_path):
    deploy.learn_flags(host, "/opt/x", build("0.5.13"), tmp_path / "flags")

    assert not (tmp_path / "flags").exists()
