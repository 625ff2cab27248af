"""Requirements class `callback` of OGC API – Processes 1.0: subscribers get the results, or the status of a job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from rmhdag.models.events import ErrorKind
from rmhdag.models.scopes import Scope
from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.callbacks.signing import Vault, new_secret
from rmhdag.store import callback_endpoints
from tests.api.serving import ServedHere
from tests.api.serving import served as served_api
from tests.gateway.orders import REFS
from tests.gateway.serving import Served
from tests.gateway.test_processes import INPUTS, check, execute
from tests.lifecycle.reviewing import content, reviewed_workflow
from tests.orchestrator.callbacks.sink import Sink, answer
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_callbacks import ALL_SETTLED, SOON, delivering, work
from tests.orchestrator.test_publishing import report

GATEWAY = "https://gateway.example.org"
NAMES = ("successUri", "failedUri", "inProgressUri")


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


@pytest.fixture
def api(migrated_database: str, sink: Sink) -> Iterator[ServedHere]:
    """One that lets callbacks go to the sink."""
    with served_api(migrated_database, callbacks=CallbackSettings(rules=Rules(frozenset({sink.host})))) as running:
        yield running


def subscriber(sink: Sink, *names: str) -> dict[str, str]:
    return {name: sink.url(f"/{name}") for name in names or NAMES}


def received(platform: Platform, sink: Sink) -> list[tuple[str, Any]]:
    """What has arrived where, in the order of the messages, each with a valid signature."""
    for name in NAMES:
        secret = new_secret()
        url = sink.url(f"/{name}")
        if callback_endpoints.find_by_url(platform.conn, "default", url) is None:
            callback_endpoints.create_endpoint(platform.conn, "default", url, Vault().seal(secret, "default", url), "x")
    with delivering(sink, replace(SOON, gateway_url=GATEWAY)) as delivery:
        work(platform, delivery, ALL_SETTLED)
    messages = []
    for one in sorted(sink.received, key=lambda one: one.message_id):
        endpoint = callback_endpoints.find_by_url(platform.conn, "default", sink.url(one.target))
        assert endpoint is not None
        secret = Vault().unseal(endpoint.secret, "default", endpoint.url)
        messages.append((one.target.removeprefix("/"), Webhook(secret).verify(one.body, one.headers)))
    return messages


def test_callback_sends_the_status_at_the_start_and_the_results_at_the_end(
    gateway: Served, platform: Platform, sink: Sink
) -> None:
    """/req/callback/job-callback: successUri gets what GET …/results answers, inProgressUri a statusInfo."""
    client = gateway.client()
    info = execute(client, subscriber=subscriber(sink)).json()
    platform.finish(platform.seat())
    sink.script["/successUri"] = [answer(500), answer(204)]
    started, failed_try, done = received(platform, sink)
    assert started[0] == "inProgressUri"
    status = check("statusInfo", started[1])
    assert (status["jobID"], status["status"], status["processID"]) == (info["jobID"], "running", "make_raster")
    assert status["links"][0]["href"] == f"{GATEWAY}/ogc/jobs/{info['jobID']}"
    assert "finished" not in status
    # The body is the same in every try, and the same as that of the route.
    assert failed_try == done == ("successUri", client.get(f"/ogc/jobs/{info['jobID']}/results").json())
    assert done[1] == {"n": 7}
    deliveries = client.get(f"/platform/requests/{info['jobID']}/deliveries").json()["deliveries"]
    assert {line["url"] for line in deliveries} == {sink.url("/successUri"), sink.url("/inProgressUri")}


@pytest.mark.parametrize("ending", ["failed", "dismissed"])
def test_callback_sends_the_status_of_what_failed(gateway: Served, platform: Platform, sink: Sink, ending: str) -> None:
    """/req/callback/job-callback: failedUri gets a statusInfo, and nothing of the platform is in it."""
    client = gateway.client()
    seat = platform.seat()
    job = execute(client, subscriber=subscriber(sink, "successUri", "failedUri")).headers["location"]
    seat.work()
    if ending == "failed":
        platform.fail(*platform.claim(1), kind=ErrorKind.NON_RETRYABLE)
    else:
        assert client.delete(job).status_code == 200
    seat.work()
    ((name, status),) = received(platform, sink)
    assert name == "failedUri"
    shown = client.get(job).json()
    assert check("statusInfo", status)["status"] == shown["status"] == ending
    assert (status["message"], status["finished"]) == (shown["message"], shown["finished"])
    assert "boom" not in str(status)


def test_callback_to_an_address_that_was_not_named_is_not_sent(gateway: Served, platform: Platform, sink: Sink) -> None:
    """/req/callback/job-callback: only successUri is required."""
    client = gateway.client()
    seat = platform.seat()
    execute(client, subscriber=subscriber(sink, "successUri"))
    seat.work()
    platform.fail(*platform.claim(1), kind=ErrorKind.NON_RETRYABLE)
    seat.work()
    assert platform.count("dag_callbacks") == 0
    # A workflow that names no outputs has one.
    done = execute(client, inputs={**INPUTS, "n": 8}, subscriber=subscriber(sink, "successUri")).json()
    platform.finish(seat)
    assert received(platform, sink) == [("successUri", {"n": 8})]
    row = platform.conn.execute("SELECT body->>'request_id' FROM dag_callbacks").fetchone()
    assert row == (done["jobID"],)


def test_callback_for_each_client_that_waits_for_the_same_work(gateway: Served, platform: Platform, sink: Sink) -> None:
    """Who joins a running job is told so at once; each gets the results under the id of its own job."""
    seat = platform.seat()
    first = execute(gateway.client(), subscriber=subscriber(sink, "successUri")).json()
    seat.work()
    second = execute(gateway.client(name="bolt"), subscriber=subscriber(sink)).json()
    assert second["status"] == "running"
    platform.finish(seat)
    messages = received(platform, sink)
    assert [message["jobID"] for name, message in messages if name == "inProgressUri"] == [second["jobID"]]
    assert [message for name, message in messages if name == "successUri"] == [{"n": 7}] * 2
    assert first["jobID"] != second["jobID"]


def test_callback_waits_for_the_approval(gateway: Served, platform: Platform, sink: Sink) -> None:
    """Results of reviewed content are sent when it is approved; what was revoked meanwhile is not sent at all."""
    platform.register(reviewed_workflow().model_copy(update={"version": 2}))
    client, reviewer = gateway.client(), gateway.client(Scope.REVIEWER, name="rita")
    job = execute(client, subscriber=subscriber(sink)).json()["jobID"]
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    report(platform, claimed, content(1))
    seat.work()
    messages = received(platform, sink)
    assert [name for name, _ in messages] == ["inProgressUri"] * 2
    assert messages[1][1]["message"] == "waiting for approval"
    (review,) = reviewer.get("/platform/approvals").json()["reviews"]
    decide(reviewer, "approve", job, review["content_hash"], clearance="public")
    decide(reviewer, "revoke", job, review["content_hash"], reason="wrong licence")
    last = received(platform, sink)[2:]
    assert [(name, message["message"]) for name, message in last] == [("failedUri", "wrong licence")]
    kept = platform.conn.execute("SELECT last_error FROM dag_callbacks WHERE status = 'dead'").fetchall()
    assert kept == [("the content was revoked before its results were delivered",)]


def decide(reviewer: httpx.Client, verb: str, job: str, content_hash: str, **more: str) -> None:
    answer = reviewer.post(f"/platform/{verb}", json={"request_id": job, "content_hash": content_hash, **more})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("subscribed", "pointer"),
    [
        ([], "/subscriber"),
        ({}, "/subscriber"),
        ({"failedUri": "https://a.example"}, "/subscriber"),
        ({"successUri": 7}, "/subscriber/successUri"),
        ({"successUri": "https://a.example", "nobodys": "x"}, "/subscriber/nobodys"),
        ({"successUri": "http://127.0.0.1/x"}, "/subscriber/successUri"),
        ({"successUri": "https://a.example", "failedUri": "ftp://b.example"}, "/subscriber/failedUri"),
        ({"successUri": "https://a.example", "inProgressUri": "http://localhost/"}, "/subscriber/inProgressUri"),
    ],
)
def test_callback_addresses_are_checked(gateway: Served, platform: Platform, subscribed: Any, pointer: str) -> None:
    """Each as that of any order, with its place."""
    client = gateway.client()
    refused = execute(client, expect=422, subscriber=subscribed)
    assert refused.json()["errors"][0]["pointer"] == pointer
    assert platform.count("dag_api_requests") == 0


def test_subscribers_are_for_processes_only(gateway: Served, api: ServedHere, platform: Platform) -> None:
    order = {"workflow_id": "make_raster", "platform_id": "ddh", "platform_refs": REFS}
    named = {**order, "subscriber": {"success": "https://a.example"}}
    assert gateway.client().post("/platform/submit", json=named).json()["errors"][0]["pointer"] == "/subscriber"
    refused = api.client(Scope.SUBMIT).post("/api/v1/submit", json=named)
    assert (refused.status_code, refused.json()["code"]) == (422, "subscriber_refused")


def test_oas30_describes_the_callbacks(gateway: Served) -> None:
    """/req/oas30/oas-impl with the class `callback`."""
    body = gateway.client().get("/ogc/api").json()
    callbacks = body["paths"]["/processes/{processID}/execution"]["post"]["callbacks"]
    addresses = {address for callback in callbacks.values() for address in callback}
    assert addresses == {f"{{$request.body#/subscriber/{name}}}" for name in NAMES}
