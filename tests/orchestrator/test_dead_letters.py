"""What was given up gets another chance, once."""

from __future__ import annotations

import pytest

from rmhdag.models.api.queues import DeadLetterSummary
from rmhdag.models.leases import ClaimedTask
from rmhdag.services.dead_letters import NotRequeuedError, requeue
from rmhdag.store import tasks
from rmhdag.store.dead_letters import dead_letters, settle_dead_letter
from rmhdag.store.suspects import claim_suspect
from rmhdag.workflow.definition import Tolerance
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.platform import QUEUE, Platform, Seat


def lose(platform: Platform, seat: Seat, worker_id: str, claimed: ClaimedTask) -> None:
    """The worker dies while the task runs."""
    assert tasks.start_tasks(platform.conn, worker_id, [(claimed.task_id, claimed.lease_epoch)])
    tasks.report_lost_tasks(platform.conn, [worker_id])
    seat.work()


def give_up(platform: Platform, seat: Seat) -> DeadLetterSummary:
    """Three workers die of the task that is first in the queue."""
    (first,) = tasks.claim_tasks(platform.conn, "w0", QUEUE, 1)
    lose(platform, seat, "w0", first)
    again = next(one for one in tasks.claim_tasks(platform.conn, "w1", QUEUE, 9) if one.task_id == first.task_id)
    lose(platform, seat, "w1", again)
    suspect = claim_suspect(platform.conn, "w2", [QUEUE])
    assert suspect is not None
    lose(platform, seat, "w2", suspect)
    (letter,) = dead_letters(platform.conn, "default")
    return letter


def test_a_letter_says_what_and_why(platform: Platform) -> None:
    job_id = platform.submit(workflow(only=task()))
    seat = platform.seat()
    seat.work()
    letter = give_up(platform, seat)
    assert (letter.queue, letter.reason, letter.job_id, letter.node_id) == (QUEUE, "lease_lost", job_id, "only")
    assert "3 times, last w2" in str(letter.error_message)
    assert platform.job(job_id)["status"] == "failed"


def test_the_task_of_a_job_that_failed_runs_in_a_new_one(platform: Platform) -> None:
    platform.submit(workflow(only=task()))
    seat = platform.seat()
    seat.work()
    letter = give_up(platform, seat)
    found = requeue(platform.conn, "default", letter, issued_by="ann")
    assert found.is_new
    platform.finish(seat)
    assert platform.job(found.job_id)["status"] == "completed"
    assert dead_letters(platform.conn, "default") == []
    (settled,) = dead_letters(platform.conn, "default", settled_too=True)
    assert (settled.settled_by, settled.settled_as) == ("ann", "requeued")
    with pytest.raises(NotRequeuedError, match="requeued by ann"):
        requeue(platform.conn, "default", settled, issued_by="bob")
    with pytest.raises(NotRequeuedError, match="another caller was first"):
        requeue(platform.conn, "default", letter, issued_by="bob")
    assert platform.count("dag_jobs") == 2, "the second asker started nothing"


def test_a_child_of_a_job_that_runs_is_tried_again_in_it(platform: Platform) -> None:
    job_id = platform.submit(fan("collect", tolerate=Tolerance(count=1)), {"items": [1, 2]})
    seat = platform.seat()
    seat.work()
    letter = give_up(platform, seat)
    assert platform.job(job_id)["status"] == "running"
    with pytest.raises(NotRequeuedError, match="has not answered"):
        requeue(platform.conn, "default", letter, issued_by="ann")
    seat.work()
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"
    assert set(platform.nodes(job_id).values()) == {"completed"}


def test_a_letter_without_a_job_stays(platform: Platform) -> None:
    platform.conn.execute("INSERT INTO dag_dead_letters (dead_letter_id, reason, raw) VALUES ('x', 'unreadable', '{')")
    (letter,) = dead_letters(platform.conn, "default")
    with pytest.raises(NotRequeuedError, match="belongs to no job"):
        requeue(platform.conn, "default", letter, issued_by="ann")
    assert settle_dead_letter(platform.conn, "default", "x", "ann", "discarded")
    assert not settle_dead_letter(platform.conn, "default", "x", "bob", "discarded")
    assert dead_letters(platform.conn, "default") == []
