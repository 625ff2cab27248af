"""Jobs come into memory in compact form and within a budget, however many large ones are taken over at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmhdag.engine.loading import ChildUnderWay, LoadedChildren
from rmhdag.engine.slots import FanOutState
from rmhdag.lab.simulation.reads import compact_children
from rmhdag.models.states import NODE_TERMINAL, NodeStatus
from rmhdag.orchestrator import owned_jobs
from rmhdag.orchestrator.owned_jobs import OwnedJobs
from rmhdag.store import jobs
from rmhdag.store.batch_rows import PieceOfFanOut
from rmhdag.workflow.definition import WorkflowDefinition
from tests.conftest import databases
from tests.engine.definitions import AT_ONCE, fan, task, workflow
from tests.engine.driver import START_OF_TIME, Row
from tests.orchestrator.platform import Platform, Seat, open_connection

SMALL, LARGE = 10, 25


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of 25 children are large ones, and two of 10 are all that fits into a turn."""
    monkeypatch.setattr(owned_jobs, "CHILDREN_PER_TURN", 20)
    monkeypatch.setattr(owned_jobs, "CHILDREN_PER_STATEMENT", 10)


def single() -> WorkflowDefinition:
    return workflow(only=task()).model_copy(update={"workflow_id": "single"})


def begun(platform: Platform, *sizes: int, retry: Any = AT_ONCE) -> tuple[Seat, list[str]]:
    """Fan-outs that are expanded and dispatched, and an orchestrator that owns them and has none of them in memory."""
    seat = platform.seat()
    job_ids = [platform.submit(fan(retry=retry), {"items": list(range(size))}) for size in sizes]
    seat.work()
    seat.advance.owned.clear()
    return seat, job_ids


def widen(platform: Platform, job_id: str, total: int, status: str = "ready", attempt: int = 1) -> None:
    """Turn a fan-out of one child into a large one, faster than by expanding it."""
    platform.conn.execute(
        "UPDATE dag_node_states SET output = jsonb_set(output, '{total}', to_jsonb(%s::int))"
        " WHERE job_id = %s AND node_id = 'split'",
        [total, job_id],
    )
    platform.conn.execute(
        "INSERT INTO dag_node_states (job_id, node_id, parent_node_id, fan_out_index, status, attempt, completed_at,"
        " next_attempt_at) SELECT %s, 'split__' || n, 'split', n, %s::node_status, %s,"
        " CASE WHEN %s IN ('completed', 'failed') THEN now() END, CASE WHEN %s > 1 THEN now() + interval '1 day' END"
        " FROM generate_series(1, %s) AS n",
        [job_id, status, attempt, status, attempt, total - 1],
    )


def fan_out_of(seat: Seat, job_id: str) -> FanOutState:
    job = seat.advance.owned.get(job_id)
    assert job is not None
    slot = job.run.find("split")
    assert slot is not None
    assert slot.fan is not None
    return slot.fan


@contextmanager
def measured() -> Iterator[list[int]]:
    """Bytes allocated inside and still held, and the most at any moment."""
    found: list[int] = []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield found
        held, peak = tracemalloc.get_traced_memory()
        found += [held - before, peak - before]
    finally:
        tracemalloc.stop()


# -- the budget ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_budget")
def test_one_large_job_is_loaded_at_a_time_and_small_ones_beside_it(platform: Platform) -> None:
    seat, (large, other, small, more, too_many, third) = begun(platform, LARGE, LARGE, SMALL, SMALL, SMALL, LARGE)
    owned = seat.advance.owned
    asked = [large, other, small, more, too_many, third]
    assert owned.load(seat.conn, asked) == ([], {other, too_many, third})
    assert sorted(owned.cached_ids()) == sorted([large, small, more])
    assert owned.load(seat.conn, asked) == ([], {third})
    assert owned.load(seat.conn, asked) == ([], set())
    assert len(owned.cached_ids()) == 6


