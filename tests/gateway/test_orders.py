"""Orders through the gateway: placed, followed, repeated, cancelled, retried."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest

from rmhdag.gateway.reads import STATES
from rmhdag.models.scopes import Scope
from tests.gateway.orders import ORDER, REFS, count_orders, order
from tests.gateway.serving import Served
from tests.orchestrator.platform import Platform


def test_an_order_is_accepted_followed_and_completed(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    accepted = order(client)
    request_id = accepted.json()["request_id"]
    assert accepted.json()["status"] == "accepted"
    assert accepted.headers["location"] == f"/platform/status/{request_id}"
    assert accepted.headers["retry-after"] == "2"
    pending = client.get(accepted.headers["location"])
    assert pending.json()["status"] == "pending"
    assert pending.json()["progress"] == {"percent": 0.0, "message": "waits to be started"}
    assert pending.headers["retry-after"] == "2"
    platform.finish(platform.seat())
    done = client.get(accepted.headers["location"]).json()
    assert (done["status"], done["result"], done["error"]) == ("completed", {"n": 7}, None)
    assert done["progress"] == {"percent": 100.0, "message": "completed"}
    assert done["platform_refs"] == REFS
    assert [(one["number"], one["status"], one["is_served"]) for one in done["versions"]] == [(1, "completed", True)]
    rows = platform.conn.execute("SELECT client_id, submitted_by FROM dag_api_requests").fetchall()
    assert rows == [("acme", "acme")]
    results = client.get(f"/platform/results/{request_id}").json()
    assert results["result"] == {"n": 7}
    assert {link["rel"] for link in results["links"]} >= {"status", "results"}


def test_a_repeated_key_is_one_order_and_another_body_is_refused(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    headers = {"Idempotency-Key": "march/1"}
    first = order(client, headers=headers)
    again = order(client, headers=headers)
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    refused = order(client, 422, headers=headers, input_params={"n": 8})
    assert refused.json()["code"] == "request_reused"
    assert refused.headers["content-type"] == "application/problem+json"
    # The key of one client says nothing about that of another.
    order(gateway.client(name="bolt"), headers=headers, platform_refs={**REFS, "resource_id": "r2"})
    assert count_orders(platform) == 2


def test_ten_at_once_with_one_key_are_one_order(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: order(client, headers={"Idempotency-Key": "k"}), range(10)))
    assert len({answer.json()["request_id"] for answer in answers}) == 1
    assert count_orders(platform) == 1


def test_the_ids_that_partners_choose_are_theirs(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    assert order(client, request_id="mine-1").json()["request_id"] == "mine-1"
    assert order(client, request_id="mine-1").headers["idempotency-replayed"] == "true"
    assert order(client, 422, request_id="mine-1", input_params={"n": 8}).json()["code"] == "request_reused"
    # What another client calls its order says nothing about ours, also if both wait for the same work.
    other = gateway.client(name="bolt")
    theirs = order(other, request_id="mine-1")
    assert "idempotency-replayed" not in theirs.headers
    assert theirs.json()["request_id"] == "mine-1"
    assert count_orders(platform) == 2
    assert platform.conn.execute("SELECT count(*) FROM dag_jobs").fetchone() == (1,)
    for one in (client, other):
        assert [line["request_id"] for line in one.get("/platform/requests").json()["requests"]] == ["mine-1"]
    assert client.post("/platform/requests/mine-1/cancel").json()["code"] == "order_shared"
    platform.finish(platform.seat())
    for one in (client, other):
        assert one.get("/platform/status/mine-1").json()["result"] == {"n": 7}


def test_a_workflow_that_makes_no_asset_takes_no_references(
    gateway: Served, platform: Platform, chain_of_four: str
) -> None:
    for refs in (REFS, {}):
        refused = order(gateway.client(), 422, workflow_id=chain_of_four, platform_refs=refs, input_params={})
        assert refused.json()["code"] == "no_asset"
    assert count_orders(platform) == 0


def test_a_wrong_parameter_is_named_by_its_place(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    refused = order(client, 422, input_params={"n": "seven"})
    assert [line["pointer"] for line in refused.json()["errors"]] == ["/input_params/n"]
    for address in ("/platform/submit", "/platform/submit?dry_run=true"):
        odd = client.post(address, json={**ORDER, "dry_run": "yes"})
        assert (odd.status_code, odd.json()["errors"][0]["pointer"]) == (422, "/dry_run")
    plan = order(client, 200, input_params={"n": "seven"}, dry_run=True).json()["plan"]
    assert [line["pointer"] for line in plan["problems"]] == ["/input_params/n"]


def test_operators_tell_orders_with_one_id_apart(gateway: Served, platform: Platform) -> None:
    clients = [gateway.client(), gateway.client(name="bolt")]
    for number, client in enumerate(clients):
        order(client, request_id="march", platform_refs={**REFS, "resource_id": f"r{number}"})
    order(clients[0], request_id="april", platform_refs={**REFS, "resource_id": "r2"})
    operator = gateway.client(Scope.OPS, name="operator")
    assert operator.get("/platform/status/april").json()["platform_refs"]["resource_id"] == "r2"
    ambiguous = operator.get("/platform/status/march")
    assert (ambiguous.status_code, ambiguous.json()["code"]) == (409, "ambiguous")
    ids = re.findall(r"([0-9a-f-]{32,36}) of (\w+)", ambiguous.json()["remedy"])
    assert sorted(name for _, name in ids) == ["acme", "bolt"]
    for platform_id, name in ids:
        stands = operator.get(f"/platform/status/{platform_id}").json()
        assert stands["request_id"] == "march"
        assert stands["platform_refs"]["resource_id"] == {"acme": "r0", "bolt": "r1"}[name]
        # The jobs of an order have the same id, so that a reported order leads to its jobs.
        jobs = operator.get("/status/lookup", params={"correlation_id": platform_id}).json()["jobs"]
        assert [job["correlation_id"] for job in jobs] == [platform_id]
        # To its client it means nothing.
        assert clients[0].get(f"/platform/status/{platform_id}").status_code == 404
    assert len(operator.get("/status/lookup", params={"correlation_id": "april"}).json()["jobs"]) == 1


def test_an_order_in_the_way_is_named_to_its_client_only(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    order(client, request_id="first")
    assert "request first is processing" in order(client, 409, input_params={"n": 8}).json()["detail"]
    other = order(gateway.client(name="bolt"), 409, input_params={"n": 8})
    assert other.json()["code"] == "asset_processing"
    assert "first" not in other.text
    assert "another order" in other.json()["detail"]


def test_a_batch_answers_each_order_by_itself(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    orders: list[Any] = [{**ORDER, "platform_refs": {**REFS, "resource_id": f"r{n}"}} for n in range(3)]
    orders[1] = {"workflow_id": "nobodys"}
    orders.append("no order")
    sent: dict[str, Any] = {"json": {"orders": orders}, "headers": {"Idempotency-Key": "batch-1"}}
    answer = client.post("/gateway/submit/batch", **sent)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["accepted"], body["refused"]) == (2, 2)
    assert [line["status"] for line in body["orders"]] == ["accepted", "refused", "accepted", "refused"]
    assert body["orders"][1]["error"]["status"] == 404
    again = client.post("/platform/submit/batch", **sent).json()
    assert [line.get("request_id") for line in again["orders"]] == [line.get("request_id") for line in body["orders"]]
    assert again["orders"][0]["replayed"] is True
    assert count_orders(platform) == 2


@pytest.mark.parametrize("orders", [[], [ORDER] * 101, "x", None, {"a": 1}])
def test_a_batch_has_1_to_100_orders(gateway: Served, orders: Any) -> None:
    answer = gateway.client().post("/gateway/submit/batch", json={"orders": orders})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/orders"


def test_waiting_ends_with_the_order(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    accepted = order(client, headers={"Prefer": "respond-async, wait=0"})
    assert accepted.headers["preference-applied"] == "respond-async"
    path = f"/platform/status/{accepted.json()['request_id']}"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, path, headers={"Prefer": "wait=30"})
        platform.finish(platform.seat())
        assert waiting.result().json()["status"] == "completed"
    # A repeat of what has ended is answered with how it ended.
    done = client.post("/platform/submit", json={**ORDER, "request_id": accepted.json()["request_id"]})
    assert done.status_code == 202
    done = order(client, 200, headers={"Prefer": "wait=5"}, request_id=accepted.json()["request_id"])
    assert (done.json()["status"], done.headers["preference-applied"]) == ("completed", "wait=5")


def test_an_order_is_cancelled_and_retried_by_its_client(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    seat = platform.seat()
    request_id = order(client).json()["request_id"]
    seat.work()
    early = client.post(f"/platform/requests/{request_id}/retry")
    assert (early.status_code, early.json()["code"]) == (409, "job_not_finished")
    # Neither jobs nor nodes: a partner knows orders.
    assert early.json()["detail"] == "the order has not ended, so there is nothing to retry"
    assert early.json()["remedy"] == "Wait until it has ended."
    cancelled = client.post(f"/platform/requests/{request_id}/cancel", json={"reason": "a mistake"})
    assert cancelled.status_code == 202, cancelled.text
    seat.work()
    shown = client.get(f"/platform/status/{request_id}").json()
    assert shown["status"] == "failed"
    assert (shown["error"]["code"], shown["error"]["message"]) == ("CANCELLED", "cancelled")
    again = client.post(f"/platform/requests/{request_id}/cancel")
    assert (again.status_code, again.json()["status"]) == (202, "cancelled")
    retried = client.post(f"/platform/requests/{request_id}/retry")
    assert retried.status_code == 202, retried.text
    platform.finish(seat)
    assert client.get(f"/platform/status/{request_id}").json()["status"] == "completed"


def test_a_list_has_a_beginning_and_an_end(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    first, second = (
        order(client, platform_refs={**REFS, "resource_id": name}).json()["submitted_at"] for name in ("r1", "r2")
    )

    def listed(**times: str) -> list[str]:
        return [line["submitted_at"] for line in client.get("/platform/requests", params=times).json()["requests"]]

    assert listed() == [second, first]
    assert listed(since=second) == [second]
    # The end is not part of it, so that two spans that touch have no order twice.
    assert listed(until=second) == [first]
    assert listed(since=first, until=second) == [first]


def test_a_repeated_retry_is_one_retry(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    seat = platform.seat()
    request_id = order(client).json()["request_id"]
    assert client.post(f"/platform/requests/{request_id}/cancel").status_code == 202
    seat.work()
    path, key = f"/platform/requests/{request_id}/retry", {"Idempotency-Key": "again/1"}
    first = client.post(path, headers=key)
    assert first.status_code == 202, first.text
    assert "idempotency-replayed" not in first.headers
    for _ in range(2):
        repeat = client.post(path, headers=key)
        assert (repeat.status_code, repeat.json()) == (202, first.json())
        assert repeat.headers["idempotency-replayed"] == "true"
        platform.finish(seat)
    assert platform.count("dag_jobs") == 2


def test_an_order_may_be_cancelled_twice_while_its_work_stops(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    seat = platform.seat()
    request_id = order(client).json()["request_id"]
    seat.work()
    (claimed,) = platform.claim(1)
    with ThreadPoolExecutor() as pool:
        for _ in range(2):
            asked = pool.submit(client.post, f"/platform/requests/{request_id}/cancel")
            while not asked.done():
                seat.work()
            assert (asked.result().status_code, asked.result().json()["status"]) == (202, "cancelling")
    platform.fail(claimed)
    seat.work()
    assert client.get(f"/platform/status/{request_id}").json()["error"]["code"] == "CANCELLED"


def test_an_order_that_has_ended_is_not_cancelled(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    request_id = order(client).json()["request_id"]
    platform.finish(platform.seat())
    refused = client.post(f"/platform/requests/{request_id}/cancel")
    assert (refused.status_code, refused.json()["detail"]) == (409, "the order has ended, or is ending")


def test_work_that_another_order_waits_for_is_not_cancelled(gateway: Served, platform: Platform) -> None:
    first, second = gateway.client(), gateway.client(name="bolt")
    one = order(first).json()["request_id"]
    joined = order(second).json()["request_id"]
    for client, request_id in ((first, one), (second, joined)):
        answer = client.post(f"/platform/requests/{request_id}/cancel")
        assert (answer.status_code, answer.json()["code"]) == (409, "order_shared")
    platform.finish(platform.seat())
    assert {
        client.get(f"/platform/status/{name}").json()["status"] for client, name in ((first, one), (second, joined))
    } == {"completed"}


def test_who_sees_all_orders_does_not_change_those_of_others(gateway: Served, platform: Platform) -> None:
    """A reviewer decides about content; orders are their clients' own, and the operators'."""
    client, reviewer = gateway.client(), gateway.client(Scope.REVIEWER, name="rita")
    seat = platform.seat()
    request_id = order(client).json()["request_id"]
    seat.work()
    assert reviewer.get(f"/platform/status/{request_id}").status_code == 200
    for change in ("cancel", "retry", "deliveries/any/redeliver"):
        refused = reviewer.post(f"/platform/requests/{request_id}/{change}")
        assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing"), refused.text
    operator = gateway.client(Scope.OPS, name="operator")
    assert operator.post(f"/platform/requests/{request_id}/cancel").status_code == 202


def test_the_filter_by_status_says_the_same_as_the_status(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    request_id = order(client).json()["request_id"]
    platform.finish(platform.seat())
    jobs = ("pending", "running", "completed", "failed", "cancelled", None)
    for job, review in product(jobs, ("none", "pending_review", "approved", "rejected", "revoked", "superseded")):
        platform.conn.execute("UPDATE dag_asset_revisions SET review_state = %s", [review])
        if job is None:
            platform.conn.execute("UPDATE dag_api_requests SET job_id = NULL")
        else:
            ended = job not in ("pending", "running")
            platform.conn.execute(
                "UPDATE dag_jobs SET status = %s, completed_at = CASE WHEN %s THEN now() END", [job, ended]
            )
        status = client.get(f"/platform/status/{request_id}").json()["status"]
        found = {
            state for state in STATES if client.get("/platform/requests", params={"status": state}).json()["requests"]
        }
        assert found == {status}, (job, review)


def test_pages_have_links_and_miss_nothing(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    ids = [order(client, platform_refs={**REFS, "resource_id": f"r{n}"}).json()["request_id"] for n in range(5)]
    order(gateway.client(name="bolt"), platform_refs={**REFS, "resource_id": "other"})
    seen, path = [], "/platform/requests?limit=2&status=pending"
    while path:
        answer = client.get(path)
        seen += [line["request_id"] for line in answer.json()["requests"]]
        path = answer.links.get("next", {}).get("url", "")
    assert seen == ids[::-1]
    narrowed = client.get("/platform/requests", params={"resource_id": "r3"}).json()["requests"]
    assert [line["request_id"] for line in narrowed] == [ids[3]]
    assert client.get("/platform/requests", params={"status": "completed"}).json()["requests"] == []
    assert len(gateway.client(Scope.OPS, name="operator").get("/platform/requests").json()["requests"]) == 6


@pytest.mark.parametrize(
    "query",
    [
        *(
            "limit=0",
            "limit=501",
            "limit=x",
            "status=done",
            "since=yesterday",
            "until=7",
            "cursor=x",
            "limit=1&limit=2",
        ),
        *("cursor=W10", "limit=000005000000", f"limit={'9' * 5000}"),
    ],
)
def test_queries_are_checked(gateway: Served, query: str) -> None:
    answer = gateway.client().get(f"/platform/requests?{query}")
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["errors"][0]["pointer"].startswith("/query/")


def test_older_names_answer_and_say_that_they_are_old(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    accepted = client.post("/platform/submit_dag", json=ORDER)
    assert accepted.status_code == 202
    assert accepted.headers["deprecation"].startswith("@")
    assert accepted.headers["sunset"] == "Mon, 01 Nov 2027 00:00:00 GMT"
    request_id = accepted.json()["request_id"]
    shown = client.get(f"/platform/dag_status/{request_id}")
    assert shown.json() == client.get(f"/platform/status/{request_id}").json()
    assert shown.headers["link"] == f'</platform/status/{request_id}>; rel="successor-version"'
    newer = client.get(f"/platform/status/{request_id}").headers
    assert not {"deprecation", "sunset"} & set(newer)


def test_a_sandbox_key_orders_nothing(gateway: Served, platform: Platform) -> None:
    client = gateway.client(Scope.B2B, Scope.SANDBOX, name="trial")
    answer = client.post("/platform/submit", json=ORDER)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["dry_run"], answer.json()["plan"]["outcome"]) == (True, "create")
    client.post("/platform/submit", json={**ORDER, "dry_run": False})
    client.post("/gateway/submit/batch", json={"orders": [ORDER]})
    assert count_orders(platform) == 0
    assert platform.conn.execute("SELECT count(*) FROM dag_jobs").fetchone() == (0,)
    assert client.get("/platform/me").json()["sandbox"] is True


def test_a_dry_run_says_what_the_order_would_do_and_nothing_else(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    order(client)
    platform.seat().work()
    joined = order(client, 200, dry_run=True).json()["plan"]
    assert (joined["valid"], joined["outcome"], joined["waits_for_review"]) == (True, "join", False)
    # Nothing more would be done.
    assert joined["estimate"] is None
    conflict = order(client, 200, dry_run=True, input_params={"n": 8}).json()["plan"]
    assert (conflict["valid"], conflict["outcome"]) == (False, "conflict")
    assert conflict["problems"][0]["code"] == "asset_processing"
    replaced = order(client, 200, dry_run=True, input_params={"n": 8}, supersede=True)
    assert replaced.json()["plan"]["outcome"] == "create"
    nothing_known = {"input_bytes": None, "p50_seconds": None, "p95_seconds": None}
    assert replaced.json()["plan"]["estimate"] == {"tasks": 1, **nothing_known}
    jobs = [row[0] for row in platform.conn.execute("SELECT job_id FROM dag_jobs")]
    assert not [job for job in jobs if job in replaced.text]
    assert "job_id" not in replaced.text
    wrong = order(client, 200, dry_run=True, input_params={"n": "seven"}).json()["plan"]
    assert (wrong["outcome"], wrong["problems"][0]["pointer"]) == ("invalid", "/input_params/n")
    assert count_orders(platform) == 1


def test_nobody_orders_in_the_name_of_another(gateway: Served, platform: Platform) -> None:
    for name in ("submitted_by", "client_id", "namespace"):
        changes: dict[str, Any] = {name: "bolt"}
        refused = order(gateway.client(), 422, **changes)
        assert refused.json()["errors"][0]["pointer"] == f"/{name}"
    assert count_orders(platform) == 0


def test_progress_grows_with_the_nodes(gateway: Served, platform: Platform, chain_of_four: str) -> None:
    client = gateway.client()
    seat = platform.seat()
    answer = client.post("/platform/submit", json={"workflow_id": chain_of_four})
    assert answer.status_code == 202, answer.text
    path = f"/platform/status/{answer.json()['request_id']}"
    seat.work()
    percents = []
    # The percentage may be a second old; each client of its own asks afresh.
    for _ in range(4):
        gateway.gateway.reads._progress.clear()
        percents.append(client.get(path).json()["progress"]["percent"])
        platform.succeed(*platform.claim())
        seat.work()
    assert percents == sorted(percents)
    assert percents[0] == 0.0
    assert percents[3] == 75.0
    assert client.get(path).json()["progress"]["percent"] == 100.0
