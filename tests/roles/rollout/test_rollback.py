"""Which release a rollback without a number puts back: what served before the current one."""

import pytest

from roles.releases import Releases
from roles.rollout.rollback import _previous
from roles.run import RefusedError


def found(current, **before):
    """Releases of one host by number, each with the one that was current before it; 'old' has no such record."""
    about = {}
    for name, one in before.items():
        about[int(name[1:])] = {"state": "proven"} | ({} if one == "old" else {"before": one})
    return {"h1": Releases(about, current)}


def test_it_is_not_one_that_was_itself_rolled_back_from():
    assert _previous(found(3, r1=None, r2=1, r3=1)) == 1  # 2 was bad: back to 1, then 3


def test_it_is_the_one_before_in_a_plain_row():
    assert _previous(found(3, r1=None, r2=1, r3=2)) == 2


def test_releases_of_an_older_version_are_taken_by_their_number():
    assert _previous(found(3, r1="old", r2="old", r3="old")) == 2


def test_a_host_that_came_later_says_nothing_against_it():
    hosts = found(3, r1=None, r2=1, r3=2) | {"h2": Releases({3: {"state": "proven", "before": None}}, 3)}
    assert _previous(hosts) == 2


def test_the_first_has_none_before_it():
    with pytest.raises(RefusedError, match="there is no release before the current one \\(1\\)"):
        _previous(found(1, r1=None, r2=1))
