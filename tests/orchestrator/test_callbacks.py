"""Callbacks from the end of a job to its receiver: written once, tried by the schedule, signed, never lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
from standardwebhooks import Webhook

from rmhdag.models.jobs import CommandKind
from rmhdag.orchestrator.duties import callbacks as duty
from rmhdag.orchestrator.duties.callbacks import Delivery
from rmhdag.services.callbacks.destinations import CallbackRefused, Rules
from rmhdag.services.callbacks.settings import SCHEDULE_SECONDS, CallbackSettings
from rmhdag.services.callbacks.signing import Vault, new_secret
from rmhdag.store import callback_endpoints, callbacks, poison
from rmhdag.store.commands import Command, issue_command
from rmhdag.store.identity import new_id
from tests.engine.definitions import task, workflow
from tests.orchestrator.callbacks.sink import Sink, answer, hang, reset
from tests.orchestrator.platform import Platform
from tests.orchestrator.pruning import prune
from tests.store.waiting import wait_until

SOON = CallbackSettings(schedule_seconds=(0.0, 0.0, 0.0), total_seconds=10)
PUBLIC = "https://example.org/hook?request=7"


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


def rules(sink: Sink) -> Rules:
    return Rules(frozenset({sink.host}))


@contextmanager
def delivering(sink: Sink, settings: CallbackSettings = SOON) -> Iterator[Delivery]:
    made = Delivery(replace(settings, rules=rules(sink)), threading.Event())
    yield made
    made.stop(None)


def ended_job(platform: Platform, url: str, allowed: Rules | None = None, **more: Any) -> str:
    job_id = platform.submit(workflow(a=task()), callback_url=url, callback_rules=allowed or Rules(), **more)
    platform.finish(platform.seat())
    return job_id


def work(platform: Platform, delivery: Delivery, until: str) -> None:
    """Deliver until a query is true."""

    def observe() -> bool:
        if not duty.run_once(platform.conn, delivery):
            delivery.woken.wait(0.05)
        row = platform.conn.execute(until.encode()).fetchone()
        return row == (True,)

    wait_until(observe)


ALL_SETTLED = "SELECT count(*) > 0 AND bool_and(status <> 'pending') FROM dag_callbacks"


def rows(platform: Platform) -> list[dict[str, Any]]:
    cursor = platform.conn.execute("SELECT to_jsonb(c) FROM dag_callbacks c ORDER BY callback_id")
    return [row[0] for row in cursor]


def only(platform: Platform) -> dict[str, Any]:
    [row] = rows(platform)
    return row


def cancel(platform: Platform, job_id: str) -> None:
    command = Command(
        command_id=new_id(),
        namespace="default",
        job_id=job_id,
        kind=CommandKind.CANCEL,
        issued_by="ann",
        body={"reason": "no"},
    )
    assert issue_command(platform.conn, command) is not None


# -- written with the end ------------------------------------------------------------------------------------------


def test_the_end_of_a_job_is_written_down_with_it(platform: Platform) -> None:
    job_id = ended_job(platform, PUBLIC)
    row = only(platform)
    assert (row["job_id"], row["status"], row["attempts"]) == (job_id, "pending", 0)
    assert (row["url"], row["endpoint_url"], row["host"]) == (PUBLIC, "https://example.org/hook", "https://example.org")
    assert row["callback_id"] != job_id
    body = row["body"]
    assert body.pop("occurred_at").endswith("Z")
    assert body == {
        "job_id": job_id,
        "workflow_id": "under_test",
        "status": "completed",
        "result_url": f"/api/v1/jobs/{job_id}",
    }


def test_a_job_that_wants_none_writes_none(platform: Platform) -> None:
    platform.submit(workflow(a=task()))
    platform.finish(platform.seat())
    assert rows(platform) == []


def test_a_failure_tells_that_and_nothing_else(platform: Platform) -> None:
    platform.submit(workflow(a=task()), callback_url=PUBLIC)
    seat = platform.seat()
    seat.work()
    platform.fail(*platform.claim())
    seat.work()
    body = only(platform)["body"]
    assert body["status"] == "failed"
    assert body.keys() == {"job_id", "workflow_id", "status", "result_url", "occurred_at"}
    assert "boom" not in str(body)


def test_a_job_cancelled_before_it_began_tells_so(platform: Platform) -> None:
    job_id = platform.submit(workflow(a=task()), callback_url=PUBLIC)
    cancel(platform, job_id)
    platform.seat().work()
    assert platform.job(job_id)["status"] == "cancelled"
    assert only(platform)["body"]["status"] == "cancelled"


def test_a_job_that_is_buried_tells_so(platform: Platform) -> None:
    """Poison and the day-long silence end jobs in this way."""
    job_id = platform.submit(workflow(a=task()), callback_url=PUBLIC)
    seat = platform.seat()
    seat.work()
    epoch = platform.job(job_id)["owner_epoch"]
    assert poison.bury_job(seat.conn, seat.me, job_id, epoch, "default", "engine_error: secret insides")
    body = only(platform)["body"]
    assert body["status"] == "failed"
    assert "insides" not in str(body)


def test_who_submitted_by_request_hears_of_the_request_only(platform: Platform) -> None:
    job_id = platform.submit(workflow(a=task()), callback_url=PUBLIC)
    platform.conn.execute("UPDATE dag_jobs SET request_id = 'r-1' WHERE job_id = %s", [job_id])
    cancel(platform, job_id)
    platform.seat().work()
    row = only(platform)
    assert row["body"].pop("occurred_at")
    assert row["body"] == {
        "request_id": "r-1",
        "workflow_id": "under_test",
        "status": "failed",
        "result_url": "/platform/results/r-1",
    }
    assert job_id not in str(row["body"]) + row["callback_id"]


def test_a_url_that_may_not_be_is_refused_with_the_submission(platform: Platform) -> None:
    with pytest.raises(CallbackRefused):
        platform.submit(workflow(a=task()), callback_url="http://127.1/")
    assert platform.count("dag_jobs") == 0


def test_callbacks_go_with_their_jobs(platform: Platform) -> None:
    job_id = ended_job(platform, PUBLIC)
    platform.conn.execute(
        "UPDATE dag_jobs SET completed_at = completed_at - interval '90 days' WHERE job_id = %s", [job_id]
    )
    prune(platform)
    assert len(rows(platform)) == 1, "it has not been sent yet"
    platform.conn.execute("UPDATE dag_callbacks SET status = 'dead', settled_at = clock_timestamp()")
    prune(platform)
    assert rows(platform) == []
    assert platform.count("dag_jobs") == 0


# -- delivered -----------------------------------------------------------------------------------------------------


def test_it_arrives_signed(platform: Platform, sink: Sink) -> None:
    secret = new_secret()
    url = sink.url("/hook?request=7")
    sealed = Vault().seal(secret, "default", sink.url())
    callback_endpoints.create_endpoint(platform.conn, "default", sink.url(), sealed, "ann")
    job_id = ended_job(platform, url, rules(sink))
    with delivering(sink, replace(SOON, public_url="https://dag.example")) as delivery:
        work(platform, delivery, ALL_SETTLED)
    row = only(platform)
    assert (row["status"], row["attempts"], row["last_status"], row["last_error"]) == ("delivered", 1, 204, None)
    [got] = sink.received
    assert (got.target, got.message_id) == ("/hook?request=7", row["callback_id"])
    told = Webhook(secret).verify(got.body, got.headers)
    assert told["result_url"] == f"https://dag.example/api/v1/jobs/{job_id}"
    assert told["status"] == "completed"


@pytest.mark.parametrize("seconds_off", [-600, 600])
def test_its_signature_is_valid_although_the_clock_here_is_wrong(
    platform: Platform, sink: Sink, monkeypatch: pytest.MonkeyPatch, seconds_off: int
) -> None:
    """Receivers compare its time with theirs; the database's is everybody's."""
    secret, clock = new_secret(), time.time
    sealed = Vault().seal(secret, "default", sink.url())
    callback_endpoints.create_endpoint(platform.conn, "default", sink.url(), sealed, "ann")
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as delivery, monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda: clock() + seconds_off)
        work(platform, delivery, ALL_SETTLED)
    Webhook(secret).verify(sink.received[0].body, sink.received[0].headers)


def test_an_endpoint_that_nobody_set_up_gets_a_secret_of_its_own(platform: Platform, sink: Sink) -> None:
    ended_job(platform, sink.url("/a"), rules(sink))
    ended_job(platform, sink.url("/b?x=1"), rules(sink))
    with delivering(sink, replace(SOON, secret_key="correct horse battery")) as delivery:
        work(platform, delivery, ALL_SETTLED)
        vault = delivery.vault
    found = callback_endpoints.list_endpoints(platform.conn, "default", after=None, limit=10)
    assert {one.url for one in found} == {sink.url("/a"), sink.url("/b")}
    opened = {one.url: vault.unseal(one.secret, "default", one.url) for one in found}
    assert len(set(opened.values())) == 2
    for got in sink.received:
        Webhook(opened[sink.url(got.target.partition("?")[0])]).verify(got.body, got.headers)


def test_after_a_rotation_both_secrets_sign_until_the_older_expires(platform: Platform, sink: Sink) -> None:
    old, new = new_secret(), new_secret()
    seal = Vault().seal
    endpoint_id = callback_endpoints.create_endpoint(
        platform.conn, "default", sink.url(), seal(old, "default", sink.url()), "ann"
    )
    assert endpoint_id is not None
    callback_endpoints.rotate_secret(platform.conn, "default", endpoint_id, seal(new, "default", sink.url()), 3600)
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as delivery:
        work(platform, delivery, ALL_SETTLED)
        for secret in (old, new):
            Webhook(secret).verify(sink.received[0].body, sink.received[0].headers)
        platform.conn.execute("UPDATE dag_callback_endpoints SET previous_expires_at = clock_timestamp()")
        ended_job(platform, sink.url(), rules(sink))
        work(platform, delivery, ALL_SETTLED)
    assert len(sink.received[1].headers["webhook-signature"].split(" ")) == 1
    Webhook(new).verify(sink.received[1].body, sink.received[1].headers)


def test_a_secret_that_cannot_be_read_sends_nothing(platform: Platform, sink: Sink) -> None:
    sealed = Vault("the key of another time").seal(new_secret(), "default", sink.url())
    callback_endpoints.create_endpoint(platform.conn, "default", sink.url(), sealed, "ann")
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as delivery:
        work(platform, delivery, "SELECT attempts > 0 FROM dag_callbacks")
    assert "encrypted" in only(platform)["last_error"]
    assert sink.connections == 0


def test_a_row_that_makes_no_sense_holds_up_nobody(platform: Platform, sink: Sink) -> None:
    ended_job(platform, sink.url(), rules(sink))
    platform.conn.execute("UPDATE dag_callbacks SET body = '{}'")
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as delivery:
        work(platform, delivery, ALL_SETTLED)
    bad, good = rows(platform)
    assert (bad["status"], bad["last_error"]) == ("dead", "it could not be prepared for sending")
    assert good["status"] == "delivered"


def test_it_is_tried_again_with_the_same_id_until_it_arrives(platform: Platform, sink: Sink) -> None:
    sink.script["/hook"] = [answer(500), reset, answer(302, "Location: /other"), answer(200)]
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as delivery:
        work(platform, delivery, ALL_SETTLED)
    row = only(platform)
    assert (row["status"], row["attempts"]) == ("delivered", 4)
    assert [got.target for got in sink.received] == ["/hook"] * 4
    assert {got.message_id for got in sink.received} == {row["callback_id"]}
    assert len({got.body for got in sink.received}) == 1


def test_after_the_last_try_it_is_dead_and_the_job_says_so(platform: Platform, sink: Sink) -> None:
    sink.script["/hook"] = [answer(503)]
    job_id = ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as delivery:
        work(platform, delivery, ALL_SETTLED)
    row = only(platform)
    assert (row["status"], row["attempts"], row["last_status"]) == ("dead", 4, 503)
    assert len(sink.received) == 4
    assert platform.events(job_id)[-1] == "callback_dead"
    query = "SELECT seq, event_data FROM dag_job_events WHERE job_id = %s ORDER BY seq DESC LIMIT 1"
    seq, data = platform.conn.execute(query, [job_id]).fetchone() or (0, {})
    assert (seq, data) == (len(platform.events(job_id)), {"callback_id": row["callback_id"], "attempts": 4})


def tried(platform: Platform, sink: Sink, settings: CallbackSettings) -> float:
    """Seconds until the next try, after one."""
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink, settings) as delivery:
        work(platform, delivery, "SELECT attempts = 1 FROM dag_callbacks")
    query = "SELECT extract(epoch FROM next_attempt_at - last_attempt_at)::float8 FROM dag_callbacks"
    row = platform.conn.execute(query).fetchone()
    assert row is not None
    return float(row[0])


def test_the_schedule_is_that_of_standard_webhooks(platform: Platform, sink: Sink) -> None:
    hours = 3600
    assert [*SCHEDULE_SECONDS[:3], *(pause / hours for pause in SCHEDULE_SECONDS[3:])] == [
        5, 300, 1800, 2, 5, 10, 14, 20, 24,
    ]  # fmt: skip
    sink.script["/hook"] = [answer(500)]
    assert 4.4 <= tried(platform, sink, CallbackSettings()) <= 5.6


@pytest.mark.parametrize(
    ("asked", "least", "most"), [("120", 119.9, 121), ("1", 4.4, 5.6), ("99999999", 86_399.9, 86_401)]
)
def test_patience_is_granted_within_bounds(
    platform: Platform, sink: Sink, asked: str, least: float, most: float
) -> None:
    sink.script["/hook"] = [answer(429, f"Retry-After: {asked}")]
    assert least <= tried(platform, sink, CallbackSettings()) <= most


def test_gone_disables_the_endpoint_and_what_waits_for_it(platform: Platform, sink: Sink) -> None:
    sink.script["/gone"] = [answer(410)]
    ended_job(platform, sink.url("/gone?n=1"), rules(sink))
    with delivering(sink) as delivery:
        work(platform, delivery, ALL_SETTLED)
        ended_job(platform, sink.url("/gone?n=2"), rules(sink))
        ended_job(platform, sink.url("/here"), rules(sink))
        work(platform, delivery, ALL_SETTLED)
    assert [row["status"] for row in rows(platform)] == ["disabled", "disabled", "delivered"]
    assert [got.target for got in sink.received] == ["/gone?n=1", "/here"]
    endpoint = callback_endpoints.find_by_url(platform.conn, "default", sink.url("/gone"))
    assert endpoint is not None
    assert endpoint.disabled_reason == "the endpoint answered 410 Gone"

    sink.script["/gone"] = [answer(200)]
    assert callback_endpoints.enable_endpoint(platform.conn, "default", endpoint.url, "ann", redeliver=True) == 2
    with delivering(sink) as delivery:
        work(platform, delivery, ALL_SETTLED)
    assert {row["status"] for row in rows(platform)} == {"delivered"}


def test_a_redelivery_keeps_the_id_and_begins_the_schedule_anew(platform: Platform, sink: Sink) -> None:
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as delivery:
        work(platform, delivery, ALL_SETTLED)
        callback_id = only(platform)["callback_id"]
        assert not callbacks.redeliver(platform.conn, "other", callback_id, "ann")
        assert callbacks.redeliver(platform.conn, "default", callback_id, "ann")
        work(platform, delivery, ALL_SETTLED)
    assert [got.message_id for got in sink.received] == [callback_id] * 2
    assert (only(platform)["redelivered_by"], only(platform)["attempts"]) == ("ann", 1)


def test_an_address_inside_is_refused_at_delivery_too(platform: Platform, sink: Sink) -> None:
    ended_job(platform, sink.url(), rules(sink))
    delivery = Delivery(SOON, threading.Event())
    work(platform, delivery, ALL_SETTLED)
    delivery.stop(None)
    row = only(platform)
    assert (row["status"], row["last_error"]) == ("dead", "the host has no public address")
    assert sink.connections == 0


# -- shared, and taken over ----------------------------------------------------------------------------------------


def test_one_that_hangs_holds_up_nobody_else(platform: Platform, sink: Sink) -> None:
    few = replace(SOON, concurrency=3, per_host=2)
    with Sink() as slow:
        slow.script["/hook"] = [hang]
        both = Rules(frozenset({sink.host, slow.host}))
        for _ in range(5):
            ended_job(platform, slow.url(), both)
        for _ in range(5):
            ended_job(platform, sink.url(), both)
        delivery = Delivery(replace(few, rules=both), threading.Event())
        work(platform, delivery, "SELECT count(*) = 5 FROM dag_callbacks WHERE status = 'delivered'")
        assert slow.connections <= 2
        delivery.stop(platform.conn)


def test_a_claim_is_one_s_own(platform: Platform, sink: Sink) -> None:
    for _ in range(6):
        ended_job(platform, sink.url(), rules(sink))
    take = {"limit": 4, "per_host": 8, "per_namespace": 8, "lease_seconds": 60.0}
    first = callbacks.claim_callbacks(platform.conn, {}, **take)  # type: ignore[arg-type]
    second = callbacks.claim_callbacks(platform.conn, {}, **take)  # type: ignore[arg-type]
    assert (len(first), len(second)) == (4, 2)
    assert not {one.callback_id for one in first} & {one.callback_id for one in second}
    callbacks.release_claims(platform.conn, first[:1])
    [again] = callbacks.claim_callbacks(platform.conn, {}, **take)  # type: ignore[arg-type]
    assert (again.callback_id, again.lease_epoch) == (first[0].callback_id, 2)


def test_whoever_dies_with_a_claim_loses_nothing(platform: Platform, sink: Sink) -> None:
    sink.script["/hook"] = [hang, answer(200)]
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as dead, delivering(sink) as heir:
        duty.run_once(platform.conn, dead)
        wait_until(lambda: len(sink.received) == 1)
        assert duty.run_once(platform.conn, heir) == 0
        # The lease runs out.
        platform.conn.execute("UPDATE dag_callbacks SET next_attempt_at = clock_timestamp()")
        work(platform, heir, ALL_SETTLED)
    assert [got.message_id for got in sink.received] == [only(platform)["callback_id"]] * 2


def test_a_late_answer_of_a_lapsed_claim_changes_nothing(platform: Platform, sink: Sink) -> None:
    sink.script["/hook"] = [answer(500)]
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as late:
        duty.run_once(platform.conn, late)
        assert late.woken.wait(30)
        assert callbacks.redeliver(platform.conn, "default", only(platform)["callback_id"], "ann")
        before = only(platform)
        late.settings = replace(late.settings, concurrency=0)
        assert duty.run_once(platform.conn, late) == 1
        assert only(platform) == before


def test_whoever_leaves_gives_its_claims_back(platform: Platform, sink: Sink) -> None:
    sink.script["/hook"] = [hang, answer(200)]
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as leaving, delivering(sink) as heir:
        duty.run_once(platform.conn, leaving)
        wait_until(lambda: len(sink.received) == 1)
        leaving.stop(platform.conn)
        work(platform, heir, ALL_SETTLED)
    assert only(platform)["status"] == "delivered"


def test_what_is_sent_is_json_in_one_spelling(platform: Platform, sink: Sink) -> None:
    ended_job(platform, sink.url(), rules(sink))
    with delivering(sink) as delivery:
        work(platform, delivery, ALL_SETTLED)
    [got] = sink.received
    assert orjson.dumps(orjson.loads(got.body)) == got.body
