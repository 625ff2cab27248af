"""What partners see, under errors too: answers of the described shape, and nothing of the platform behind them."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.gateway.examples import EXAMPLES
from rmhdag.gateway.openapi import document
from rmhdag.gateway.routes import OPERATIONS, Operation
from rmhdag.models.events import ErrorKind
from rmhdag.models.leases import TaskReport
from rmhdag.models.partner_orders import shown_text, shown_value
from rmhdag.models.scopes import Scope
from rmhdag.models.states import TaskStatus
from rmhdag.store import tasks
from rmhdag.store.connection import connect, enter_schema
from rmhdag.workflow.definition import WorkflowDefinition
from tests.engine.definitions import task
from tests.gateway.orders import ORDER, REFS, order
from tests.gateway.serving import Served
from tests.gateway.test_limits import fill
from tests.orchestrator.platform import Platform

INSIDE = (
    'Traceback (most recent call last):\n  File "/srv/rmhdag/handlers/raster.py", line 3, in run\n'
    "psycopg.errors.UndefinedTable: SELECT * FROM dag_jobs at postgresql://rmhdag@db.internal/rmhdag"
)
LEAKS = re.compile(
    r"Traceback|psycopg|sqlalchemy|\bdag_[a-z]+|\bSELECT\b|\bINSERT INTO\b|\bUPDATE [a-z]|\bDELETE FROM\b|postgres(?:ql)?://"
    r"|site-packages|File \\\"|line \d+, in |(?<![\w:/<])/(?:srv|home|work|tmp|var|usr|opt|root|data|mnt|etc)/|file://|/vsi"
    r"|internal_node|db\.internal|owner_id|worker_id|\bnode_id|\bjob_id|task_id"
)
DESCRIBED = document()


class World(NamedTuple):
    gateway: Served
    platform: Platform
    # Orders by what became of them.
    ids: dict[str, str]


@pytest.fixture
def failing(platform: Platform) -> str:
    definition = WorkflowDefinition(
        workflow_id="fails",
        name="Fails",
        outputs={"place": "{{ nodes.internal_node.output }}"},
        nodes={"internal_node": task()},
    )
    platform.register(definition)
    return definition.workflow_id


def report(platform: Platform, message: str, error: dict[str, Any] | None = None) -> None:
    """The worker's report of the one task that waits: failed for good."""
    (claimed,) = platform.claim()
    failed = TaskReport(
        claimed.task_id,
        claimed.lease_epoch,
        TaskStatus.FAILED,
        ErrorKind.NON_RETRYABLE,
        message,
        1,
        error=None if error is None else orjson.dumps(error),
    )
    tasks.report_tasks(platform.conn, platform.worker_id, [failed])


def coded(code: str, category: str, message: str, *, user_fixable: bool) -> dict[str, Any]:
    facts = {"code": code, "category": category, "message": message, "remediation": f"Do it again. {INSIDE}"}
    return {**facts, "user_fixable": user_fixable, "retryable": not user_fixable}


def check_shape(operation: Operation, answer: httpx.Response) -> None:
    """As described: answers of partners have no other keys."""
    if not answer.content:
        return
    name = "Problem" if answer.status_code >= 400 else operation.answer
    if operation.answer == "OrderAccepted" and answer.status_code == 200:
        name = "Status" if "status" in answer.json() else "DryRun"
    schema = {"$ref": f"#/components/schemas/{name}", "components": DESCRIBED["components"]}
    jsonschema.validate(answer.json(), schema)


@pytest.fixture
def world(gateway: Served, platform: Platform, failing: str) -> World:
    """Orders in every state, of which some failed in the worst way."""
    client = gateway.client()
    seat = platform.seat()
    ids = {}
    for name, error in {
        "bare": None,
        "coded": coded("CRS_MISSING", "data_quality", f"no CRS in /data/in/a.tif {INSIDE}", user_fixable=True),
        "system": coded("DATABASE_ERROR", "system", INSIDE, user_fixable=False),
    }.items():
        ids[name] = client.post("/platform/submit", json={"workflow_id": failing}).json()["request_id"]
        seat.work()
        report(platform, INSIDE, error)
        seat.work()
    ids["told"] = client.post("/platform/submit", json={"workflow_id": failing}).json()["request_id"]
    platform.finish(seat, output={"path": "/srv/rmhdag/out.tif", "job_id": "x", "url": "file:/srv/a", "ok": "kept"})
    ids["done"] = order(client).json()["request_id"]
    platform.finish(seat)
    ids["open"] = order(client, platform_refs={**REFS, "resource_id": "r2"}).json()["request_id"]
    seat.work()
    return World(gateway, platform, ids)


