"""An error that nobody expected, at every statement of the threads beside the loop: the work is done all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.observability import supervision
from rmhdag.orchestrator import life_threads, retention
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.unpublishing import unpublish
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.store.connection import Conn
from rmhdag.store.unpublishing import Unpublish
from tests.engine.definitions import fan, task, workflow
from tests.lifecycle.reviewing import approve, key_of, make_revision, reviewed_workflow
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.callbacks.sink import Sink
from tests.orchestrator.outside.calling import put
from tests.orchestrator.platform import Platform
from tests.orchestrator.relays import POLL_SECONDS, Leases, do_undisturbed, fail_at_every_statement
from tests.orchestrator.test_published_revisions import make
from tests.orchestrator.test_publishing import item, rows

FAULTS = pytest.mark.parametrize("fault", [RuntimeError("once"), None], ids=["ours", "line"])


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(life_threads, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


def allowing(sink: Sink) -> CallbackSettings:
    return CallbackSettings(
        rules=Rules(frozenset({sink.host})), allow_plain=True, schedule_seconds=(0.0,) * 5, total_seconds=10
    )


def test_of_parts_that_share_a_thread_each_error_is_told(platform: Platform, capfd: pytest.CaptureFixture[str]) -> None:
    turns: list[str] = []

    def part(name: str, error: Exception | None = None) -> Callable[[Conn], int]:
        def take_turn(conn: Conn) -> int:
            turns.append(name)
            if error is not None:
                raise error
            return 1

        return take_turn

    parts = (part("tables", ValueError("no table")), part("catalogue", ValueError("no item")), part("files"))
    with pytest.raises(ValueError, match="no table"):
        life_threads.run_all(parts, platform.conn)
    assert turns == ["tables", "catalogue", "files"]
    assert "no item" in "".join(capfd.readouterr())


@FAULTS
def test_fan_ins_are_answered(platform: Platform, fault: Exception | None) -> None:
    """An error of ours is taken for one of the outputs and fails this fan-in alone; a broken line fails nothing."""
    seat = platform.seat()
    jobs: list[str] = []

    def prepare() -> None:
        jobs.append(platform.submit(fan("collect"), {"items": [1, 2]}))
        seat.work()
        platform.succeed(*platform.claim(), output={"x": 1})
        while seat.advance.run_once(whole_inbox=True):
            pass

    def is_done() -> bool:
        seat.advance.run_once(whole_inbox=True)
        return platform.nodes(jobs[-1])["join"] in ("completed", "failed")

    settings = OrchestratorSettings(poll_seconds=POLL_SECONDS)
    assert fail_at_every_statement(platform, seat, "reduce_fan_ins", settings, fault, prepare, is_done) > 0
    *faulty, undisturbed = [platform.nodes(job_id)["join"] for job_id in jobs]
    assert undisturbed == "completed"
    assert set(faulty) == {"completed" if fault is None else "failed"}


@FAULTS
def test_the_catalogue_and_the_files_follow(platform: Platform, fault: Exception | None, tmp_path: Path) -> None:
    """A revision's items are shown, then it is unpublished: the items go, and after them the file."""
    storage_settings = StorageSettings(str(tmp_path / "blobs"))
    storage = open_storage(storage_settings, "default")
    platform.register(raster_workflow())
    seat, leases = platform.seat(), Leases(platform, "dag_catalogue_entries", "dag_file_deletions")
    numbers = count(1)

    def prepare() -> None:
        number = next(numbers)
        blob = storage.write(BlobAddress(Zone.SILVER, "cogs", f"{number}.tif"), b"pixels").record("data")
        ordered = make(platform, seat, (blob, item(f"i{number}", n=number)))
        asset_id = str(ordered.request.asset_id)
        unpublish(platform.conn, Unpublish("default", asset_id, None, "ann", True, "wrong area"))

    def is_done() -> bool:
        leases.end()
        left = """SELECT 1 FROM dag_catalogue_entries WHERE status <> 'published'
            UNION ALL SELECT 1 FROM dag_file_deletions WHERE status <> 'deleted'"""
        return rows(platform, left) == []

    settings = OrchestratorSettings(poll_seconds=POLL_SECONDS, storage=storage_settings)
    statements = fail_at_every_statement(platform, seat, "update_catalogue", settings, fault, prepare, is_done)
    assert statements > 5
    assert list(tmp_path.rglob("*.tif")) == []
    catalogue = StaticCatalogue(storage)
    made = next(numbers) - 1
    assert all(catalogue.find_item("c", f"i{number}") is None for number in range(1, made + 1))


