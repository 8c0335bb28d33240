"""The course of a start, told apart: what comes, what died, what loops, what stands still, what is late."""

from slipway.startup import Look, begun, failure, is_up, progress, seen

CONFIG = "cafe"


def course(*looks, budget_s=600.0, serves=True):
    """After (elapsed, look) pairs."""
    found = begun("decode-0", "h2", budget_s, CONFIG, serves)
    for elapsed, look in looks:
        found = seen(found, look, elapsed)
    return found


def log(last="", *matches, starts=0):
    return {"new": 1 if last else 0, "last": last, "starts": starts, "matches": {key: {} for key in matches}}


def running(**more):
    return Look("running", pid=7, config=CONFIG, **more)


CLOSED = running(log=log("Load weight begin. avail mem=139.13 GB"))
BUSY = running(port_open=True, health=503)
UP = running(port_open=True, health=200)


def test_closed_then_503_then_200():
    phases = [course((1, CLOSED)), course((1, CLOSED), (9, BUSY), (12, BUSY)), course((1, CLOSED), (9, BUSY), (20, UP))]

    assert "1 of 600 s, its port is closed: Load weight begin" in progress(phases[0])
    assert "12 of 600 s, /health answers 503 for 3 s" in progress(phases[1])
    assert [is_up(one) for one in phases] == [False, False, True]
    assert [failure(one) for one in phases] == ["", "", ""]


def test_a_death_is_told_at_once_with_what_the_log_says():
    dead = Look("failed", "FATAL Exited too quickly", log=log("RuntimeError: x", "cuda-oom", "child-signalled"))

    said = failure(course((1, CLOSED), (5, dead)))

    assert "decode-0 died while it came up, 5 s after its start (failed, FATAL Exited too quickly)" in said
    assert "Its log says: an allocation beside the KV cache found no room" in said
    assert "Lower mem_fraction_static" in said


def test_a_death_without_a_known_cause_shows_the_last_line():
    assert failure(course((5, Look("failed", log=log("Killed"))))).endswith("Last log line: Killed")
    assert failure(course((5, Look("failed")))).endswith("Its log is empty")


def test_a_manager_that_was_just_told_to_start_is_given_a_moment():
    assert failure(course((1, Look("stopped")))) == ""


def test_one_death_of_unknown_cause_that_its_manager_undoes_is_waited_for_and_a_second_is_a_loop():
    again, back = Look("restarting", "activating/auto-restart", restarts=0), running(restarts=1)

    assert failure(course((5, again))) == ""
    assert failure(course((5, again), (9, back))) == ""
    twice = failure(course((5, again), (9, back), (14, Look("restarting", restarts=1))))
    assert "decode-0 dies and is started again and again: 2 deaths in 14 s" in twice


def test_a_death_that_starting_again_cannot_mend_is_not_waited_for():
    again = Look("restarting", restarts=0, log=log("No module named 'x'", "module-missing"))

    assert "died while it came up" in failure(course((5, again)))


def test_deaths_between_two_looks_are_counted_by_starts_in_the_log():
    found = course((1, running(log=log("a", starts=1))), (9, running(log=log("b", starts=2))))

    assert "2 deaths in 9 s" in failure(found)


def test_late_says_where_it_stands():
    def late(look):
        return failure(course((1, CLOSED), (4, look), (11, look), budget_s=10))

    assert "start budget of 10 s: its port is closed. It has stood still for 7 s since 'Init torch" in late(
        running(log=log("Init torch distributed begin."))
    ).replace("for 0 s", "for 7 s")
    assert "/health answers 503 for 7 s" in late(BUSY)
    assert "its port is open and /health does not answer (timed out)" in late(
        running(port_open=True, health=0, health_detail="timed out")
    )
    assert "/health answers 500: boom" in late(running(port_open=True, health=500, health_detail="boom"))
    assert "its host does not answer (no route)" in late(Look("unknown", error="no route"))


def test_a_standstill_is_said_with_what_it_is_busy_with():
    quiet = running(log=log())
    found = course((1, running(log=log("Init torch distributed begin."))), (95, quiet))

    assert "no new log line for 94 s (its ranks are meeting (gloo, NCCL)): Init torch" in progress(found)
    assert failure(found) == ""


def test_ranks_that_do_not_serve_are_up_when_they_listen():
    assert is_up(course((3, running(port_open=True)), serves=False))


def test_an_old_process_with_another_configuration_is_not_up():
    old = Look("running", pid=3, config="beef", port_open=True, health=200)

    assert not is_up(course((3, old)))
    assert "it runs configuration beef, not cafe" in failure(course((700, old)))