def secrets_of(platform: Platform) -> set[str]:
    rows = platform.conn.execute(
        "SELECT job_id FROM dag_jobs UNION SELECT owner_id FROM dag_orchestrators"
        " UNION SELECT worker_id FROM dag_workers"
        " UNION SELECT request_id FROM dag_api_requests WHERE request_id <> client_request_id"
        " UNION SELECT asset_id FROM dag_geospatial_assets UNION SELECT task_id FROM dag_task_results"
    ).fetchall()
    return {row[0] for row in rows} | {socket.gethostname()}


def calls(operation: Operation, ids: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """With things that exist, with things that do not, with good and with bad bodies and queries."""
    bodies: list[Any] = [None]
    if operation.body is not None:
        bodies = [{}, {"x": INSIDE}, {**ORDER, "request_id": ids["done"]}, ORDER, {"content_hash": "0" * 64, **ORDER}]
        bodies += [{"orders": [ORDER, {"workflow_id": "x"}]}, {"request_id": ids["done"], "content_hash": "0" * 64}]
    queries = ["", "?limit=x", "?dataset_id=0038272", "?cursor=AAAA", "?dry_run=true", "?dataset_id=1&resource_id=r1"]
    for request_id in (*ids.values(), "unknown", "%00", "a" * 400):
        path = fill(operation.path.replace("{request_id}", request_id))
        for body in bodies:
            for query in queries:
                yield path + query, {"json": body} if body is not None else {}
        if "{request_id}" not in operation.path:
            return


def test_no_answer_to_a_partner_holds_anything_of_the_platform(
    world: World,
) -> None:
    gateway, platform, ids = world
    client = gateway.client()
    wrong = []
    answers = 0
    for operation in OPERATIONS:
        for path, given_body in calls(operation, ids):
            answer = client.request(operation.method, path, **given_body)
            answers += 1
            assert answer.status_code < 500, (operation.method, path, answer.text)
            check_shape(operation, answer)
            # What the partner itself has sent may be named in an error.
            sent = f"{path} {orjson.dumps(given_body).decode()}"
            secrets = secrets_of(platform)
            texts = [answer.text, *(f"{name}: {value}" for name, value in answer.headers.items())]
            for text in texts:
                leak = LEAKS.search(text)
                if leak and leak[0] not in sent:
                    wrong.append((operation.method, path, leak[0], text[:300]))
                wrong += [(operation.method, path, secret, text[:300]) for secret in secrets if secret in text]
    assert not wrong, wrong[:5]
    assert answers > 300


def test_errors_are_told_as_far_as_a_partner_can_act_on_them(world: World) -> None:
    gateway, _, ids = world
    client = gateway.client()
    errors = {name: client.get(f"/platform/status/{ids[name]}").json()["error"] for name in ("bare", "coded", "system")}
    assert (errors["bare"]["code"], errors["bare"]["user_fixable"]) == ("SYSTEM_ERROR", False)
    assert (errors["coded"]["code"], errors["coded"]["category"]) == ("CRS_MISSING", "data_quality")
    assert errors["coded"]["user_fixable"] is True
    assert errors["coded"]["remediation"]
    assert (errors["system"]["code"], errors["system"]["user_fixable"]) == ("DATABASE_ERROR", False)
    result = client.get(f"/platform/status/{ids['told']}").json()["result"]["place"]
    assert result["ok"] == "kept"
    assert "job_id" not in result
    assert "/srv" not in str(result)


def test_anothers_order_is_like_one_that_does_not_exist(world: World) -> None:
    gateway, _, ids = world
    other = gateway.client(name="bolt")
    about_one = [one for one in OPERATIONS if "{request_id}" in one.path or "{jobID}" in one.path]
    assert {"GET /ogc/jobs/{jobID}", "GET /platform/status/{request_id}"} < {f"{o.method} {o.path}" for o in about_one}
    for operation in about_one:
        for name in ("done", "open", "bare"):
            answers = [
                other.request(
                    operation.method,
                    fill(operation.path.replace("{request_id}", request_id).replace("{jobID}", request_id)),
                    headers={"X-Request-Id": "same"},
                )
                for request_id in (ids[name], "5f0c6a52-8d0f-4c38-9a5e-0b1f7a3c2d1e")
            ]
            assert {answer.status_code for answer in answers} == {404}
            assert answers[0].content == answers[1].content
            assert comparable_headers(answers[0], ids[name]) == comparable_headers(answers[1], "5f0c6a52")
    assert other.get("/platform/requests").json()["requests"] == []
    assert other.get("/platform/assets").json()["assets"] == []
    assert other.get("/platform/assets/ddh", params=REFS).status_code == 404
    assert other.get("/platform/catalog/lookup", params=REFS).json()["reason"] == "no_platform_request"


def comparable_headers(answer: httpx.Response, asked: str) -> list[tuple[str, str]]:
    """In their order, with their values; without the time, the count of calls, and the id that the caller has sent."""
    moving = ("date", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit")
    return [
        (name, re.sub(rf"/{asked}[0-9a-f-]*", "/asked", value))
        for name, value in answer.headers.multi_items()
        if name not in moving
    ]


def test_anothers_order_takes_the_work_of_one_that_does_not_exist(
    world: World,
) -> None:
    """The same statement, which ends in the index: no row is read of what another client has ordered."""
    gateway, _, ids = world
    read: list[tuple[str, dict[str, Any]]] = []
    database = gateway.gateway.reads._database
    plain = database.read

    async def noted(query: str, parameters: Any) -> Any:
        read.append((query, dict(parameters)))
        return await plain(query, parameters)

    database.read = noted  # type: ignore[method-assign]
    other = gateway.client(name="bolt")
    other.get("/platform/me")
    read.clear()
    for request_id in (ids["done"], "5f0c6a52-8d0f-4c38-9a5e-0b1f7a3c2d1e"):
        assert other.get(f"/platform/status/{request_id}").status_code == 404
    (first, second) = read
    assert first[0] == second[0]
    work = []
    with connect(gateway.dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        # As with many orders: the tables of a test are so small that reading them whole is cheaper.
        conn.execute("SET enable_seqscan = off")
        conn.execute("SET enable_bitmapscan = off")
        for query, parameters in read:
            explained = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode()
            for _ in range(2):  # the second time everything is in memory
                row = conn.execute(explained, parameters).fetchone()
            assert row is not None
            work.append(executed(row[0][0]["Plan"]))
    assert work[0] == work[1]
    assert [one for one in work[0] if one[1] == "dag_api_requests_own_id_idx"]
    assert sum(removed for *_, removed in work[0]) == 0


def executed(plan: dict[str, Any]) -> list[tuple[str, str | None, int, int]]:
    """The nodes of a plan that were run: with their index, the pages they touched and the rows they threw away."""
    mine = (plan["Node Type"], plan.get("Index Name"), plan["Shared Hit Blocks"], plan.get("Rows Removed by Filter", 0))
    return [
        *([mine] if plan["Actual Loops"] else []),
        *(node for one in plan.get("Plans", []) for node in executed(one)),
    ]


def test_ids_of_jobs_are_no_use_to_partners(world: World) -> None:
    gateway, platform, _ = world
    row = platform.conn.execute("SELECT job_id FROM dag_jobs LIMIT 1").fetchone()
    assert row is not None
    assert gateway.client().get(f"/platform/status/{row[0]}").status_code == 404
    assert gateway.client().get(f"/status/job/{row[0]}").status_code == 403
    assert gateway.client(Scope.OPS, name="operator").get(f"/status/job/{row[0]}").json()["job_id"] == row[0]


@given(st.text(max_size=200))
def test_texts_without_places_stay_as_they_are(text: str) -> None:
    plain = re.sub(r"[^a-z ]", "", text)
    assert shown_text(plain) == plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no CRS in /data/in/a.tif", "no CRS in …"),
        ("cannot read /vsiaz/bronze/a.tif", "cannot read …"),
        ("see file:/srv/a and C:\\\\data\\\\b", "see … and …"),
        ("from postgresql://u:p@db/x", "from …"),
        ("job 01983f5e7c8b7d3a9f20c4de51b6a7e8 failed", "job … failed"),
        ("raster/uploads.tif has 3/4 of its bands", "raster/uploads.tif has 3/4 of its bands"),
        ("convert with gdal_translate -ot Float32 (or Int32)", "convert with gdal_translate -ot Float32 (or Int32)"),
    ],
)
def test_places_are_hidden_in_texts(text: str, shown: str) -> None:
    assert shown_text(text) == shown


def test_results_keep_what_is_about_the_data() -> None:
    value: dict[str, Any] = {"bounds": [1.5, 2], "cog": {"container": "gold", "path": "a/b.tif"}, "n": None, "ok": True}
    assert shown_value({**value, "host": "h", "cog": {**value["cog"], "job_id": "x"}}) == value


def test_the_examples_fit_their_schemas() -> None:
    for name, example in EXAMPLES.items():
        jsonschema.validate(example, {"$ref": f"#/components/schemas/{name}", "components": DESCRIBED["components"]})
