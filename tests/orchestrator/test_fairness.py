"""Who comes next: nobody waits for all of somebody else's work, in the queue or in the inbox."""

import pytest

from rmhdag.orchestrator.turns import STEP, Turns
from rmhdag.orchestrator.waiting_entries import READ_AHEAD, WaitingEntries
from rmhdag.store.connection import Conn
from rmhdag.workflow.definition import WorkflowDefinition
from tests.orchestrator.platform import Platform

ME = "me"

WIDE = WorkflowDefinition.model_validate(
    {
        "workflow_id": "wide",
        "name": "Wide",
        "inputs": {"items": {"type": "array", "required": True}},
        "nodes": {
            "all": {
                "type": "fan_out",
                "source": "{{ inputs.items }}",
                "task": {"handler": "echo", "queue": "light"},
                "next": ["done"],
            },
            "done": {"type": "fan_in", "source_node": "all"},
        },
    }
)
SMALL = WorkflowDefinition.model_validate(
    {
        "workflow_id": "small",
        "name": "Small",
        "nodes": {"one": {"type": "task", "task": {"handler": "echo", "queue": "light"}}},
    }
)


def queues_at(**keys: int) -> Turns:
    return Turns(lambda queue, after: keys.get(queue))


def test_jobs_of_one_submitter_take_turns() -> None:
    turns = queues_at()
    first = [turns.next_key("light", "a", "default", "ann", 0) for _ in range(3)]
    assert first == [STEP, 2 * STEP, 3 * STEP]
    # Bob shares the namespace with Ann: he comes after two of hers, and she steps as far from now on.
    assert turns.next_key("light", "b", "default", "bob", 0) == 2 * STEP
    assert turns.next_key("light", "a", "default", "ann", 0) == 5 * STEP


def test_a_job_begins_where_the_queue_is() -> None:
    turns = queues_at(light=500_000)
    assert turns.next_key("light", "a", "default", "ann", 0) == 500_000 + STEP
    turns.queue_is_at("light", 900_000)
    turns.queue_is_at("light", 100)
    assert turns.next_key("light", "b", "default", "bob", 0) == 900_000 + STEP
    assert turns.next_key("heavy", "b", "default", "bob", 0) == STEP


def test_queues_that_others_fill_are_looked_at_again() -> None:
    waiting = {"light": 10}
    turns = Turns(lambda queue, after: waiting.get(queue))
    turns.next_key("light", "a", "default", "ann", 0)
    waiting["light"] = 70_000
    turns.look_at_queues()
    assert turns.next_key("light", "b", "default", "bob", 0) == 70_000 + STEP


def test_a_higher_priority_takes_smaller_steps_than_the_rest_of_its_namespace() -> None:
    turns = queues_at()
    ten = [turns.next_key("light", "a", "default", "ann", 9) for _ in range(10)]
    assert ten[-1] == 10 * STEP
    assert turns.next_key("light", "b", "default", "bob", 0) == 11 * STEP
    assert turns.next_key("light", "a", "default", "ann", 9) == 10 * STEP + 11 * STEP // 10


def test_a_new_job_is_claimed_before_the_rest_of_a_large_one(platform: Platform) -> None:
    seat = platform.seat()
    platform.submit(WIDE, {"items": list(range(300))}, by="crowd")
    seat.work()
    for _ in range(10):
        platform.succeed(*platform.claim(10))
        seat.work()
    small = platform.submit(SMALL, by="ann")
    seat.work()
    assert small in [task.job_id for task in platform.claim(5)]


def tell(conn: Conn, job_id: str, count: int, node_id: str = "n") -> None:
    conn.execute(
        "INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, payload)"
        " SELECT %s, %s, 'task_reported', %s, '{}' FROM generate_series(1, %s)",
        [ME, job_id, node_id, count],
    )


def taken(waiting: WaitingEntries, limit: int, due: list[tuple[str, str]] | None = None) -> list[str]:
    return [entry.job_id for entry in waiting.take(limit, due or ())]


@pytest.fixture
def conn(platform: Platform) -> Conn:
    return platform.conn


def test_every_job_gets_its_share_of_a_batch(conn: Conn) -> None:
    tell(conn, "large", 50)
    tell(conn, "small", 1)
    waiting = WaitingEntries()
    waiting.read(conn, ME, whole=False)
    assert sorted(taken(waiting, 4)) == ["large", "large", "large", "small"]
    assert taken(waiting, 100) == ["large"] * 47
    assert taken(waiting, 100) == []


def test_with_more_jobs_than_room_all_have_their_turn(conn: Conn) -> None:
    for number in range(5):
        tell(conn, f"j{number}", 2)
    waiting = WaitingEntries()
    waiting.read(conn, ME, whole=False)
    rounds = [taken(waiting, 2) for _ in range(5)]
    assert rounds == [["j0", "j1"], ["j2", "j3"], ["j4", "j0"], ["j1", "j2"], ["j3", "j4"]]


def test_the_entries_of_one_job_stay_in_their_order(conn: Conn) -> None:
    tell(conn, "a", 5)
    waiting = WaitingEntries()
    waiting.read(conn, ME, whole=False)
    ids = [entry.inbox_id for _ in range(3) for entry in waiting.take(2)]
    assert ids == sorted(ids)
    assert len(ids) == 5


def test_what_a_due_node_has_comes_first(conn: Conn) -> None:
    tell(conn, "a", 3, "x")
    tell(conn, "a", 1, "y")
    waiting = WaitingEntries()
    waiting.read(conn, ME, whole=False)
    assert [entry.node_id for entry in waiting.take(1, [("a", "y"), ("b", "z")])] == ["y", "x"]


def test_nothing_is_handed_out_twice_though_the_whole_inbox_is_read(conn: Conn) -> None:
    tell(conn, "a", 3)
    waiting = WaitingEntries()
    waiting.read(conn, ME, whole=False)
    waiting.read(conn, ME, whole=True)
    assert len(waiting.take(100)) == 3


def test_what_was_not_handled_is_read_again(conn: Conn) -> None:
    tell(conn, "a", 3)
    waiting = WaitingEntries()
    waiting.read(conn, ME, whole=False)
    assert len(waiting.take(100)) == 3
    waiting.read(conn, ME, whole=False)
    assert waiting.take(100) == []
    waiting.read_again()
    waiting.read(conn, ME, whole=False)
    assert len(waiting.take(100)) == 3


def test_no_more_is_read_ahead_than_fits(conn: Conn) -> None:
    tell(conn, "a", READ_AHEAD + 10)
    waiting = WaitingEntries()
    waiting.read(conn, ME, whole=False)
    waiting.read(conn, ME, whole=False)
    assert len(waiting.take(10**6)) == READ_AHEAD
    waiting.read(conn, ME, whole=False)
    assert len(waiting.take(10**6)) == 10
