"""Workflows over HTTP: checked as the command line checks them, registered once per version."""

from __future__ import annotations

from contextlib import closing

import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store.workers import register_handlers
from tests.api.serving import Served, served
from tests.api.test_foundation import problem
from tests.orchestrator.platform import Platform

FLOW = """\
workflow_id: small
name: Small
nodes:
  only: {handler: echo, queue: light, params: {a: 1}}
"""
BAD = """\
workflow_id: small
nodes:
  first: {handler: echoo, queue: light, next: secnd}
  second: {handler: echo, queue: nowhere}
"""
YAML = {"Content-Type": "application/yaml"}


def test_a_workflow_is_registered_once(api: Served) -> None:
    client = api.client(Scope.OPERATE, Scope.READ, name="ada")
    first = client.post("/api/v1/workflows", content=FLOW, headers=YAML)
    assert (first.status_code, first.json()["is_new"], first.json()["node_count"]) == (201, True, 1)
    again = client.post("/api/v1/workflows", content=FLOW, headers=YAML)
    assert (again.status_code, again.json()["is_new"]) == (200, False)
    assert again.json()["hash"] == first.json()["hash"]
    found = client.get("/api/v1/workflows/small").json()
    assert (found["version"], found["registered_by"], list(found["definition"]["nodes"])) == (1, "ada", ["only"])


def test_other_content_is_refused_outside_development(api: Served) -> None:
    client = api.client(Scope.OPERATE)
    assert client.post("/api/v1/workflows", content=FLOW, headers=YAML).status_code == 201
    changed = client.post("/api/v1/workflows", content=FLOW.replace("a: 1", "a: 2"), headers=YAML)
    assert problem(changed, 409, "other_content")["errors"]


def test_other_content_takes_its_place_in_development(migrated_database: str) -> None:
    with served(migrated_database, development=True) as api:
        client = api.client(Scope.OPERATE, Scope.READ)
        assert client.post("/api/v1/workflows", content=FLOW, headers=YAML).status_code == 201
        changed = client.post("/api/v1/workflows", content=FLOW.replace("a: 1", "a: 2"), headers=YAML)
        assert changed.status_code == 201
        definition = client.get("/api/v1/workflows/small").json()["definition"]
        assert definition["nodes"]["only"]["task"]["params"] == {"a": 2}


def test_a_retired_workflow_takes_neither_jobs_nor_orders(api: Served) -> None:
    client = api.client(Scope.OPERATE, Scope.READ, Scope.SUBMIT, name="ada")
    client.post("/api/v1/workflows", content=FLOW, headers=YAML)
    line = client.post("/api/v1/workflows/small/retire").json()
    assert (line["workflow_id"], line["retired_by"]) == ("small", "ada")
    assert client.post("/api/v1/workflows/small/retire").json() == line, "the first time counts"
    assert client.get("/api/v1/workflows").json()["workflows"] == []
    assert client.get("/api/v1/workflows", params={"retired_too": True}).json()["workflows"] == [line]
    body = {"workflow_id": "small", "input_params": {}}
    found = problem(client.post("/api/v1/jobs", json=body), 409, "workflow_retired")
    assert "/restore" in str(found["remedy"])
    problem(client.post("/api/v1/submit", json=body), 409, "workflow_retired")
    [one] = client.post("/api/v1/jobs/batch", json={"jobs": [body]}).json()["jobs"]
    assert one["problem"]["code"] == "workflow_retired"
    client.post("/api/v1/workflows", content=FLOW, headers=YAML)
    assert client.post("/api/v1/jobs", json=body).status_code == 409, "the same content again changes nothing"
    client.post("/api/v1/workflows", content=f"{FLOW}version: 2\n", headers=YAML)
    assert client.post("/api/v1/jobs", json=body).status_code == 201, "a newer version is a new beginning"
    assert client.post("/api/v1/jobs", json=body | {"version": 1}).status_code == 409
    assert client.post("/api/v1/workflows/small/restore").json()["retired_at"] is None
    assert client.post("/api/v1/jobs", json=body | {"version": 1}).status_code == 201


