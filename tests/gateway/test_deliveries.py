"""Callbacks of partners' orders: listed and sent again by their client, and by nobody else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rmhdag.models.callbacks import Callback
from rmhdag.store.identity import new_id
from tests.gateway.orders import order
from tests.gateway.serving import Served
from tests.orchestrator.platform import Platform
from tests.store.rows import insert_rows

URL = "https://partner.example.org/hook"


def deliver(platform: Platform, client_id: str, request_id: str) -> str:
    """As the orchestrator writes it when the job ends."""
    row = platform.conn.execute(
        "SELECT job_id, request_id FROM dag_api_requests WHERE client_id = %s AND client_request_id = %s",
        [client_id, request_id],
    ).fetchone()
    assert row is not None
    now = datetime.now(UTC)
    given: dict[str, Any] = {"created_at": now, "next_attempt_at": now, "host": "https://partner.example.org"}
    callback = Callback(
        callback_id=new_id(),
        job_id=row[0],
        request_id=row[1],
        url=URL,
        endpoint_url=URL,
        body={"request_id": request_id, "status": "completed"},
        **given,
    )
    insert_rows(platform.conn, "dagapp", [callback])
    return callback.callback_id


def test_deliveries_are_those_of_the_order(gateway: Served, platform: Platform) -> None:
    first, second = gateway.client(), gateway.client(name="bolt")
    # Both wait for the same work, and call it the same.
    for client in (first, second):
        order(client, request_id="march")
    delivery, other = deliver(platform, "acme", "march"), deliver(platform, "bolt", "march")
    path = "/platform/requests/march/deliveries"
    (line,) = first.get(path).json()["deliveries"]
    assert (line["delivery_id"], line["status"], line["url"]) == (delivery, "pending", URL)
    again = first.post(f"{path}/{delivery}/redeliver")
    assert (again.status_code, again.json()["delivery_id"]) == (202, delivery)
    assert first.post(f"{path}/{other}/redeliver").status_code == 404
    assert [line["delivery_id"] for line in second.get(path).json()["deliveries"]] == [other]
    assert second.post(f"{path}/{delivery}/redeliver").status_code == 404
    assert gateway.client(name="cara").get(path).status_code == 404
    row = platform.conn.execute(
        "SELECT redelivered_by FROM dag_callbacks ORDER BY redelivered_by NULLS LAST"
    ).fetchall()
    assert row == [("acme",), (None,)]
