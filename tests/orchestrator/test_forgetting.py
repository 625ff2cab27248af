"""What an orchestrator has in memory: bounded while jobs run, and gone when they have ended."""

from __future__ import annotations

from rmhdag.orchestrator.waiting_entries import READ_AHEAD, WaitingEntries
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


def test_more_rows_than_are_read_ahead_do_not_stop_the_loop(platform: Platform) -> None:
    """A read of the whole inbox may bring as many again; after that there was less than no room for new ones."""
    seat = platform.seat()
    job_id = platform.submit(chain(1))
    seat.work()
    query = (
        "INSERT INTO dag_inbox (owner_id, job_id, kind, payload)"
        """ SELECT %s, %s, 'command', '{"kind": "retry_node", "issued_by": "ann", "body": {"node_id": "n0"}}'"""
        " FROM generate_series(1, %s)"
    )
    waiting = WaitingEntries()
    platform.conn.execute(query, [seat.me, job_id, READ_AHEAD])
    waiting.read(seat.conn, seat.me, whole=False)
    platform.conn.execute("DELETE FROM dag_inbox")
    platform.conn.execute(query, [seat.me, job_id, 10])
    waiting.read(seat.conn, seat.me, whole=True)
    assert len(waiting) == READ_AHEAD + 10
    waiting.read(seat.conn, seat.me, whole=False)
    assert len(waiting) == READ_AHEAD + 10
