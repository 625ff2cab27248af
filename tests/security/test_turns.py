"""No tenant can take turns away from another one: not by its name, its number of jobs or keys, or its priority."""

import pytest

from rmhdag.engine.inputs import Start
from rmhdag.orchestrator.local_inputs import LocalInput, LocalInputs
from rmhdag.orchestrator.turns import MOST_LEFT_BEHIND, STEP, Turns
from rmhdag.orchestrator.waiting_entries import WaitingEntries
from rmhdag.store.connection import Conn
from rmhdag.workflow.definition import WorkflowDefinition
from tests.orchestrator.platform import Platform

ME = "me"

TASK = {"type": "task", "task": {"handler": "echo", "queue": "light"}}
SMALL = WorkflowDefinition.model_validate({"workflow_id": "small", "name": "Small", "nodes": {"one": TASK}})
PARKED = WorkflowDefinition.model_validate(
    {
        "workflow_id": "parked",
        "name": "Parked",
        "nodes": {"one": {**TASK, "next": ["wait"]}, "wait": {"type": "approval"}},
    }
)


def turns_of_an_empty_queue() -> Turns:
    return Turns(lambda queue, after: None)


def namespace_of(job_id: str) -> str:
    """Jobs are named `alpha-1` here."""
    return job_id.partition("-")[0]


def test_the_fairness_key_of_another_namespace_is_another_key() -> None:
    turns = turns_of_an_empty_queue()
    for number in range(1_000):
        turns.next_key("light", f"a{number}", "alpha", "beta-submit", 0)
    assert turns.next_key("light", "b", "beta", "beta-submit", 0) == STEP


@pytest.mark.parametrize("priority", [0, 10])
def test_a_namespace_with_a_thousand_keys_has_one_share(priority: int) -> None:
    """In front of a hundred tasks of beta stand about as many of alpha, whatever keys and priorities it takes."""
    turns = turns_of_an_empty_queue()
    alpha = [turns.next_key("light", f"a{n}", "alpha", f"key{n}", priority) for n in range(1_000)]
    alpha += [turns.next_key("light", f"a{n}", "alpha", f"key{n}", priority) for n in range(1_000)]
    beta = [turns.next_key("light", "b", "beta", "ann", 0) for _ in range(100)]
    assert len([mark for mark in alpha if mark <= beta[-1]]) <= 101


def test_priority_counts_inside_a_namespace_only() -> None:
    turns = turns_of_an_empty_queue()
    alpha = [turns.next_key("light", "a", "alpha", "ann", 10) for _ in range(1_000)]
    beta = turns.next_key("light", "b", "beta", "bob", 0)
    assert len([mark for mark in alpha if mark <= beta]) == 1


def test_a_job_competes_until_the_queue_has_reached_its_mark() -> None:
    turns = turns_of_an_empty_queue()
    marks = [turns.next_key("light", f"j{number}", "alpha", "ann", 0) for number in range(10)]
    assert turns.next_key("light", "new", "alpha", "ann", 0) == 11 * STEP
    turns.queue_is_at("light", marks[-2])
    assert len(turns) == 2
    turns.queue_is_at("light", 11 * STEP)
    assert len(turns) == 0
    assert turns.next_key("light", "next", "alpha", "ann", 0) == 12 * STEP


def test_marks_of_jobs_that_have_ended_are_not_kept() -> None:
    """Also in a queue that nobody serves."""
    turns = turns_of_an_empty_queue()
    for number in range(10 * MOST_LEFT_BEHIND):
        turns.next_key("light", f"j{number}", "alpha", "ann", 0)
        turns.forget(f"j{number}")
    assert len(turns) == 0
    assert len(turns._queues["light"]._marks) <= MOST_LEFT_BEHIND + 1


def test_parked_jobs_under_the_name_of_a_victim_do_not_delay_it(platform: Platform) -> None:
    """Each waits for an approval after one task. The victim's task stood as many steps behind as there were of them."""
    seat = platform.seat()
    for _ in range(30):
        platform.submit(PARKED, namespace="alpha", fairness_key="ann")
    platform.finish(seat)
    for number in range(30):
        platform.submit(SMALL, namespace="alpha", by=f"crowd{number}")
    victim = platform.submit(SMALL, namespace="beta", by="ann")
    seat.work()
    assert victim in [task.job_id for task in platform.claim(3)]


def test_parked_jobs_do_not_delay_their_own_submitter_either(platform: Platform) -> None:
    seat = platform.seat()
    for _ in range(30):
        platform.submit(PARKED, by="ann")
    platform.finish(seat)
    for _ in range(30):
        platform.submit(SMALL, by="crowd")
    mine = platform.submit(SMALL, by="ann")
    seat.work()
    assert mine in [task.job_id for task in platform.claim(3)]


def test_the_inbox_is_shared_by_namespaces_first(platform: Platform) -> None:
    for number in range(100):
        tell(platform.conn, f"alpha-{number}", 5)
    tell(platform.conn, "beta-1", 3)
    waiting = WaitingEntries(namespace_of)
    waiting.read(platform.conn, ME, whole=False)
    assert [entry.job_id for entry in waiting.take(10)].count("beta-1") == 3


def test_starts_are_shared_by_namespaces_first() -> None:
    local = LocalInputs(namespace_of)
    local.give([LocalInput(f"alpha-{number}", Start()) for number in range(1_000)])
    local.give([LocalInput("beta-1", Start())])
    assert "beta-1" in [item.job_id for item in local.take(10)]


def test_the_order_of_a_job_is_kept_when_its_namespace_becomes_known(platform: Platform) -> None:
    known: dict[str, str] = {}
    waiting = WaitingEntries(lambda job_id: known.get(job_id, ""))
    tell(platform.conn, "j", 2)
    waiting.read(platform.conn, ME, whole=False)
    known["j"] = "alpha"
    tell(platform.conn, "j", 2)
    waiting.read(platform.conn, ME, whole=False)
    ids = [entry.inbox_id for _ in range(4) for entry in waiting.take(1)]
    assert ids == sorted(ids)
    assert len(ids) == 4


def tell(conn: Conn, job_id: str, count: int) -> None:
    conn.execute(
        "INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, payload)"
        " SELECT %s, %s, 'task_reported', 'n', '{}' FROM generate_series(1, %s)",
        [ME, job_id, count],
    )