@pytest.mark.usefixtures("small_budget")
def test_a_small_job_goes_on_while_large_ones_are_taken_over(platform: Platform) -> None:
    seat, job_ids = begun(platform, LARGE, LARGE, LARGE)
    small = platform.submit(single())
    (claimed,) = jobs.claim_unowned_jobs(seat.conn, seat.me, 10)
    seat.advance.take_over([*job_ids, claimed.job_id])
    seat.advance.run_once()
    assert platform.nodes(small) == {"only": "dispatched"}
    assert sorted(seat.advance.owned.cached_ids()) == sorted([job_ids[0], small])
    seat.advance.run_once()
    assert job_ids[1] in seat.advance.owned.cached_ids()
    seat.advance.run_once()
    assert job_ids[2] in seat.advance.owned.cached_ids()


@pytest.mark.usefixtures("small_budget")
def test_what_postponed_jobs_were_told_is_not_lost(platform: Platform) -> None:
    seat, job_ids = begun(platform, LARGE, LARGE, LARGE)
    while claimed := platform.claim():
        platform.succeed(*claimed, output={"n": 1})
    platform.finish(seat)
    assert [platform.job(job_id)["status"] for job_id in job_ids] == ["completed"] * 3


@pytest.mark.usefixtures("small_budget")
def test_inputs_of_a_postponed_job_keep_their_order(platform: Platform) -> None:
    """Those that were taken go back before those that were not."""
    seat, (first, second) = begun(platform, LARGE, LARGE)
    claimed = platform.claim()
    for _ in range(4):  # so that a turn takes only a part of what each job has been told
        platform.conn.execute(
            "INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)"
            " SELECT %s, job_id, 'task_started', node_id, task_id, lease_epoch,"
            " jsonb_build_object('attempt', attempt, 'worker_id', worker_id) FROM dag_queue_messages"
            " WHERE task_id = ANY(%s) ORDER BY job_id",
            [seat.me, [one.task_id for one in claimed]],
        )
    waiting = seat.advance._waiting
    seat.advance.run_once()
    assert seat.advance.owned.cached_ids() == [first]
    waiting.read(seat.conn, seat.me, whole=False)
    numbers = [entry.inbox_id for entry in waiting._line.of(second)]
    assert len(numbers) == 4 * LARGE
    assert numbers == sorted(numbers)


def test_large_values_of_many_jobs_are_not_read_at_once(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_jobs, "STORED_BYTES_PER_TURN", 8_000)
    seat = platform.seat()
    # Digests, because what is stored is compressed.
    texts = ["".join(sha256(f"{n} {m}".encode()).hexdigest() for m in range(80)) for n in range(4)]
    definition = workflow(first=task("last"), last=task(params={"text": "{{ nodes.first.output.text }}"}))
    by_input = [platform.submit(single(), {"items": [text]}) for text in texts]
    assert len(seat.advance.owned.load(seat.conn, by_input).postponed) == 0, "they have no owner yet"
    seat.work()
    seat.advance.owned.clear()
    assert len(seat.advance.owned.load(seat.conn, by_input).postponed) == 2
    assert seat.advance.owned.load(seat.conn, by_input).postponed == set()
    platform.finish(seat)

    by_output = [platform.submit(definition) for _ in texts]
    seat.work()
    for one, text in zip(platform.claim(), texts, strict=True):
        platform.succeed(one, output={"text": text})
    seat.work()
    seat.advance.owned.clear()
    assert len(seat.advance.owned.load(seat.conn, by_output).postponed) == 2
    assert seat.advance.owned.load(seat.conn, by_output).postponed == set()
    job = seat.advance.owned.get(by_output[0])
    assert job is not None
    assert job.run.outputs["first", "output", "text"] in texts


# -- what is loaded ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "attempt"), [("ready", 1), ("completed", 1), ("failed", 2)])
def test_a_fan_out_of_100_000_needs_little_memory_to_be_loaded(platform: Platform, status: str, attempt: int) -> None:
    seat, (job_id,) = begun(platform, 1)
    widen(platform, job_id, 100_000, status, attempt if status == "failed" else 1)
    with measured() as memory:
        assert seat.advance.owned.load(seat.conn, [job_id]) == ([], set())
    held, peak = memory
    assert held < 500_000
    assert peak < 5_000_000
    fan_out = fan_out_of(seat, job_id)
    assert fan_out.expanded == fan_out.total == 100_000
    assert fan_out.counts[list(NodeStatus).index(NodeStatus(status))] >= 99_999
    assert fan_out.attempts[99_999] == (2 if status == "failed" else 0)


