"""Labels of orders: each client sees, and searches, those that it gave itself, and nothing of the labels of jobs."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.services.labels import change_labels
from tests.gateway.orders import REFS, order
from tests.gateway.serving import Served
from tests.orchestrator.platform import Platform

pytestmark = pytest.mark.usefixtures("platform")
LABELS = {"aoi": "oslo", "team": "gis"}


def ids(client: httpx.Client, *labels: str, **more: Any) -> list[str]:
    answer = client.get("/platform/requests", params={"label": list(labels), **more})
    assert answer.status_code == 200, answer.text
    return [line["request_id"] for line in answer.json()["requests"]]


def of_resource(name: str) -> dict[str, str]:
    return {**REFS, "resource_id": name}


def test_an_order_shows_its_labels(gateway: Served) -> None:
    client = gateway.client()
    order(client, request_id="a", labels=LABELS)
    order(client, request_id="b", platform_refs=of_resource("r2"))
    assert client.get("/platform/status/a").json()["labels"] == LABELS
    assert client.get("/platform/status/b").json()["labels"] == {}
    lines = client.get("/platform/requests").json()["requests"]
    assert {line["request_id"]: line["labels"] for line in lines} == {"a": LABELS, "b": {}}


def test_orders_are_found_by_labels(gateway: Served) -> None:
    client = gateway.client()
    for name, labels in {"a": LABELS, "b": {"aoi": "bergen"}, "c": {}}.items():
        order(client, request_id=name, labels=labels, platform_refs=of_resource(name))
    assert ids(client, "aoi=oslo") == ["a"]
    assert ids(client, "aoi") == ["b", "a"]
    assert ids(client, "aoi", "team=gis") == ["a"]
    assert ids(client, "aoi=osl") == ids(client, "unknown") == []
    assert ids(client, "aoi", resource_id="b") == ["b"]
    assert ids(client, "aoi", status="pending", limit=1) == ["b"]
    page = client.get("/platform/requests", params={"label": "aoi", "limit": 1})
    assert "label=aoi" in page.headers["link"]
    rest = client.get("/platform/requests", params={"label": "aoi", "cursor": page.json()["next_cursor"]}).json()
    assert [line["request_id"] for line in rest["requests"]] == ["a"]


def test_two_clients_know_nothing_of_each_others_labels(gateway: Served, platform: Platform) -> None:
    """Also if both wait for the same work."""
    ours, theirs = gateway.client(), gateway.client(name="bolt")
    order(ours, request_id="ours", labels={"aoi": "oslo"})
    order(theirs, request_id="theirs", labels={"aoi": "oslo", "secret_project": "x"})
    assert platform.count("dag_jobs") == 1
    assert ids(ours, "aoi=oslo") == ["ours"]
    assert ids(ours, "secret_project") == []
    assert ids(theirs, "aoi") == ["theirs"]
    assert ours.get("/platform/status/ours").json()["labels"] == {"aoi": "oslo"}
    assert "secret_project" not in ours.get("/platform/requests").text
    operator = gateway.client(Scope.OPS, name="ops")
    assert ids(operator, "aoi") == ["theirs", "ours"]


def test_what_operators_put_on_the_job_stays_there(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    order(client, request_id="a", labels={"aoi": "oslo"})
    (job_id,) = platform.conn.execute("SELECT job_id FROM dag_jobs").fetchone() or ("",)
    put = {"customer_rating": "difficult", "aoi": "elsewhere"}
    change_labels(platform.conn, job_id, put=put, remove=(), issued_by="olga")
    platform.finish(platform.seat())
    for path in ("/platform/status/a", "/platform/results/a", "/platform/requests", "/ogc/jobs", "/ogc/jobs/a"):
        text = client.get(path).text
        assert "customer_rating" not in text
        assert "elsewhere" not in text
    assert client.get("/platform/status/a").json()["labels"] == {"aoi": "oslo"}
    assert ids(client, "customer_rating") == ids(client, "aoi=elsewhere") == []


def test_a_repeated_order_has_the_same_labels(gateway: Served) -> None:
    client = gateway.client()
    order(client, request_id="a", labels=LABELS)
    assert order(client, request_id="a", labels=LABELS).headers["idempotency-replayed"] == "true"
    assert order(client, 422, request_id="a", labels={"aoi": "bergen"}).json()["code"] == "request_reused"


@pytest.mark.parametrize(
    ("labels", "pointer"),
    [
        ({"Aoi": "x"}, "/labels/Aoi/[key]"),
        ({"aoi": "x" * 201}, "/labels/aoi"),
        ({"aoi": "/srv/data/x\u202e"}, "/labels/aoi"),
        ({f"k{number}": "" for number in range(17)}, "/labels"),
        ({"aoi": None}, "/labels/aoi"),
    ],
)
def test_bad_labels_are_refused_with_their_place(gateway: Served, labels: Any, pointer: str) -> None:
    client = gateway.client()
    answer = order(client, 422, labels=labels).json()
    assert [error["pointer"] for error in answer["errors"]] == [pointer]
    (only,) = client.post("/gateway/submit/batch", json={"orders": [{"workflow_id": "x", "labels": labels}]}).json()[
        "orders"
    ]
    assert (only["status"], only["error"]["errors"][0]["pointer"]) == ("refused", pointer)
    plan = client.post("/platform/submit?dry_run=true", json={"workflow_id": "make_raster", "labels": labels})
    assert plan.status_code == 422


@pytest.mark.parametrize(
    "query", ["label=", "label=Aoi", "label=a%20b", "label=aoi&label=aoi=x", "label=aoi=%E2%80%AE", "label=aoi=%00"]
)
def test_bad_filters_are_refused(gateway: Served, query: str) -> None:
    answer = gateway.client().get(f"/platform/requests?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/query/label"


@pytest.mark.parametrize("value", ["<b>&'\";--${x} %s {{ a }}", "%", "\\", "a=b", "", "/srv/data/a.tif", "☃"])
def test_values_come_back_as_they_were_given(gateway: Served, value: str) -> None:
    client = gateway.client()
    order(client, request_id="a", labels={"note": value})
    order(client, request_id="b", labels={"note": "another"}, platform_refs=of_resource("r2"))
    assert client.get("/platform/status/a").json()["labels"] == {"note": value}
    assert ids(client, f"note={value}") == ["a"]
