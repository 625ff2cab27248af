"""The cache of compiled definitions: least recently used ones go, threads may share it, and all of a process do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from rmhdag.engine.plan import Plan
from rmhdag.services.plans import Plans, plan_of
from rmhdag.workflow import definition_hash
from rmhdag.workflow.definition import TaskNode, TaskSpec, WorkflowDefinition
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform, open_connection


def registered(platform: Platform, count: int) -> list[WorkflowDefinition]:
    definitions = [workflow(only=task()).model_copy(update={"workflow_id": f"w{number}"}) for number in range(count)]
    for definition in definitions:
        platform.register(definition)
    return definitions


def key_of(definition: WorkflowDefinition) -> tuple[str, str, int, str]:
    return "default", definition.workflow_id, definition.version, definition_hash(definition)


def ask(cache: Plans, conn: object, definition: WorkflowDefinition) -> Plan:
    return cache.plan_of(conn, *key_of(definition), lambda _: None)  # type: ignore[arg-type]


def test_the_least_recently_used_plan_is_forgotten(platform: Platform) -> None:
    cache = Plans(most_kept=2)
    often, seldom, third = registered(platform, 3)
    first = ask(cache, platform.conn, often)
    forgotten = ask(cache, platform.conn, seldom)
    assert ask(cache, platform.conn, often) is first
    ask(cache, platform.conn, third)
    assert ask(cache, platform.conn, often) is first
    assert ask(cache, platform.conn, seldom) is not forgotten


def test_threads_share_the_cache(platform: Platform) -> None:
    """One forgets what another is about to touch: with a plain dictionary that is a KeyError sooner or later."""
    cache = Plans(most_kept=3)
    definitions = registered(platform, 6)

    def ask_often(offset: int) -> int:
        with open_connection(platform.dsn) as conn:
            asked = (definitions[(offset + number * (offset + 1)) % 6] for number in range(400))
            return sum(ask(cache, conn, one).definition.workflow_id == one.workflow_id for one in asked)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask_often, range(4))) == [400] * 4


def test_a_handler_that_changes_its_queue_gets_another_plan(platform: Platform) -> None:
    cache = Plans()
    definition = workflow(only=TaskNode(task=TaskSpec(handler="moves")), other=task())
    platform.register(definition)

    def queue_with(queue: str) -> str:
        plan = cache.plan_of(platform.conn, *key_of(definition), {"moves": queue}.get)
        assert plan.by_id["only"].task is not None
        return plan.by_id["only"].task.queue

    assert [queue_with("old"), queue_with("new"), queue_with("old")] == ["old", "new", "old"]


def test_orchestrators_and_readers_have_the_same_plans(platform: Platform) -> None:
    seat = platform.seat()
    definition = workflow(only=task())
    job_id = platform.submit(definition)
    seat.work()
    job = seat.advance.owned.get(job_id)
    assert job is not None
    assert job.run.plan is plan_of(platform.conn, *key_of(definition), lambda _: None)
