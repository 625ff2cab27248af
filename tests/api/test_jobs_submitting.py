"""Jobs as callers submit them: one or many, once however often they ask, and only what is theirs to say."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store.channels import NEW_JOBS
from rmhdag.store.connection import connect, enter_schema
from rmhdag.workflow.definition import InputDefinition, WorkflowDefinition
from tests.api.registering import register
from tests.api.serving import Served, served
from tests.api.test_foundation import problem
from tests.engine.definitions import task

FLOW = WorkflowDefinition(
    workflow_id="flow",
    name="flow",
    version=2,
    inputs={
        "count": InputDefinition(type="integer", minimum=1, maximum=10, default=3),
        "name": InputDefinition(type="string", required=True),
    },
    nodes={"only": task()},
)
FINE = {"workflow_id": "flow", "input_params": {"name": "Ada"}}


@pytest.fixture
def api(migrated_database: str) -> Iterator[Served]:
    register(migrated_database, FLOW)
    with served(migrated_database) as running:
        yield running


@pytest.fixture
def rows(migrated_database: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(migrated_database, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        yield conn


@pytest.fixture
def client(api: Served) -> httpx.Client:
    return api.client(Scope.SUBMIT, Scope.READ, name="ada")


def count(rows: psycopg.Connection[Any]) -> int:
    row = rows.execute("SELECT count(*) FROM dag_jobs").fetchone()
    assert row is not None
    return int(row[0])


def pointers(body: dict[str, Any]) -> list[str]:
    return [place["pointer"] for place in body["errors"]]


def test_a_job_is_made_with_its_defaults(client: httpx.Client) -> None:
    more = {"priority": 7, "correlation_id": "mine", "fairness_key": "team", "callback_url": "https://example.org/x"}
    answer = client.post("/api/v1/jobs", json=FINE | more)
    assert answer.status_code == 201
    job = answer.json()
    assert job["input_params"] == {"name": "Ada", "count": 3}
    assert (job["status"], job["workflow_version"], job["submitted_by"]) == ("pending", 2, "ada")
    assert {name: job[name] for name in more} == more
    shown = client.get(f"/api/v1/jobs/{job['job_id']}").json()
    assert shown["reason"]["reason_code"] == "job_not_started"
    assert "No orchestrator" in shown["reason"]["hint"]
    assert {name: value for name, value in shown.items() if name != "reason"} == {
        name: value for name, value in job.items() if name != "reason"
    }


def test_the_query_of_a_callback_is_not_shown(client: httpx.Client) -> None:
    """Receivers keep keys in there."""
    wanted = FINE | {"callback_url": "https://example.org/x?key=secret", "idempotency_key": "twice"}
    made = client.post("/api/v1/jobs", json=wanted)
    assert made.status_code == 201
    path = f"/api/v1/jobs/{made.json()['job_id']}"
    shown = [made, client.post("/api/v1/jobs", json=wanted), client.get(path), client.get(f"{path}/overview")]
    assert [one.json()["callback_url"] for one in shown] == ["https://example.org/x"] * 4
    assert not [one.text for one in shown if "secret" in one.text]


def test_orchestrators_are_told_once_per_call(api: Served, client: httpx.Client, migrated_database: str) -> None:
    with connect(migrated_database, "listener", autocommit=True) as listener:
        listener.execute(f"LISTEN {NEW_JOBS}".encode())
        assert client.post("/api/v1/jobs/batch", json={"jobs": [FINE] * 5}).json()["created"] == 5
        assert len(list(listener.notifies(timeout=5, stop_after=1))) == 1
        assert list(listener.notifies(timeout=0)) == []


@pytest.mark.parametrize(
    ("body", "code", "where"),
    [
        ({"workflow_id": "flow"}, "invalid_parameters", ["/input_params/name"]),
        (FINE | {"input_params": {"name": 1, "count": 99}}, "invalid_parameters", None),
        (FINE | {"input_params": {"name": "x", "conut": 1}}, "invalid_parameters", ["/input_params/conut"]),
        (FINE | {"input_params": []}, "invalid_request", ["/input_params"]),
        (FINE | {"priority": 11}, "invalid_request", ["/priority"]),
        (FINE | {"priority": True}, "invalid_request", ["/priority"]),
        (FINE | {"status": "completed"}, "invalid_request", ["/status"]),
        (FINE | {"owner_id": "me", "owner_epoch": 9, "namespace": "n"}, "invalid_request", None),
        (FINE | {"idempotency_key": ""}, "invalid_request", ["/idempotency_key"]),
        (FINE | {"correlation_id": "x" * 65}, "invalid_request", ["/correlation_id"]),
        (FINE | {"callback_url": "file:/etc/passwd"}, "callback_url_refused", ["/callback_url"]),
        (FINE | {"callback_url": "http://good@127.0.0.1/"}, "callback_url_refused", ["/callback_url"]),
        (FINE | {"callback_url": "http://2130706433/"}, "callback_url_refused", ["/callback_url"]),
        (FINE | {"callback_url": "http:///x"}, "callback_url_refused", ["/callback_url"]),
        (FINE | {"callback_url": "http://a:b:c/"}, "callback_url_refused", ["/callback_url"]),
        ([], "invalid_request", [""]),
        ("text", "invalid_request", [""]),
    ],
)
def test_what_is_wrong_is_named_and_makes_no_job(
    client: httpx.Client, rows: psycopg.Connection[Any], body: Any, code: str, where: list[str] | None
) -> None:
    found = problem(client.post("/api/v1/jobs", json=body), 422, code)
    if where is not None:
        assert pointers(found) == where
    assert count(rows) == 0


def test_an_unknown_workflow_is_named_with_the_likely_one(client: httpx.Client) -> None:
    found = problem(client.post("/api/v1/jobs", json={"workflow_id": "flwo"}), 404, "unknown_workflow")
    assert found["remedy"] == "Did you mean `flow`?"
    found = problem(client.post("/api/v1/jobs", json=FINE | {"version": 9}), 404, "unknown_workflow")
    assert (found["remedy"], pointers(found)) == ("The newest version is 2.", ["/version"])


def test_another_namespace_has_other_workflows(api: Served) -> None:
    other = api.client(Scope.SUBMIT, namespace="north")
    found = problem(other.post("/api/v1/jobs", json=FINE), 404, "unknown_workflow")
    assert "remedy" not in found or found["remedy"] is None


def test_the_same_key_makes_one_job(client: httpx.Client, rows: psycopg.Connection[Any]) -> None:
    first = client.post("/api/v1/jobs", json=FINE | {"idempotency_key": "k"})
    again = client.post("/api/v1/jobs", json=FINE | {"idempotency_key": "k"})
    by_header = client.post("/api/v1/jobs", json=FINE, headers={"Idempotency-Key": "k"})
    assert [first.status_code, again.status_code, by_header.status_code] == [201, 200, 200]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == by_header.headers["idempotency-replayed"] == "true"
    assert {answer.json()["job_id"] for answer in (first, again, by_header)} == {first.json()["job_id"]}
    assert count(rows) == 1


@pytest.mark.parametrize(
    "change",
    [{"priority": 1}, {"input_params": {"name": "Bob"}}, {"version": 2}, {"callback_url": "https://example.org/"}],
)
def test_the_same_key_for_something_else_is_refused(client: httpx.Client, change: dict[str, Any]) -> None:
    keyed = FINE | {"idempotency_key": "k"}
    client.post("/api/v1/jobs", json=keyed)
    found = problem(client.post("/api/v1/jobs", json=keyed | change), 422, "idempotency_key_reused")
    assert pointers(found) == ["/idempotency_key"]


def test_a_repeat_is_answered_although_the_workflow_has_changed(api: Served, client: httpx.Client) -> None:
    keyed = FINE | {"idempotency_key": "k"}
    first = client.post("/api/v1/jobs", json=keyed).json()
    stricter = FLOW.model_copy(
        update={"version": 3, "inputs": {"other": InputDefinition(type="string", required=True)}}
    )
    register(api.dsn, stricter)
    assert client.post("/api/v1/jobs", json=keyed).json()["job_id"] == first["job_id"]
    problem(client.post("/api/v1/jobs", json=FINE), 422, "invalid_parameters")


def test_two_different_keys_are_refused(client: httpx.Client) -> None:
    answer = client.post("/api/v1/jobs", json=FINE | {"idempotency_key": "a"}, headers={"Idempotency-Key": "b"})
    problem(answer, 422, "two_idempotency_keys")


def test_a_key_is_the_submitters_own(api: Served, client: httpx.Client) -> None:
    keyed = FINE | {"idempotency_key": "k"}
    other = api.client(Scope.SUBMIT, name="bob")
    assert client.post("/api/v1/jobs", json=keyed).status_code == other.post("/api/v1/jobs", json=keyed).status_code
    register(api.dsn, FLOW, "north")
    north = api.client(Scope.SUBMIT, name="ada", namespace="north")
    assert north.post("/api/v1/jobs", json=keyed).status_code == 201


def test_many_at_once_with_one_key_make_one_job(client: httpx.Client, rows: psycopg.Connection[Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post("/api/v1/jobs", json=FINE | {"idempotency_key": "k"}), range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] * 15 + [201]
    assert len({answer.json()["job_id"] for answer in answers}) == count(rows) == 1


def test_only_an_administrator_submits_in_another_name(api: Served, client: httpx.Client) -> None:
    assert client.post("/api/v1/jobs", json=FINE | {"submitted_by": "ada"}).json()["submitted_by"] == "ada"
    problem(client.post("/api/v1/jobs", json=FINE | {"submitted_by": "bob"}), 403, "scope_missing")
    head = api.client(Scope.ADMIN, name="head")
    assert head.post("/api/v1/jobs", json=FINE | {"submitted_by": "bob"}).json()["submitted_by"] == "bob"


def test_a_batch_answers_each_by_itself(client: httpx.Client, rows: psycopg.Connection[Any]) -> None:
    keyed = FINE | {"idempotency_key": "k"}
    jobs = [
        FINE,
        {"workflow_id": "other"},
        keyed,
        FINE | {"input_params": {"name": 5}},
        keyed,
        FINE | {"priority": "high", "extra": 1},
        keyed | {"priority": 3},
        None,
        FINE | {"submitted_by": "bob"},
    ]
    answer = client.post("/api/v1/jobs/batch", json={"jobs": jobs})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["created"], told["repeated"], told["refused"]) == (2, 1, 6)
    codes = [None if one["problem"] is None else one["problem"]["code"] for one in told["jobs"]]
    assert codes == [
        None,
        "unknown_workflow",
        None,
        "invalid_parameters",
        None,
        "invalid_request",
        "idempotency_key_reused",
        "invalid_request",
        "scope_missing",
    ]
    assert told["jobs"][2]["job_id"] == told["jobs"][4]["job_id"]
    assert (told["jobs"][2]["repeated"], told["jobs"][4]["repeated"]) == (False, True)
    assert pointers(told["jobs"][3]["problem"]) == ["/jobs/3/input_params/name"]
    assert sorted(pointers(told["jobs"][5]["problem"])) == ["/jobs/5/extra", "/jobs/5/priority"]
    assert count(rows) == 2


@pytest.mark.parametrize("jobs", [[], [FINE] * 1001, None, "x"])
def test_a_batch_has_one_to_a_thousand_items(client: httpx.Client, jobs: Any) -> None:
    problem(client.post("/api/v1/jobs/batch", json={"jobs": jobs}), 422, "invalid_request")


def test_a_thousand_jobs_are_one_transaction(client: httpx.Client, rows: psycopg.Connection[Any]) -> None:
    told = client.post("/api/v1/jobs/batch", json={"jobs": [FINE] * 1000}).json()
    assert told["created"] == len({one["job_id"] for one in told["jobs"]}) == 1000
    found = rows.execute("SELECT count(DISTINCT xmin::text), count(*) FROM dag_jobs").fetchone()
    assert found == (1, 1000)
    events = rows.execute("SELECT count(*) FROM dag_job_events WHERE event_type = 'job_created'").fetchone()
    assert events == (1000,)


def test_too_many_submissions_are_told_when_to_come_back(migrated_database: str) -> None:
    register(migrated_database, FLOW)
    with served(migrated_database, submits_per_second=2.0) as slow:
        eager, other = slow.client(Scope.SUBMIT), slow.client(Scope.SUBMIT)
        answers = [eager.post("/api/v1/jobs", json=FINE) for _ in range(20)]
        assert [answer.status_code for answer in answers[:4]] == [201] * 4
        refused = next(answer for answer in answers if answer.status_code == 429)
        problem(refused, 429, "too_many_submissions")
        assert int(refused.headers["retry-after"]) >= 1
        assert other.post("/api/v1/jobs", json=FINE).status_code == 201


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/batch", "/api/dag/submit"])
def test_submitting_needs_its_scope(api: Served, path: str) -> None:
    reader = api.client(Scope.READ, Scope.OPERATE)
    problem(reader.post(path, json={"jobs": [FINE]} if "batch" in path else FINE), 403, "scope_missing")


def test_the_older_routes_are_other_names(client: httpx.Client, api: Served) -> None:
    job = client.post("/api/dag/submit", json=FINE)
    assert job.status_code == 201
    job_id = job.json()["job_id"]
    assert client.get(f"/api/dag/jobs/{job_id}").json() == client.get(f"/api/v1/jobs/{job_id}").json()
    assert client.get(f"/api/dag/jobs/{job_id}/nodes").json() == {"nodes": [], "next_cursor": None}
    operator = api.client(Scope.OPERATE)
    assert operator.post(f"/api/dag/jobs/{job_id}/cancel").status_code == 202
