"""External services hear once of what is approved or withdrawn, whoever dies."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from rmhdag.models.records import ExternalPromotionRecord
from rmhdag.models.refusals import Refusal
from rmhdag.models.service_calls import ServiceKind
from rmhdag.orchestrator.duties.service_calls import Announcer, run_once
from rmhdag.services.callbacks.destinations import CallbackRefused, Rules
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.callbacks.signing import sign
from rmhdag.services.dead_letters import requeue
from rmhdag.services.outside import ServiceWish, announce_approval, delete_service, put_service, retry_call
from rmhdag.services.reviews import revoke
from rmhdag.store import crash_points
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.dead_letters import dead_letters
from rmhdag.store.external_services import find_service
from rmhdag.store.service_calls import NOT_CONFIGURED, NOT_PUBLIC
from tests.orchestrator.callbacks.sink import Sink, answer, hang, hang_up
from tests.orchestrator.outside.calling import (
    FACTORY,
    Killed,
    approve,
    calls,
    die,
    promoted,
    put,
    withdraw,
    work,
)
from tests.orchestrator.outside.factory_server import FactoryServer
from tests.orchestrator.platform import Platform, Seat, open_connection
from tests.orchestrator.test_publishing import one_task, report, rows
from tests.store.waiting import is_held, wait_until

SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="


# -- what is written with an approval --------------------------------------------------------------------------------


def test_without_a_service_an_approval_says_so_and_writes_nothing(platform: Platform, key: RevisionKey) -> None:
    assert approve(platform, key) == [NOT_CONFIGURED]
    assert calls(platform) == []


def test_only_public_content_is_announced(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url())
    assert approve(platform, key, "restricted") == [NOT_PUBLIC]
    assert calls(platform) == []
    assert approve(platform, key) == approve(platform, key), "the second time changes nothing"
    assert calls(platform) == [("approval", "pending", 0)]


def test_a_disabled_service_and_another_namespace_hear_nothing(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url(), enabled=False)
    wish = ServiceWish("other", ServiceKind.WEBHOOK, sink.url(), {}, None, True)
    rules = Rules(frozenset({sink.host}))
    put_service(platform.conn, "north", wish, rules, settings.vault(), by="ann")
    assert approve(platform, key) == [NOT_CONFIGURED]
    assert calls(platform) == []


def test_an_approval_that_is_rolled_back_announces_nothing(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url())
    with platform.conn.transaction(force_rollback=True):
        announce_approval(platform.conn, key, "public")
    assert calls(platform) == []


# -- messages ------------------------------------------------------------------------------------------------------


def test_a_message_is_signed_and_names_no_file(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url("/in?k=1"), secret=SECRET)
    approve(platform, key)
    work(platform, announcer)
    [got] = sink.received
    body = json.loads(got.body)
    assert got.target == "/in?k=1"
    assert body.pop("occurred_at")
    assert body == {
        "type": "revision.approved",
        "asset_id": key.asset_id,
        "revision": 1,
        "platform_id": "ddh",
        "platform_refs": {"dataset_id": "0038272", "resource_id": "r1"},
        "version_label": None,
        "kind": "raster",
        "content_hash": body["content_hash"],
        "clearance": "public",
        "stac": {"collection_id": "c", "item_id": "i"},
    }
    stamp = int(got.headers["webhook-timestamp"])
    assert got.headers["webhook-signature"] == sign([SECRET], got.message_id, stamp, got.body)
    assert calls(platform) == [("approval", "delivered", 1)]
    assert promoted(platform) == [], "a message copies nothing"


def test_a_generated_secret_is_shown_once_and_stays(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    made = put(platform, settings, "portal", "webhook", url=sink.url()).new_secret
    assert made is not None
    assert put(platform, settings, "portal", "webhook", url=sink.url("/b")).new_secret is None
    approve(platform, key)
    work(platform, announcer)
    [got] = sink.received
    stamp = int(got.headers["webhook-timestamp"])
    assert got.headers["webhook-signature"] == sign([made], got.message_id, stamp, got.body)


def test_a_message_is_tried_again_and_then_left_to_a_person(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    sink.script["/hook"] = [answer(500), hang_up, answer(302, "Location: /x"), answer(200)]
    put(platform, settings, "portal", "webhook", url=sink.url())
    approve(platform, key)
    work(platform, announcer)
    assert calls(platform) == [("approval", "dead", 3)]
    assert rows(platform, "SELECT failures FROM dag_external_services") == [(3,)]
    [letter] = dead_letters(platform.conn, "default")
    assert letter.reason == "service_call"
    requeue(platform.conn, "default", letter, issued_by="ann")
    work(platform, announcer)
    assert calls(platform) == [("approval", "delivered", 1)]
    assert rows(platform, "SELECT failures FROM dag_external_services") == [(0,)]
    assert len({got.message_id for got in sink.received}) == 1, "every try has the same id"


def test_a_dead_call_is_retried_by_name_and_its_letter_settled(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    sink.script["/hook"] = [answer(500), answer(500), answer(500), answer(200)]
    put(platform, settings, "portal", "webhook", url=sink.url())
    approve(platform, key)
    service = find_service(platform.conn, "default", "portal")
    assert service is not None
    [(call_id,)] = rows(platform, "SELECT call_id FROM dag_service_calls")
    with pytest.raises(Refusal, match="is pending"):
        retry_call(platform.conn, "default", service, call_id, by="ann")
    work(platform, announcer)
    retry_call(platform.conn, "default", service, call_id, by="ann")
    assert dead_letters(platform.conn, "default") == []
    work(platform, announcer)
    assert calls(platform) == [("approval", "delivered", 1)]


@pytest.mark.parametrize("point", ["claim_calls.before_commit", "claim_calls.after_commit"])
def test_whoever_dies_with_a_claim_is_followed_by_another(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer, point: str
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url())
    approve(platform, key)
    crash_points.arm(point, die)
    with pytest.raises(Killed):
        run_once(platform.conn, announcer)
    work(platform, Announcer(settings))
    assert (calls(platform), len(sink.received)) == ([("approval", "delivered", 1)], 1)


def test_one_service_keeps_no_other_waiting(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    sink.script["/down"] = [answer(500)]
    put(platform, settings, "down", "ddh", url=sink.url("/down"))
    put(platform, settings, "up", "webhook", url=sink.url("/up"))
    approve(platform, key)
    run_once(platform.conn, announcer)
    assert sorted(status for _, status, _ in calls(platform)) == ["delivered", "pending"]


def test_an_orchestrator_that_leaves_does_not_wait_for_a_service(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink
) -> None:
    sink.script["/hook"] = [hang, answer(200)]
    put(platform, settings, "portal", "webhook", url=sink.url())
    approve(platform, key)
    leaving = Announcer(replace(settings, total_seconds=60))

    def stop_when_it_hangs() -> None:
        wait_until(lambda: sink.received or None, 30)
        leaving.over.set()

    stopper = threading.Thread(target=stop_when_it_hangs)
    stopper.start()
    assert run_once(platform.conn, leaving) == 1
    stopper.join()
    assert calls(platform) == [("approval", "pending", 0)]
    assert run_once(platform.conn, Announcer(settings)) == 1, "it is due at once"
    assert calls(platform) == [("approval", "delivered", 1)]


def test_who_was_told_is_told_of_the_withdrawal_too(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url())
    approve(platform, key)
    work(platform, announcer)
    for _ in range(2):
        withdraw(platform, key)
    work(platform, announcer)
    assert [json.loads(got.body)["type"] for got in sink.received] == ["revision.approved", "revision.withdrawn"]


def test_who_was_not_told_yet_hears_nothing(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url())
    approve(platform, key)
    [notice] = withdraw(platform, key)
    assert "had not been notified" in notice
    work(platform, announcer)
    assert (calls(platform), sink.received) == ([("approval", "cancelled", 0)], [])


# -- setting up ----------------------------------------------------------------------------------------------------


def test_a_service_is_checked_before_it_is_stored(
    platform: Platform, settings: CallbackSettings, factory: FactoryServer
) -> None:
    with pytest.raises(CallbackRefused, match="no public address"):
        put(platform, settings, "in", "webhook", url="http://127.0.0.1:1234/")
    with pytest.raises(Refusal, match="has a URL"):
        put(platform, settings, "in", "webhook")
    with pytest.raises(Refusal, match="do not fit") as refused:
        put(platform, settings, "adf", "adf", url=factory.url, settings={"factory": "../x", "other": 1})
    assert {place.pointer for place in refused.value.places} >= {"/settings/factory", "/settings/other"}
    given = {**FACTORY, "auth": "client_credentials", "client_id": "me", "token_url": "http://127.0.0.1:1/token"}
    with pytest.raises(CallbackRefused) as inside:
        put(platform, settings, "adf", "adf", url=factory.url, settings=given)
    assert inside.value.places[0].pointer == "/settings/token_url"
    with pytest.raises(Refusal, match="whsec_"):
        put(platform, settings, "in", "webhook", url=f"{factory.url}/x", secret="short")
    assert platform.count("dag_external_services") == 0


def test_a_service_keeps_its_kind_and_goes_with_its_calls(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url())
    with pytest.raises(Refusal, match="is of kind webhook"):
        put(platform, settings, "portal", "ddh", url=sink.url())
    approve(platform, key)
    assert delete_service(platform.conn, "default", "portal", by="ann") == 1
    assert calls(platform) == []
    query = "SELECT action, before->>'url', after->>'secret_changed' FROM dag_audit WHERE actor = 'ann' ORDER BY seq"
    assert rows(platform, query) == [("service.put", None, "true"), ("service.delete", sink.url(), None)]
    text = str(rows(platform, "SELECT before, after FROM dag_audit"))
    assert "whsec_" not in text


def test_secrets_are_sealed_at_rest_and_bound_to_their_service(
    platform: Platform, key: RevisionKey, sink: Sink, factory: FactoryServer
) -> None:
    rules = Rules(frozenset({sink.host, factory.host}))
    sealing = CallbackSettings(rules=rules, schedule_seconds=(), total_seconds=5, secret_key="a long passphrase")
    for name in ("one", "two"):
        put(platform, sealing, name, "webhook", url=sink.url(f"/{name}"))
    stored = [row[0] for row in rows(platform, "SELECT secret FROM dag_external_services")]
    assert all(secret.startswith("scrypt:") for secret in stored)
    platform.conn.execute("UPDATE dag_external_services SET secret = %s", [stored[0]])
    approve(platform, key)
    work(platform, Announcer(sealing))
    assert sorted(status for _, status, _ in calls(platform)) == ["dead", "delivered"]


# -- by a workflow -------------------------------------------------------------------------------------------------


def run_record(platform: Platform, seat: Seat, record: ExternalPromotionRecord) -> tuple[str, str]:
    job_id = platform.submit(one_task(), by="bob")
    seat.work()
    report(platform, platform.claim()[0], (record,))
    seat.work()
    job = platform.job(job_id)
    return str(job["status"]), str(job["error_message"])


def test_a_node_promotes_what_is_served_and_public(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    put(platform, settings, "portal", "webhook", url=sink.url())
    put(platform, settings, "second", "webhook", url=sink.url("/second"))
    seat = platform.seat()
    record = ExternalPromotionRecord(asset_id=key.asset_id, service="portal")
    assert run_record(platform, seat, record)[0] == "completed"
    assert rows(platform, "SELECT requested_by, revision FROM dag_service_calls") == [("bob", 1)]
    work(platform, announcer)
    assert [got.target for got in sink.received] == ["/hook"]
    status, error = run_record(platform, seat, ExternalPromotionRecord(asset_id=key.asset_id, revision=2))
    assert (status, "no served revision 2" in error) == ("failed", True)
    platform.conn.execute("UPDATE dag_asset_revisions SET clearance = 'restricted'")
    status, error = run_record(platform, seat, ExternalPromotionRecord(asset_id=key.asset_id))
    assert (status, "only public content is promoted" in error) == ("failed", True)


def test_unknown_assets_are_not_promoted(platform: Platform) -> None:
    status, error = run_record(platform, platform.seat(), ExternalPromotionRecord(asset_id="0" * 32))
    assert (status, "no revision that is served" in error) == ("failed", True)


def test_content_that_is_revoked_meanwhile_is_not_promoted(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink
) -> None:
    """The task has found the content public; it is revoked before the call is written down."""
    put(platform, settings, "portal", "webhook", url=sink.url())
    seat, gate, reviewer = platform.seat(), open_connection(platform.dsn), open_connection(platform.dsn)
    platform.submit(one_task(), by="bob")
    seat.work()
    report(platform, platform.claim()[0], (ExternalPromotionRecord(asset_id=key.asset_id),))
    [(content_hash,)] = rows(platform, "SELECT content_hash FROM dag_asset_revisions")

    def take_back() -> None:
        revoke(reviewer, key, content_hash=content_hash, issued_by="rita", reason="licence")

    with gate, reviewer, ThreadPoolExecutor(2) as threads:
        gate.execute("BEGIN")
        gate.execute("LOCK TABLE dag_service_calls IN SHARE MODE")
        promoting = threads.submit(seat.work)
        wait_until(lambda: is_held(platform.conn, seat.conn))
        revoking = threads.submit(take_back)
        wait_until(lambda: revoking.done() or is_held(platform.conn, reviewer))
        gate.execute("COMMIT")
        promoting.result()
        revoking.result()
    assert [status for _, status, _ in calls(platform)] == ["cancelled"]


def test_a_dead_announcement_of_withdrawn_content_is_not_repeated(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, sink: Sink, announcer: Announcer
) -> None:
    sink.script["/hook"] = [answer(500), answer(500), answer(500), answer(200)]
    put(platform, settings, "portal", "webhook", url=sink.url())
    approve(platform, key)
    work(platform, announcer)
    [letter] = dead_letters(platform.conn, "default")
    [(content_hash,)] = rows(platform, "SELECT content_hash FROM dag_asset_revisions")
    revoke(platform.conn, key, content_hash=content_hash, issued_by="rita", reason="licence")
    with pytest.raises(Refusal, match="withdrawn"):
        requeue(platform.conn, "default", letter, issued_by="ann")
    service = find_service(platform.conn, "default", "portal")
    [(call_id,)] = rows(platform, "SELECT call_id FROM dag_service_calls WHERE action = 'approval'")
    assert service is not None
    with pytest.raises(Refusal, match="withdrawn"):
        retry_call(platform.conn, "default", service, call_id, by="ann")
    work(platform, announcer)
    assert calls(platform) == [("approval", "dead", 3), ("withdrawal", "delivered", 1)]
