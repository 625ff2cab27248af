"""Revisions with many large items: they complete, in statements of bounded size."""

from __future__ import annotations

from pathlib import Path
from random import Random

import orjson
import psycopg
import pytest

from rmhdag.models.limits import RECORDS_BYTES
from rmhdag.models.records import encode_records
from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.store import payloads
from rmhdag.store.bites import BITE_BYTES, in_bites
from rmhdag.workflow.definition import FanInNode, FanOutNode, WorkflowDefinition
from tests.orchestrator.assets import asset_of, place_order, raster_workflow
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import blob, item, report, rows, task

ITEM_LETTERS = 20_000
SUPPRESS_TIMESTAMPS = 1


def tiles(count: int) -> WorkflowDefinition:
    nodes = {
        "tiles": FanOutNode(source=tuple(range(count)), task=task().task, next=("join",)),
        "join": FanInNode(source_node="tiles"),
    }
    return raster_workflow().model_copy(update={"workflow_id": "tiles", "nodes": nodes})


def publish_tiles(platform: Platform, seat: Seat, results: int, result_bytes: int) -> int:
    """How many items each result has."""
    platform.register(tiles(results))
    count = result_bytes // (ITEM_LETTERS + 100)
    seat.work()
    while claimed := platform.claim(1):
        [one] = claimed
        # What compresses well would need less room than the items of real files.
        text = [Random(f"{one.node_id} {n}").randbytes(ITEM_LETTERS // 2).hex() for n in range(count)]
        records = encode_records(
            (blob(f"{one.node_id}.tif"), *(item(f"{one.node_id}-{n}", text=words) for n, words in enumerate(text)))
        )
        assert 0.8 * result_bytes < len(records) <= RECORDS_BYTES
        stored = payloads.write_json(platform.conn, "default", one.job_id, records)
        report(platform, one, orjson.dumps(stored.as_json()))
        seat.work()
    return count


def count_shown(platform: Platform) -> list[tuple[int, int]]:
    query = "SELECT revision, count(*) FROM dag_catalogue_entries WHERE NOT removed GROUP BY 1 ORDER BY 1"
    return [(row[0], row[1]) for row in rows(platform, query)]


def largest_message(trace: Path) -> int:
    """Of what the client has sent, by libpq's own account."""
    lines = (line.split("\t", 3) for line in trace.read_text(errors="replace").split("\n"))
    return max(int(line[1]) for line in lines if line[0] == "F")


def test_statements_are_bounded_however_much_a_revision_publishes(platform: Platform, tmp_path: Path) -> None:
    seat = platform.seat()
    platform.register(tiles(3))
    ordered = place_order(platform.conn, "tiles")
    trace = tmp_path / "trace"
    with trace.open("w") as file:
        seat.conn.pgconn.trace(file.fileno())
        seat.conn.pgconn.set_trace_flags(psycopg.pq.Trace(SUPPRESS_TIMESTAMPS))
        try:
            count = publish_tiles(platform, seat, 3, 4_000_000)
        finally:
            seat.conn.pgconn.untrace()
    assert BITE_BYTES / 2 < largest_message(trace) <= BITE_BYTES * 1.05
    assert asset_of(platform, ordered)["current_revision"] == 1
    assert count_shown(platform) == [(1, 3 * count)]
    bodies = "SELECT bool_and(length(body->>'text') = %s AND body->>'id' = item_id) FROM dag_catalogue_entries"
    assert platform.conn.execute(bodies, [ITEM_LETTERS]).fetchone() == (True,)


@pytest.mark.large
@pytest.mark.timeout(900)
def test_a_revision_with_as_many_items_as_results_may_have_completes(platform: Platform) -> None:
    """In one jsonb they were more than PostgreSQL takes, and the job stopped all others of its orchestrator."""
    seat = platform.seat()
    platform.register(tiles(18))
    ordered = place_order(platform.conn, "tiles")
    count = publish_tiles(platform, seat, 18, RECORDS_BYTES - 100_000)
    assert asset_of(platform, ordered)["current_revision"] == 1
    assert count_shown(platform) == [(1, 18 * count)]
    asset_id = ordered.request.asset_id or ""
    place_order(platform.conn, "tiles", input_params={"n": 2})
    platform.finish(seat)
    assert count_shown(platform) == []
    assert roll_back(platform.conn, "default", asset_id, 1, issued_by="ann") == 3
    assert count_shown(platform) == [(3, 18 * count)]
    delete_asset(platform.conn, "default", asset_id, issued_by="ann")
    assert count_shown(platform) == []


def test_rows_are_sent_in_bites() -> None:
    sizes = [10, 40, 30, 200, 5, 5]
    bites = list(in_bites([["x" * size] for size in sizes], 100))
    assert [[len(row[0]) for row in bite] for bite, _ in bites] == [[10, 40, 30], [200], [5, 5]]
    assert [orjson.loads(text) for _, text in bites] == [bite for bite, _ in bites]
    assert list(in_bites([])) == []
