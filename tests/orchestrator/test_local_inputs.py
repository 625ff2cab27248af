"""What has no row in the inbox is held once, in lines that are bounded and take turns."""

from __future__ import annotations

from collections import Counter

from rmhdag.engine.inputs import Continue, SetWindow, Start, Timer, TimerDue
from rmhdag.orchestrator.local_inputs import MOST_TIMERS, LocalInput, LocalInputs


def due(job: int, node: int = 0) -> LocalInput:
    return LocalInput(f"j{job}", TimerDue(f"n{node}", 1, Timer.RETRY))


def test_what_is_given_again_while_it_waits_is_held_once() -> None:
    """The duty gives all that is due every half second: a loop that is slower than that had to handle the copies."""
    local = LocalInputs()
    for _ in range(100):
        local.give([due(1), due(2), LocalInput("j3", Start()), LocalInput("j3", Continue("fan"))])
        local.give([LocalInput("j3", SetWindow("light", 5)), LocalInput("j3", SetWindow("light", 9))])
    assert local.lengths() == {"starts": 1, "answers": 2, "timers": 2}
    assert LocalInput("j3", SetWindow("light", 9)) in local.take(100), "the newest window counts"
    assert len(local) == 0


def test_no_more_timers_are_asked_for_than_there_is_room_for() -> None:
    local = LocalInputs()
    given = 0
    while room := min(1_000, local.room_for_timers):
        local.give([due(job) for job in range(given, given + room)])
        given += room
    assert given == local.lengths()["timers"] == MOST_TIMERS
    local.take(300)
    assert local.room_for_timers == 300


def test_a_new_job_and_a_fan_in_do_not_wait_for_thousands_of_timers() -> None:
    local = LocalInputs()
    local.give([due(job) for job in range(MOST_TIMERS)])
    local.give([LocalInput("new", Start()), LocalInput("fan", Continue("fan"))])
    assert {"new", "fan"} <= {item.job_id for item in local.take(100)}


def test_the_timers_of_one_job_do_not_delay_those_of_others() -> None:
    local = LocalInputs()
    local.give([due(0, node) for node in range(1_000)])
    local.give([due(job) for job in range(1, 50)])
    served = Counter(item.job_id for item in local.take(100))
    assert len(served) == 50
    assert served["j0"] == 51