def test_who_submits_again_gets_the_first_job_of_a_retired_workflow(api: Served) -> None:
    client = api.client(Scope.OPERATE, Scope.READ, Scope.SUBMIT)
    client.post("/api/v1/workflows", content=FLOW, headers=YAML)
    body = {"workflow_id": "small", "input_params": {}, "idempotency_key": "k"}
    first = client.post("/api/v1/jobs", json=body).json()["job_id"]
    client.post("/api/v1/workflows/small/retire")
    assert client.post("/api/v1/jobs", json=body).json()["job_id"] == first


def test_only_operators_retire_and_only_what_is_there(api: Served) -> None:
    for word in ("retire", "restore"):
        problem(api.client(Scope.OPERATE).post(f"/api/v1/workflows/small/{word}"), 404, "not_found")
        problem(api.client(Scope.READ, Scope.SUBMIT).post(f"/api/v1/workflows/small/{word}"), 403, "scope_missing")


def test_all_problems_are_told_with_their_places(api: Served) -> None:
    client = api.client(Scope.READ)
    told = client.post("/api/v1/workflows/validate", content=BAD, headers=YAML).json()
    assert (told["valid"], told["workflow_id"]) == (False, None)
    places = {(one["code"], one["line"], one["pointer"]) for one in told["problems"]}
    assert ("unknown-handler", 3, "/nodes/first/handler") in places
    assert ("unknown-queue", 4, "/nodes/second/queue") in places
    assert any(one["remedy"] == "Did you mean `second`?" for one in told["problems"])


CLIP = {
    "handler": "mine.clip",
    "aliases": [],
    "queue": "light",
    "version": "1",
    "description": "",
    "params_schema": {"type": "object", "properties": {"tile": {"type": "string"}}, "additionalProperties": False},
    "output_schema": {"type": "object", "properties": {"area": {"type": "number"}}},
}
CLIPPING = """\
workflow_id: clipping
nodes:
  one: {handler: mine.clip, params: {tlie: a}, next: two}
  two: {handler: echo, queue: light, params: {area: "{{ nodes.one.output.aera }}"}}
"""


def test_parameters_and_outputs_are_held_against_what_workers_registered(api: Served, migrated_database: str) -> None:
    client = api.client(Scope.OPERATE, Scope.READ)
    with closing(Platform(migrated_database)) as platform:
        register_handlers(platform.conn, [CLIP])
    told = client.post("/api/v1/workflows/validate", content=CLIPPING, headers=YAML).json()
    assert [(one["pointer"], one["remedy"]) for one in told["problems"]] == [
        ("/nodes/one/params/tlie", "Did you mean `tile`?"),
        ("/nodes/two/params/area", "Did you mean `area`?"),
    ]
    problem(client.post("/api/v1/workflows", content=CLIPPING, headers=YAML), 422, "invalid_workflow")
    fine = CLIPPING.replace("tlie", "tile").replace("aera", "area")
    assert client.post("/api/v1/workflows", content=fine, headers=YAML).status_code == 201


def test_a_workflow_that_no_longer_fits_its_handlers_is_not_started(api: Served, migrated_database: str) -> None:
    """Its handlers have changed since it was registered, or nobody checked it then."""
    client = api.client(Scope.OPERATE, Scope.READ, Scope.SUBMIT, name="ada")
    with closing(Platform(migrated_database)) as platform:
        register_handlers(platform.conn, [CLIP])
        fine = CLIPPING.replace("tlie", "tile").replace("aera", "area")
        assert client.post("/api/v1/workflows", content=fine, headers=YAML).status_code == 201
        wanted = {"workflow_id": "clipping", "input_params": {}}
        assert client.post("/api/v1/jobs", json=wanted).status_code == 201
        changed = {"type": "object", "properties": {"tiles": {"type": "array"}}, "additionalProperties": False}
        register_handlers(platform.conn, [CLIP | {"params_schema": changed}])
        refused = problem(client.post("/api/v1/jobs", json=wanted), 409, "unfit_workflow")
        assert "node `one`: handler `mine.clip` has no parameter `tile`. Did you mean `tiles`?" in str(
            refused["detail"]
        )
        both = client.post("/api/v1/jobs/batch", json={"jobs": [wanted, wanted]}).json()
        assert both["created"] == 0
        register_handlers(platform.conn, [CLIP])
        assert client.post("/api/v1/jobs", json=wanted).status_code == 201


