"""Commands that are printed for a user name the inventory as it was typed, and work when they are pasted."""

import shlex

import pytest

from roles import inventory
from slipway.commands.experiment import command_of
from slipway.front import project_root
from slipway.invocation import command_again


@pytest.fixture
def typed(monkeypatch):
    """pyinfra's options as of a call that the test makes."""
    monkeypatch.chdir(project_root())
    options = {}
    monkeypatch.setattr(inventory, "_options", options)
    return options


def test_an_inventory_elsewhere_is_named_by_the_path_that_was_given(typed):
    typed.update(inventory="examples/h200-x2/aggregated.py", data=("root=/srv/my models", "why=a test"))

    assert inventory.again("destroy") == (
        "pyinfra --data 'root=/srv/my models' examples/h200-x2/aggregated.py playbooks/destroy.py"
    )


def test_an_inventory_of_the_same_name_in_another_folder_is_not_the_default_one(typed):
    typed.update(inventory="examples/staging/inventory.py", data=())

    assert inventory.again("rollback", "--data", "release=3") == (
        "pyinfra examples/staging/inventory.py playbooks/rollback.py --data release=3"
    )


@pytest.mark.parametrize(
    ("data", "command"),
    [
        ((), "make destroy"),
        (("engine.kind=simulator",), "make destroy ENGINE=simulator"),
        (("engine.kind=simulator", "decode.tp=2"), 'make destroy ENGINE=simulator DATA="decode.tp=2"'),
        (('worker.env={"A": 1}',), "pyinfra --data 'worker.env={\"A\": 1}' inventory.py playbooks/destroy.py"),
    ],
)
def test_the_default_inventory_is_destroyed_by_make_where_make_can_carry_its_data(typed, data, command):
    typed.update(inventory="inventory.py", data=data)

    assert inventory.again("destroy") == command


def test_what_is_needed_to_reach_the_hosts_is_repeated_and_no_password(typed):
    typed.update(inventory="inventory.py", data=(), ssh_user="ann", ssh_password="hush", sudo=True)

    assert inventory.again("destroy") == "pyinfra --sudo --ssh-user ann inventory.py playbooks/destroy.py"


def test_what_is_pasted_comes_back_word_for_word():
    line = command_again({"inventory": "my site/x.py"}, ["a=b c"], "playbooks/destroy.py", "")

    assert shlex.split(line) == ["pyinfra", "--data", "a=b c", "my site/x.py", "playbooks/destroy.py"]


def test_an_experiment_goes_on_with_its_inventory_and_data():
    assert command_of("campaign", "sites/x.py", {"decode.tp": 2}) == (
        "slipway experiment --data decode.tp=2 campaign sites/x.py"
    )
    assert command_of("campaign", None, {}) == "slipway experiment campaign"
