"""What an orchestrator has in memory goes when the job has ended, also if something is said to the job after that."""

from __future__ import annotations

from tests.orchestrator.platform import Platform
from tests.orchestrator.test_advance import chain


def test_a_job_that_is_asked_something_after_its_end_does_not_stay_in_memory(platform: Platform) -> None:
    """It is loaded once more for the answer. Under a load of cancels these were hundreds of aggregates, for ever."""
    seat = platform.seat()
    job_id = platform.submit(chain(1))
    platform.finish(seat)
    empty = seat.advance.sizes()
    platform.conn.execute(
        "INSERT INTO dag_inbox (owner_id, job_id, kind, payload)"
        """ VALUES (%s, %s, 'command', '{"kind": "cancel", "issued_by": "ann"}')""",
        [seat.me, job_id],
    )
    seat.work()
    assert platform.conn.execute("SELECT count(*) FROM dag_inbox").fetchone() == (0,)
    assert seat.advance.sizes() == empty
    assert (empty["aggregates"], empty["known_jobs"]) == (0, 0)
