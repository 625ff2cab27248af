"""Orders of platforms on real PostgreSQL: one transaction, one asset however many ask, revisions without gaps."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from rmhdag.assets.identity import InvalidReferences, asset_id_of
from rmhdag.assets.revisions import AssetConflict, content_hash_of, status_after
from rmhdag.models.ids import blob_id_of
from rmhdag.models.states import JobStatus
from rmhdag.services import commands
from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.services.requests import NoAssetError, OtherRequestError, PlatformMissingError
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.store import poison
from rmhdag.store.asset_states import follow_job_if_asset
from rmhdag.store.crash_points import arm, disarm
from rmhdag.workflow import InvalidInputs
from tests.orchestrator.assets import REFS, asset_of, place_order, raster_workflow, revisions_of, rows
from tests.orchestrator.platform import Platform, open_connection
from tests.orchestrator.test_publishing import blob, collection, item, report


@pytest.fixture
def ready(platform: Platform) -> Platform:
    platform.register(raster_workflow())
    return platform


def add_file(platform: Platform, ordered: Any, sha256: str, role: str = "data") -> None:
    request = ordered.request
    platform.conn.execute(
        "INSERT INTO dag_blob_assets (blob_id, zone, container, path, size_bytes, sha256, role, asset_id, revision,"
        " job_id) VALUES (%s, 'silver', 'cogs', %s, 1, %s, %s, %s, %s, %s)",
        [
            blob_id_of(request.job_id, "silver", "cogs", sha256, role),
            sha256,
            sha256,
            role,
            request.asset_id,
            request.revision,
            request.job_id,
        ],
    )


def test_an_order_makes_request_asset_revision_and_job(ready: Platform) -> None:
    ordered = place_order(ready.conn, input_params={"n": 3}, priority=5)
    request = ordered.request
    assert not ordered.is_repeat
    assert request.asset_id == asset_id_of("ddh", REFS)
    job = rows(ready, "SELECT * FROM dag_jobs WHERE job_id = %s", request.job_id)[0]
    assert (job["asset_id"], job["revision"], job["priority"]) == (request.asset_id, 1, 5)
    assert job["request_id"] == job["correlation_id"] == request.request_id
    asset = asset_of(ready, ordered)
    assert (asset["kind"], asset["platform_refs"]) == ("raster", REFS)
    assert (asset["processing_status"], asset["latest_revision"], asset["current_revision"]) == ("pending", 1, None)
    assert asset["current_job_id"] == request.job_id
    assert [one["status"] for one in revisions_of(ready, ordered)] == ["pending"]


def test_revision_and_asset_follow_their_job(ready: Platform) -> None:
    seat = ready.seat()
    ordered = place_order(ready.conn)
    seat.work()
    assert asset_of(ready, ordered)["processing_status"] == "processing"
    assert [one["status"] for one in revisions_of(ready, ordered)] == ["processing"]
    for sha in ("b" * 64, "a" * 64):
        add_file(ready, ordered, sha)
    add_file(ready, ordered, "c" * 64, role="thumbnail")
    ready.finish(seat)
    asset, revision = asset_of(ready, ordered), revisions_of(ready, ordered)[0]
    files = [("data", "a" * 64), ("data", "b" * 64), ("thumbnail", "c" * 64)]
    assert asset["content_hash"] == revision["content_hash"] == content_hash_of(files)
    assert (asset["processing_status"], asset["current_revision"]) == ("completed", 1)
    assert (revision["status"], revision["outputs"]) == ("completed", {"n": 1})
    assert revision["completed_at"] is not None


def test_a_failed_job_leaves_what_users_see(ready: Platform) -> None:
    seat = ready.seat()
    place_order(ready.conn)
    ready.finish(seat)
    second = place_order(ready.conn)
    seat.work()
    ready.fail(*ready.claim())
    seat.work()
    asset = asset_of(ready, second)
    assert (asset["processing_status"], asset["latest_revision"], asset["current_revision"]) == ("failed", 2, 1)
    failed = revisions_of(ready, second)[1]
    assert failed["status"] == "failed"
    assert "boom" in failed["error_message"]


def test_a_job_that_poisons_its_batches_ends_its_revision(ready: Platform) -> None:
    seat = ready.seat()
    ordered = place_order(ready.conn)
    seat.work()
    job_id = str(ordered.request.job_id)
    epoch = ready.job(job_id)["owner_epoch"]
    assert poison.bury_job(seat.conn, seat.me, job_id, epoch, "default", "engine_error: x")
    assert asset_of(ready, ordered)["processing_status"] == "failed"


def test_an_asset_changes_only_together_with_its_job(ready: Platform) -> None:
    def die() -> None:
        raise psycopg.OperationalError("died")

    seat = ready.seat()
    ordered = place_order(ready.conn)
    arm("settle.before_commit", die)
    try:
        with pytest.raises(psycopg.OperationalError, match="died"):
            seat.work()
    finally:
        disarm()
    assert asset_of(ready, ordered)["processing_status"] == "pending"
    assert ready.job(str(ordered.request.job_id))["status"] == "pending"


@pytest.mark.parametrize("wrong", ["inputs", "refs", "platform", "none", "kind"])
def test_a_refused_order_leaves_nothing_behind(ready: Platform, wrong: str) -> None:
    ready.register(raster_workflow("make_vector", "vector"))
    orders: dict[str, dict[str, Any]] = {
        "inputs": {"input_params": {"n": "many"}},
        "refs": {"platform_refs": {"dataset_id": 38272, "resource_id": "r1"}},
        "platform": {"platform_id": "nobody"},
        "none": {"platform_id": None},
        "kind": {"workflow_id": "make_vector"},
    }
    if wrong == "kind":
        place_order(ready.conn)
    before = [ready.count(f"dag_{name}") for name in ("jobs", "api_requests", "geospatial_assets", "asset_revisions")]
    with pytest.raises((InvalidInputs, InvalidReferences, PlatformMissingError, AssetConflict)):
        place_order(ready.conn, **orders[wrong])
    after = [ready.count(f"dag_{name}") for name in ("jobs", "api_requests", "geospatial_assets", "asset_revisions")]
    assert after == before


def test_a_workflow_that_makes_none_has_no_asset(platform: Platform) -> None:
    platform.register(raster_workflow(produces=None))
    named: list[dict[str, Any]] = [{"platform_id": None, "platform_refs": None}, {"platform_refs": None}]
    for refs in named:
        request = place_order(platform.conn, **refs).request
        assert (request.asset_id, request.revision) == (None, None)
        assert platform.job(str(request.job_id))["status"] == "pending"
    assert platform.count("dag_geospatial_assets") == 0


def test_references_that_would_be_lost_are_refused(platform: Platform) -> None:
    platform.register(raster_workflow(produces=None))
    with pytest.raises(NoAssetError, match=r"'make_raster' makes no asset.*order it without a platform"):
        place_order(platform.conn)
    assert platform.count("dag_jobs") == platform.count("dag_api_requests") == 0


def test_the_same_request_again_is_the_same_answer(ready: Platform) -> None:
    first = place_order(ready.conn, request_id="r-1")
    again = place_order(ready.conn, request_id="r-1", client_id="other")
    assert again.is_repeat
    assert again.request == first.request
    assert ready.count("dag_jobs") == 1
    with pytest.raises(OtherRequestError, match="request id 'r-1' was used for another order"):
        place_order(ready.conn, request_id="r-1", input_params={"n": 2})


def test_an_idempotency_key_stands_for_its_request(ready: Platform) -> None:
    first = place_order(ready.conn, request_id=None, idempotency_key="k")
    again = place_order(ready.conn, request_id=None, idempotency_key="k")
    assert again.is_repeat
    assert again.request == first.request
    with pytest.raises(OtherRequestError, match="idempotency key 'k'"):
        place_order(ready.conn, request_id=None, idempotency_key="k", priority=1)
    with pytest.raises(OtherRequestError, match="was used for request"):
        place_order(ready.conn, request_id="another", idempotency_key="k")


def test_while_it_is_processed_the_same_order_joins_and_another_is_refused(ready: Platform) -> None:
    seat = ready.seat()
    first = place_order(ready.conn, request_id="r-1", input_params={})
    seat.work()
    joined = place_order(ready.conn, request_id="r-2", input_params={"n": 1}).request
    assert (joined.joined, joined.job_id, joined.revision) == (True, first.request.job_id, 1)
    with pytest.raises(AssetConflict, match="request r-1 is processing revision 1"):
        place_order(ready.conn, request_id="r-3", input_params={"n": 2})
    ready.finish(seat)
    assert place_order(ready.conn, request_id="r-3", input_params={"n": 2}).request.revision == 2


def test_whoever_joined_is_told_of_the_end_too(ready: Platform) -> None:
    seat = ready.seat()
    url = "https://example.org/told"
    place_order(ready.conn, request_id="quiet")
    for request_id in ("r-1", "r-2"):
        assert place_order(ready.conn, request_id=request_id, callback_url=f"{url}?who={request_id}").request.joined
    ready.finish(seat)
    told = rows(ready, "SELECT request_id, url, body FROM dag_callbacks ORDER BY request_id")
    assert [(one["request_id"], one["url"]) for one in told] == [
        ("r-1", f"{url}?who=r-1"),
        ("r-2", f"{url}?who=r-2"),
    ]
    assert told[1]["body"]["request_id"] == "r-2"
    assert told[1]["body"]["status"] == "completed"


def test_superseding_cancels_the_job_and_makes_the_next_revision(ready: Platform) -> None:
    seat = ready.seat()
    first = place_order(ready.conn)
    seat.work()
    second = place_order(ready.conn, input_params={"n": 2}, supersede=True)
    assert second.request.revision == 2
    ready.finish(seat)
    assert ready.job(str(first.request.job_id))["status"] == "cancelled"
    assert [one["status"] for one in revisions_of(ready, second)] == ["superseded", "completed"]
    asset = asset_of(ready, second)
    assert (asset["processing_status"], asset["current_revision"]) == ("completed", 2)


def test_a_job_that_completes_although_superseded_counts_until_the_next_one_does(ready: Platform) -> None:
    seat = ready.seat()
    place_order(ready.conn)
    seat.work()
    tasks = ready.claim()
    ready.succeed(*tasks)  # in the inbox before the cancel
    second = place_order(ready.conn, input_params={"n": 2}, supersede=True)
    seat.advance.run_once(whole_inbox=True)
    asset = asset_of(ready, second)
    assert (asset["processing_status"], asset["latest_revision"], asset["current_revision"]) == ("pending", 2, 1)
    ready.finish(seat)
    assert asset_of(ready, second)["current_revision"] == 2


def test_a_job_that_is_being_cancelled_is_not_joined(ready: Platform) -> None:
    seat = ready.seat()
    first = place_order(ready.conn)
    seat.work()
    ready.claim()
    commands.cancel_job(ready.conn, str(first.request.job_id), issued_by="ann", answer_seconds=0)
    seat.work()
    assert ready.job(str(first.request.job_id))["ending"] == "cancelled"
    assert place_order(ready.conn).request.revision == 2


def test_a_rerun_makes_the_next_revision_and_requests_follow(ready: Platform) -> None:
    seat = ready.seat()
    first = place_order(ready.conn, request_id="r-1")
    add_file(ready, first, "a" * 64)
    ready.finish(seat)
    job_id = str(first.request.job_id)
    planned = plan_rerun_of(ready.conn, job_id, everything=True)
    made = rerun_job(ready.conn, planned, issued_by="bob", idempotency_key="again")
    assert rerun_job(ready.conn, planned, issued_by="bob", idempotency_key="again") == (made.job_id, True)
    with pytest.raises(AssetConflict, match="is being processed; the job cannot be rerun now"):
        rerun_job(ready.conn, planned, issued_by="bob")
    request = rows(ready, "SELECT * FROM dag_api_requests")[0]
    assert (request["job_id"], request["revision"]) == (made.job_id, 2)
    add_file(ready, place_order(ready.conn), "a" * 64)  # joins, so it is a file of revision 2
    ready.finish(seat)
    one, two = revisions_of(ready, first)
    assert one["content_hash"] == two["content_hash"] is not None
    assert (two["status"], two["created_by"], two["job_id"]) == ("completed", "bob", made.job_id)
    assert asset_of(ready, first)["current_revision"] == 2


def test_twenty_at_once_make_one_asset_and_revisions_without_gaps(ready: Platform) -> None:
    at_once, conns = threading.Barrier(20, timeout=60), [open_connection(ready.dsn) for _ in range(20)]

    def call(number: int) -> int | str:
        conn = conns[number]
        try:
            at_once.wait()
            # Half of them ask for the same, half each for something else.
            params = {"n": 1 if number % 2 else number + 100}
            return place_order(conn, input_params=params, supersede=number % 4 < 2).request.revision or 0
        except AssetConflict as refused:
            return refused.code
        finally:
            conn.close()

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(call, range(20)))
    assert ready.count("dag_geospatial_assets") == 1
    made = [row["revision"] for row in rows(ready, "SELECT revision FROM dag_asset_revisions ORDER BY revision")]
    assert made == list(range(1, len(made) + 1))
    assert set(made) == {answer for answer in answers if isinstance(answer, int)}
    assert set(answers) - set(made) <= {"asset_processing"}
    asset = rows(ready, "SELECT latest_revision FROM dag_geospatial_assets")[0]
    assert asset["latest_revision"] == made[-1]
    assert ready.count("dag_jobs") == len(made)


def test_twenty_at_once_with_one_request_id_are_one_order(ready: Platform) -> None:
    at_once, conns = threading.Barrier(20, timeout=60), [open_connection(ready.dsn) for _ in range(20)]

    def call(number: int) -> tuple[str, bool]:
        conn = conns[number]
        try:
            at_once.wait()
            # Every other one repeats it for another asset, so that not even the asset's lock orders them.
            refs = REFS if number % 2 else {**REFS, "resource_id": "r2"}
            ordered = place_order(conn, request_id="same", platform_refs=refs)
            return str(ordered.request.job_id), ordered.is_repeat
        except OtherRequestError:
            return "other", True
        finally:
            conn.close()

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(call, range(20)))
    assert sum(not is_repeat for _, is_repeat in answers) == 1
    assert len({job_id for job_id, _ in answers}) == 2
    assert [ready.count(f"dag_{name}") for name in ("jobs", "api_requests", "asset_revisions")] == [1, 1, 1]


def test_what_a_jobs_state_means_is_the_same_in_sql(ready: Platform) -> None:
    """`status_after` says it for people and the page of the manual; the statement does it."""
    ordered = place_order(ready.conn)
    request = ordered.request
    for status in JobStatus:
        for is_latest in (True, False):
            with ready.conn.transaction(force_rollback=True):
                ended = "NULL" if status in ("pending", "running") else "now()"
                ready.conn.execute(
                    f"UPDATE dag_jobs SET status = '{status}', started_at = now(), completed_at = {ended}".encode()
                )
                if not is_latest:
                    ready.conn.execute("UPDATE dag_geospatial_assets SET latest_revision = 2")
                follow_job_if_asset(ready.conn, str(request.job_id))
                assert revisions_of(ready, ordered)[0]["status"] == status_after(status, is_latest=is_latest)


def test_the_catalogue_shows_what_the_current_revision_published(ready: Platform) -> None:
    seat = ready.seat()

    def place(x: float) -> dict[str, Any]:
        return {"type": "Point", "coordinates": [x, 0.0]}

    def shown() -> list[tuple[Any, ...]]:
        query = "SELECT body->>'made', revision FROM dag_catalogue_entries WHERE item_id <> '' AND NOT removed"
        return ready.conn.execute(query).fetchall()

    for number in (1, 2):
        made = place_order(ready.conn, input_params={"n": number})
        seat.work()
        (task,) = ready.claim()
        report(ready, task, (collection(), item(made=str(number), geometry=place(number)), blob(sha=str(number) * 64)))
        seat.work()
        assert shown() == [(str(number), number)]
        assert revisions_of(ready, made)[-1]["footprint"] == place(number)
    asset_id = str(made.request.asset_id)
    assert roll_back(ready.conn, "default", asset_id, 1, issued_by="ann") == 3
    assert shown() == [("1", 3)]
    one, two, three = revisions_of(ready, made)
    assert three["content_hash"] == one["content_hash"] != two["content_hash"]
    assert (three["footprint"], three["catalogue"]) == (place(1), one["catalogue"])
    delete_asset(ready.conn, "default", asset_id, issued_by="ann")
    assert shown() == []
