"""A payload goes when nobody uses it any more, and not while somebody is about to."""

from __future__ import annotations

import orjson
import pytest

from rmhdag.models.references import Reference
from rmhdag.store import crash_points, payloads, unused_payloads
from rmhdag.store.unused_payloads import PayloadPlace
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform, open_connection
from tests.orchestrator.pruning import finish_passes, prune, retention_of

AGE = "UPDATE dag_payloads SET created_at = created_at - interval '2 days'"
OLD = "UPDATE dag_jobs SET completed_at = completed_at - interval '100 days'"


def store(platform: Platform, text: bytes, holder: str | None) -> Reference:
    return payloads.write_json(platform.conn, "default", holder, text)


def test_it_goes_after_the_last_job_that_used_it(platform: Platform) -> None:
    jobs = [platform.submit(workflow(only=task())) for _ in range(2)]
    platform.finish(platform.seat())
    for job_id in jobs:
        store(platform, b'"shared"', job_id)
    store(platform, b'"of one"', jobs[0])
    store(platform, b'"of an asset"', "asset:a/1")
    platform.conn.execute(AGE)
    platform.conn.execute(OLD + " WHERE job_id = %s", [jobs[0]])
    assert prune(platform)["dag_payloads"] == 1
    platform.conn.execute(OLD)
    assert prune(platform)["dag_payloads"] == 1
    assert platform.conn.execute("SELECT holder FROM dag_payload_uses").fetchall() == [("asset:a/1",)]
    assert platform.count("dag_payloads") == 1


def test_all_chunks_go_and_then_what_it_refers_to(platform: Platform) -> None:
    inner = store(platform, b'"' + b"x" * 3_000_000 + b'"', "job")
    store(platform, b"[" + reference_text(inner) + b"]", "job")
    assert platform.count("dag_payloads") == 4
    platform.conn.execute("DELETE FROM dag_payload_uses WHERE holder = 'job'")
    platform.conn.execute(AGE)
    assert prune(platform)["dag_payloads"] == 4
    assert platform.count("dag_payload_uses") == 0


def reference_text(reference: Reference) -> bytes:
    return orjson.dumps(reference.as_json())


def test_a_young_one_stays_until_its_task_is_reported(platform: Platform) -> None:
    store(platform, b'"young"', None)
    assert prune(platform) == {}
    platform.conn.execute(AGE)
    store(platform, b'"young"', None)  # again: its time begins anew
    assert prune(platform) == {}


def test_a_use_that_comes_between_reading_and_locking_keeps_it(platform: Platform) -> None:
    digest = store(platform, b'"wanted"', None).sha256
    platform.conn.execute(AGE)
    given = {"namespaces": ["default"], "digests": [digest]}
    with open_connection(platform.dsn) as pruner, pruner.transaction():
        place = {"days": 1, "limit": 10, **PayloadPlace()._asdict()}
        assert pruner.execute(unused_payloads.SQL["next_payloads"], place).fetchall()[0][3] is True
        store(platform, b'"wanted"', "job")
        assert pruner.execute(unused_payloads.SQL["lock_payloads"], given).fetchall() == [("default", digest)]
        deleted = pruner.execute(unused_payloads.SQL["delete_payloads_if_unused"], {"days": 1, **given})
        assert deleted.rowcount == 0


def test_whoever_is_about_to_use_it_keeps_it(platform: Platform) -> None:
    digest = store(platform, b'"wanted"', None).sha256
    platform.conn.execute(AGE)
    with open_connection(platform.dsn) as other, other.transaction():
        payloads.keep_payload(other, "default", digest)
        assert prune(platform) == {}
    assert prune(platform) == {}
    assert platform.count("dag_payloads") == 1


def test_every_page_is_looked_at_and_few_bytes_go_at_a_time(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        store(platform, f'"{number:0100}"'.encode(), "job" if number % 5 == 0 else None)
    platform.conn.execute(AGE)
    monkeypatch.setattr(unused_payloads, "MOST_BYTES", 300)
    place, has_more, bites = PayloadPlace(), True, []
    while has_more:
        (rows, has_more, _), place = unused_payloads.delete_unused_payloads(platform.conn, 1, place, 10)
        bites.append(rows["dag_payloads"])
    assert sum(bites) == 20
    assert max(bites) == 2
    assert platform.count("dag_payloads") == 5


def test_uploads_that_were_never_finished_go(platform: Platform) -> None:
    for index in range(1, 20):
        payloads.write_chunk(platform.conn, "default", "task", "0" * 64, index, b"x")
    platform.conn.execute(AGE)
    payloads.write_chunk(platform.conn, "default", "task", "1" * 64, 1, b"x")
    assert prune(platform) == {"dag_payloads": 19}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("site", ["delete_unused_payloads", "delete_old_uploads"])
def test_the_next_one_continues_where_one_was_killed(platform: Platform, site: str, moment: str) -> None:
    class Killed(Exception):
        pass

    def die() -> None:
        raise Killed

    store(platform, b'"unused"', None)
    payloads.write_chunk(platform.conn, "default", "task", "0" * 64, 1, b"x")
    platform.conn.execute(AGE)
    working, _ = retention_of()
    crash_points.arm(f"{site}.{moment}_commit", die)
    with pytest.raises(Killed):
        finish_passes(platform.conn, working)
    crash_points.disarm()
    prune(platform)
    assert platform.count("dag_payloads") == 0