@pytest.mark.usefixtures("small_budget")
def test_a_gap_between_children_fails_its_job_alone(platform: Platform) -> None:
    seat, (broken, whole) = begun(platform, SMALL, SMALL)
    platform.conn.execute("DELETE FROM dag_node_states WHERE job_id = %s AND node_id = 'split__3'", [broken])
    loaded = seat.advance.owned.load(seat.conn, [broken, whole])
    assert [one.job_id for one in loaded.unloadable] == [broken]
    assert seat.advance.owned.cached_ids() == [whole]


@pytest.mark.usefixtures("small_budget")
def test_an_expansion_that_is_not_finished_goes_on(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan(), {"items": list(range(600))})
    (claimed,) = jobs.claim_unowned_jobs(seat.conn, seat.me, 1)
    seat.advance.take_over([claimed.job_id])
    seat.advance.run_once()
    seat.advance.owned.clear()
    assert seat.advance.owned.load(seat.conn, [job_id]) == ([], set())
    fan_out = fan_out_of(seat, job_id)
    assert (fan_out.expanded, fan_out.total) == (250, 600)
    platform.finish(seat, {"n": 1})
    assert platform.job(job_id)["status"] == "completed"


ROW_STATUSES = [status for status in NodeStatus if status is not NodeStatus.PENDING]
TIMES = st.one_of(st.none(), st.datetimes(min_value=START_OF_TIME.replace(tzinfo=None)))


@st.composite
def children(draw: st.DrawFn) -> list[Row]:
    count = draw(st.integers(0, 12))
    rows = []
    for index in range(count):
        status = draw(st.sampled_from(ROW_STATUSES))
        times = [None if at is None else at.replace(tzinfo=START_OF_TIME.tzinfo) for at in (draw(TIMES), draw(TIMES))]
        attempt, losses = draw(st.integers(1, 250)), draw(st.integers(0, 2))
        rows.append(Row(f"split__{index}", status, attempt, 0, "t", losses, times[0], times[1], "split", index))
    return rows


@pytest.fixture(scope="session")
def rows_database(postgres: Any, migrated_template: str) -> Iterator[psycopg.Connection[Any]]:
    with databases(postgres).another(migrated_template) as dsn, open_connection(dsn) as conn:
        yield conn