def test_json_is_checked_alike(api: Served) -> None:
    client = api.client(Scope.READ)
    written = {"workflow_id": "small", "nodes": {"only": {"handler": "echo", "queue": "light"}}}
    told = client.post("/api/v1/workflows/validate", json=written).json()
    assert (told["valid"], told["workflow_id"], told["node_count"]) == (True, "small", 1)
    written["nodes"] = {"only": {"handler": "echo", "queue": "nowhere"}}
    told = client.post("/api/v1/workflows/validate", json=written).json()
    assert [(one["pointer"], one["line"]) for one in told["problems"]] == [("/nodes/only/queue", None)]


def test_registering_what_is_wrong_stores_nothing(api: Served) -> None:
    client = api.client(Scope.OPERATE, Scope.READ)
    body = problem(client.post("/api/v1/workflows", content=BAD, headers=YAML), 422, "invalid_workflow")
    errors = body["errors"]
    assert isinstance(errors, list)
    assert {"line", "column", "pointer", "detail"} == set(errors[0])
    problem(client.get("/api/v1/workflows/small"), 404, "not_found")


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "multipart/form-data; boundary=x"])
def test_other_types_of_bodies_are_refused(api: Served, kind: str) -> None:
    answer = api.client(Scope.READ).post("/api/v1/workflows/validate", content=FLOW, headers={"Content-Type": kind})
    problem(answer, 415, "media_type_not_supported")


def test_pages_and_versions(api: Served) -> None:
    client = api.client(Scope.OPERATE, Scope.READ)
    for name in ("a", "b", "c"):
        for version in (1, 2):
            text = FLOW.replace("small", name) + f"version: {version}\n"
            assert client.post("/api/v1/workflows", content=text, headers=YAML).status_code == 201
    page = client.get("/api/v1/workflows?limit=2").json()
    assert [(one["workflow_id"], one["version"]) for one in page["workflows"]] == [("a", 2), ("b", 2)]
    last = client.get("/api/v1/workflows", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert ([one["workflow_id"] for one in last["workflows"]], last["next_cursor"]) == (["c"], None)
    versions = client.get("/api/v1/workflows/b/versions?limit=1").json()
    rest = client.get("/api/v1/workflows/b/versions", params={"cursor": versions["next_cursor"]}).json()
    assert [one["version"] for one in (*versions["versions"], *rest["versions"])] == [2, 1]
    assert client.get("/api/v1/workflows/b?version=1").json()["version"] == 1
    found = client.get("/api/v1/workflows?text=SMALL").json()
    assert [one["workflow_id"] for one in found["workflows"]] == ["a", "b", "c"]
    assert client.get("/api/v1/workflows", params={"text": "%"}).json()["workflows"] == []
    other = write_cursor_of_another_kind(client.get("/api/v1/workflows/b/versions?limit=1").json())
    problem(client.get("/api/v1/workflows", params={"cursor": other}), 400, "invalid_cursor")


def write_cursor_of_another_kind(page: dict[str, str]) -> str:
    return page["next_cursor"]


def test_another_namespace_has_its_own(api: Served) -> None:
    assert api.client(Scope.OPERATE).post("/api/v1/workflows", content=FLOW, headers=YAML).status_code == 201
    other = api.client(Scope.READ, namespace="north")
    assert other.get("/api/v1/workflows").json()["workflows"] == []
    theirs, unknown = other.get("/api/v1/workflows/small"), other.get("/api/v1/workflows/tiny")
    assert (theirs.status_code, theirs.json()) == (404, unknown.json())


def test_a_queue_is_there_for_those_whom_its_workers_serve(api: Served) -> None:
    worker = {"worker_id": "a" * 32, "host": "here", "version": "1", "slots": 1, "queues": ["northern"]}
    joined = api.client(Scope.WORKER, namespace="north").post("/api/v1/workers/register", json=worker)
    assert joined.status_code == 200, joined.text
    flow = FLOW.replace("light", "northern")
    for namespace, status in (("north", 201), ("default", 422)):
        client = api.client(Scope.OPERATE, namespace=namespace)
        assert client.post("/api/v1/workflows", content=flow, headers=YAML).status_code == status


def test_the_language_is_published(api: Served) -> None:
    schema = api.client(Scope.READ).get("/api/v1/workflows/schema").json()
    assert schema["required"] == ["workflow_id", "nodes"]