@FAULTS
def test_services_are_notified(platform: Platform, fault: Exception | None, sink: Sink) -> None:
    callbacks = allowing(sink)
    put(platform, callbacks, "atlas", "webhook", url=sink.url())
    platform.register(reviewed_workflow())
    seat, leases = platform.seat(), Leases(platform, "dag_service_calls")
    numbers = count(1)

    def prepare() -> None:
        approve(platform, key_of(make_revision(platform, seat, next(numbers))))

    def is_done() -> bool:
        leases.end()
        return rows(platform, "SELECT 1 FROM dag_service_calls WHERE status = 'pending'") == []

    settings = OrchestratorSettings(poll_seconds=POLL_SECONDS, callbacks=callbacks)
    assert fail_at_every_statement(platform, seat, "notify_services", settings, fault, prepare, is_done) > 2
    calls = rows(platform, "SELECT call_id::text FROM dag_service_calls WHERE status = 'delivered'")
    assert len(calls) == next(numbers) - 1
    assert len({received.message_id for received in sink.received}) == len(calls)


@FAULTS
def test_callbacks_are_delivered(platform: Platform, fault: Exception | None, sink: Sink) -> None:
    callbacks = allowing(sink)
    seat, leases = platform.seat(), Leases(platform, "dag_callbacks")
    jobs: list[str] = []

    def prepare() -> None:
        jobs.append(platform.submit(workflow(a=task()), callback_url=sink.url(), callback_rules=callbacks.rules))
        platform.finish(seat)

    def is_done() -> bool:
        leases.end()
        return rows(platform, "SELECT 1 FROM dag_callbacks WHERE status = 'pending'") == []

    settings = OrchestratorSettings(poll_seconds=POLL_SECONDS, callbacks=callbacks)
    assert fail_at_every_statement(platform, seat, "deliver_callbacks", settings, fault, prepare, is_done) > 2
    delivered = rows(platform, "SELECT callback_id::text FROM dag_callbacks WHERE status = 'delivered'")
    assert {received.message_id for received in sink.received} == {row[0] for row in delivered}
    assert len(delivered) == len(jobs)


@FAULTS
def test_old_jobs_are_deleted(platform: Platform, fault: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAUSE_PARTS", 0)
    seat = platform.seat()
    settings = OrchestratorSettings(
        poll_seconds=POLL_SECONDS, retention_days=1, pruning_seconds=0.05, rollup_seconds=0.05
    )

    def prepare() -> None:
        platform.submit(workflow(only=task()))
        platform.finish(seat)
        platform.conn.execute("UPDATE dag_jobs SET completed_at = completed_at - 3 * interval '1 day'")

    def is_done() -> bool:
        return platform.count("dag_jobs") == 0 and platform.count("dag_pruned_jobs") == 0

    statements = fail_at_every_statement(platform, seat, "keep_tables_small", settings, fault, prepare, is_done)
    assert statements > 10
    assert platform.count("dag_node_states") == 0


def test_tables_that_cannot_be_shown_hold_up_neither_items_nor_files(platform: Platform, tmp_path: Path) -> None:
    storage_settings = StorageSettings(str(tmp_path / "blobs"))
    blob = open_storage(storage_settings, "default").write(BlobAddress(Zone.SILVER, "cogs", "a.tif"), b"pixels")
    platform.register(raster_workflow())
    seat = platform.seat()
    ordered = make(platform, seat, (blob.record("data"), item("i", n=1)))
    unpublish(platform.conn, Unpublish("default", str(ordered.request.asset_id), None, "ann", True, "wrong area"))
    platform.conn.execute("ALTER TABLE dag_table_places RENAME TO dag_table_places_elsewhere")
    settings = OrchestratorSettings(poll_seconds=POLL_SECONDS, storage=storage_settings)
    do_undisturbed(platform, seat, "update_catalogue", settings, lambda: file_is_deleted(platform))
    assert list(tmp_path.rglob("*.tif")) == []


def file_is_deleted(platform: Platform) -> bool:
    return rows(platform, "SELECT status::text FROM dag_file_deletions") == [("deleted",)]