@settings(max_examples=max(60, settings().max_examples // 2))
@given(rows=children(), zone=st.sampled_from(["UTC", "Asia/Kathmandu", "America/St_Johns"]), page=st.integers(1, 13))
def test_the_store_makes_of_rows_what_the_simulator_makes_of_them(
    rows_database: psycopg.Connection[Any], rows: list[Row], zone: str, page: int
) -> None:
    conn = rows_database
    with conn.transaction(force_rollback=True):
        conn.execute("SELECT set_config('TimeZone', %s, true)", [zone])
        with conn.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO dag_node_states (job_id, node_id, status, attempt, task_id, lease_losses, next_attempt_at,"
                " deadline_at, parent_node_id, fan_out_index, completed_at)"
                " VALUES ('j', %s, %s, %s, 't', %s, %s, %s, 'split', %s, %s)",
                [
                    (
                        row.node_id,
                        row.status,
                        row.attempt,
                        row.lease_losses,
                        row.next_attempt_at,
                        row.deadline_at,
                        row.fan_out_index,
                        START_OF_TIME if row.status in NODE_TERMINAL else None,
                    )
                    for row in rows
                ],
            )
        loaded = LoadedChildren()
        for start in range(0, 13, page):
            (piece,) = jobs.load_children(conn, [PieceOfFanOut("j", "split", start, start + page)])
            assert not piece.has_gap
            loaded.statuses += piece.statuses
            loaded.attempts += piece.attempts
            loaded.under_way += [ChildUnderWay(*child) for child in piece.under_way]
    assert loaded == compact_children(rows).get("split", LoadedChildren())


# -- the cache -----------------------------------------------------------------------------------------------------


def geojson(count: int) -> list[Any]:
    return [
        {"type": "Feature", "id": f"tile-{n}", "geometry": {"type": "Point", "coordinates": [n / 7, n / 11]}}
        for n in range(count)
    ]


INPUTS: dict[str, Any] = {
    "few": [1],
    "texts": [f"https://example.org/scenes/{n}.tif" for n in range(2_000)],
    "numbers": [n * 1.5 for n in range(5_000)],
    "small numbers": [n % 7 for n in range(5_000)],
    "features": geojson(1_000),
    "names": [{f"scene-{n}": n for n in range(3_000)}],
    "nested": [[[float(n), float(n + 1)] for n in range(500)] for _ in range(5)],
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_size_of_a_job_is_near_what_its_inputs_hold(platform: Platform, name: str) -> None:
    seat = platform.seat()
    job_id = platform.submit(single(), {"items": INPUTS[name]})
    seat.work()
    assert_size_is_honest(seat, job_id)


@pytest.mark.parametrize(("total", "status", "attempt"), [(100_000, "completed", 1), (20_000, "ready", 2)])
def test_the_size_of_a_job_is_near_what_its_children_hold(
    platform: Platform, total: int, status: str, attempt: int
) -> None:
    """Those that wait for their next attempt have a slot each."""
    seat, (job_id,) = begun(platform, 1)
    widen(platform, job_id, total, status, attempt)
    assert_size_is_honest(seat, job_id)


def test_the_size_of_a_job_is_near_what_its_outputs_hold(platform: Platform) -> None:
    seat = platform.seat()
    nodes: dict[str, Any] = {f"n{n}": task(f"n{n + 1}") for n in range(3)}
    nodes["n3"] = task(params={f"x{n}": f"{{{{ nodes.n{n}.output.features }}}}" for n in range(3)})
    job_id = platform.submit(workflow(**nodes))
    for _ in range(3):
        seat.work()
        platform.succeed(*platform.claim(), output={"features": geojson(300)})
    seat.work()
    assert_size_is_honest(seat, job_id)


def assert_size_is_honest(seat: Seat, job_id: str) -> None:
    owned = seat.advance.owned
    owned.clear()
    owned.load(seat.conn, [job_id])  # plan, prepared statements and the like are not the job's
    owned.clear()
    with measured() as memory:
        owned.load(seat.conn, [job_id])
    job = owned.get(job_id)
    assert job is not None
    assert memory[0] / 2 <= job.size_bytes() <= memory[0] * 2, (job.size_bytes(), memory[0])


def test_the_bound_of_the_cache_holds_when_all_jobs_of_a_turn_are_large(platform: Platform) -> None:
    seat, job_ids = begun(platform, *[50] * 6)
    owned = OwnedJobs(seat.me, {}, 50_000)
    owned.load(seat.conn, job_ids)
    owned.trim(job_ids)
    kept = [owned.get(job_id) for job_id in owned.cached_ids()]
    assert 0 < sum(job.size_bytes() for job in kept if job is not None) <= 50_000
    assert owned.cached_ids() == job_ids[-len(kept) :], "the longest untouched go first"
    owned = OwnedJobs(seat.me, {}, 1)
    owned.load(seat.conn, job_ids)
    owned.trim(job_ids)
    assert owned.cached_ids() == job_ids[-1:], "the last one stays, or it would be loaded for each of its inputs"


def test_a_job_that_was_evicted_in_its_own_turn_goes_on(platform: Platform) -> None:
    seat = platform.seat()
    seat.advance.owned = OwnedJobs(seat.me, {}, 1)
    job_ids = [platform.submit(fan(), {"items": list(range(300))}) for _ in range(2)]
    platform.finish(seat, {"n": 1})
    assert [platform.job(job_id)["status"] for job_id in job_ids] == ["completed"] * 2
