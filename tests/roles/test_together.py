"""Several calls at once: all of them end, the first error is raised, and nothing is printed of it."""

import gevent
import pytest

from roles.remote import RemoteError
from roles.together import together


def test_answers_come_in_the_order_of_the_calls():
    def late():
        gevent.sleep(0.01)
        return "late"

    assert together([late, lambda: "early"]) == ["late", "early"]


def test_an_error_is_raised_once_all_have_ended_and_no_traceback_is_printed(capfd):
    ended = []

    def breaks():
        raise RemoteError("h2: the connection broke")

    def works():
        gevent.sleep(0.01)
        ended.append(True)

    with pytest.raises(RemoteError, match="h2: the connection broke"):
        together([breaks, works])

    assert ended == [True]
    assert capfd.readouterr() == ("", "")
