"""Labels over HTTP: given with a job, carried by reruns, changed by operators, found again, refused if they are bad."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from tests.api.serving import Served
from tests.api.test_foundation import problem
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform

FLOW = workflow(only=task())
LABELS = {"aoi": "oslo", "team": "gis"}
HOSTILE = "<b>&'\";--${x} %s {{ a }} \\ ☃"


@pytest.fixture
def client(api: Served, platform: Platform) -> httpx.Client:
    platform.register(FLOW)
    return api.client(Scope.SUBMIT, Scope.READ, Scope.OPERATE, name="ada")


def submit(client: httpx.Client, labels: dict[str, str] | None = None, **more: Any) -> str:
    body = {"workflow_id": FLOW.workflow_id, **({} if labels is None else {"labels": labels}), **more}
    answer = client.post("/api/v1/jobs", json=body)
    assert answer.status_code in (200, 201), answer.text
    return str(answer.json()["job_id"])


def found(client: httpx.Client, *labels: str, **more: Any) -> list[str]:
    answer = client.get("/api/v1/jobs", params={"label": list(labels), **more})
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]]


def change(client: httpx.Client, job_id: str, *remove: str, **put: str) -> httpx.Response:
    return client.post(f"/api/v1/jobs/{job_id}/labels", json={"put": put, "remove": list(remove)})


def places(body: Any) -> list[str]:
    return [place["pointer"] for place in body["errors"]]


def test_labels_are_shown_wherever_the_job_is(client: httpx.Client) -> None:
    job_id = submit(client, LABELS)
    plain = submit(client)
    listed = {job["job_id"]: job["labels"] for job in client.get("/api/v1/jobs").json()["jobs"]}
    assert listed == {job_id: LABELS, plain: {}}
    assert client.get(f"/api/v1/jobs/{job_id}").json()["labels"] == LABELS
    assert client.get(f"/api/v1/jobs/{job_id}/overview").json()["labels"] == LABELS
    assert client.get(f"/api/v1/jobs/{plain}").json()["labels"] == {}


def test_jobs_are_found_by_labels_and_counted_alike(client: httpx.Client) -> None:
    oslo, bergen, plain = submit(client, LABELS), submit(client, {"aoi": "bergen"}), submit(client)
    assert found(client, "aoi=oslo") == [oslo]
    assert found(client, "aoi") == [bergen, oslo]
    assert found(client, "aoi", "team=gis") == [oslo]
    assert found(client, "aoi=oslo", "aoi=bergen") == found(client, "aoi=osl") == found(client, "nothing") == []
    assert found(client, "team", status="completed") == []
    assert found(client, limit=1) == [plain]
    for labels, count in ((["aoi"], 2), (["aoi=bergen"], 1), (["aoi", "team"], 1), (["nothing"], 0)):
        counts = client.get("/api/v1/jobs/counts", params={"label": labels}).json()["counts"]
        assert sum(counts.values()) == counts["pending"] == count


def test_pages_of_a_label(client: httpx.Client) -> None:
    jobs = [submit(client, {"aoi": "oslo"}) for _ in range(5)]
    first = client.get("/api/v1/jobs", params={"label": "aoi", "limit": 3}).json()
    rest = client.get("/api/v1/jobs", params={"label": "aoi", "limit": 3, "cursor": first["next_cursor"]}).json()
    assert [job["job_id"] for page in (first, rest) for job in page["jobs"]] == jobs[::-1]
    assert rest["next_cursor"] is None


def test_a_batch_gives_each_job_its_own(client: httpx.Client) -> None:
    jobs = [{"workflow_id": FLOW.workflow_id, "labels": labels} for labels in ({"n": "0"}, {"N": "1"}, {}, {"n": "3"})]
    answers = client.post("/api/v1/jobs/batch", json={"jobs": jobs}).json()
    assert (answers["created"], answers["refused"]) == (3, 1)
    assert [place["pointer"] for place in answers["jobs"][1]["problem"]["errors"]] == ["/jobs/1/labels/N/[key]"]
    assert found(client, "n=0") == [answers["jobs"][0]["job_id"]]
    assert found(client, "n=3") == [answers["jobs"][3]["job_id"]]


def test_a_key_stands_for_the_labels_too(client: httpx.Client) -> None:
    job_id = submit(client, LABELS, idempotency_key="k")
    assert submit(client, dict(reversed(LABELS.items())), idempotency_key="k") == job_id
    other = {"workflow_id": FLOW.workflow_id, "labels": {"aoi": "bergen"}, "idempotency_key": "k"}
    problem(client.post("/api/v1/jobs", json=other), 422, "idempotency_key_reused")
    # What somebody changes later is no part of what was asked for.
    change(client, job_id, "aoi", "team")
    assert submit(client, LABELS, idempotency_key="k") == job_id


def test_reruns_have_the_labels_that_the_job_has_then(client: httpx.Client, platform: Platform) -> None:
    job_id = submit(client, LABELS)
    platform.finish(platform.seat())
    change(client, job_id, "team", aoi="bergen")
    again = client.post(f"/api/v1/jobs/{job_id}/rerun", json={"everything": True}).json()["job_id"]
    assert client.get(f"/api/v1/jobs/{again}").json()["labels"] == {"aoi": "bergen"}
    assert found(client, "aoi=bergen") == [again, job_id]


def test_operators_change_labels_of_jobs_in_any_state(client: httpx.Client, platform: Platform, api: Served) -> None:
    job_id = submit(client, LABELS)
    answer = change(client, job_id, "team", "never_there", aoi="bergen", note=HOSTILE)
    assert answer.status_code == 200
    assert answer.json() == {"job_id": job_id, "labels": {"aoi": "bergen", "note": HOSTILE}, "changed": True}
    assert change(client, job_id, "team", aoi="bergen").json()["changed"] is False
    platform.finish(platform.seat())
    assert change(client, job_id, "note").json()["labels"] == {"aoi": "bergen"}
    assert found(client, "aoi=bergen", status="completed") == [job_id]
    lines = api.client(Scope.ADMIN).get("/api/v1/audit", params={"action": "job.label"}).json()["entries"]
    assert [(line["actor"], line["subject"], line["before"], line["after"]) for line in lines] == [
        ("ada", f"job {job_id}", {"note": HOSTILE}, {}),
        ("ada", f"job {job_id}", LABELS, {"aoi": "bergen", "note": HOSTILE}),
    ]


def test_only_operators_of_its_namespace_change_them(client: httpx.Client, api: Served) -> None:
    job_id = submit(client, LABELS)
    problem(change(api.client(Scope.SUBMIT, Scope.READ), job_id, "aoi"), 403, "scope_missing")
    stranger = api.client(Scope.SUBMIT, Scope.READ, Scope.OPERATE, namespace="north")
    problem(change(stranger, job_id, "aoi"), 404, "not_found")
    problem(change(client, "no job", "aoi"), 404, "not_found")
    problem(change(client, "f" * 32, "aoi"), 404, "not_found")
    assert found(stranger, "aoi") == []
    assert client.get(f"/api/v1/jobs/{job_id}").json()["labels"] == LABELS


@pytest.mark.parametrize(
    ("labels", "pointer", "sentence"),
    [
        ({"Aoi": "x"}, "/labels/Aoi/[key]", "lower-case letters"),
        ({"": "x"}, "/labels//[key]", "1 to 63"),
        ({"a" * 64: "x"}, f"/labels/{'a' * 64}/[key]", "1 to 63"),
        ({"aoi": "x" * 201}, "/labels/aoi", "at most 200 characters, and this one has 201"),
        ({"aoi": 7}, "/labels/aoi", "write it in quotes"),
        ({"aoi": "a\nb"}, "/labels/aoi", "U+000A"),
        ({"aoi": "\u202eolso"}, "/labels/aoi", "U+202E at position 1: remove it"),
        ({f"k{n}": "" for n in range(17)}, "/labels", "it has 17 members, and at most 16 are allowed"),
        (["aoi=oslo"], "/labels", "dictionary"),
    ],
)
def test_bad_labels_are_refused_with_their_place(
    client: httpx.Client, labels: Any, pointer: str, sentence: str
) -> None:
    answer = client.post("/api/v1/jobs", json={"workflow_id": FLOW.workflow_id, "labels": labels})
    body = problem(answer, 422, "invalid_request")
    assert places(body) == [pointer]
    assert sentence in str(body["detail"])
    job_id = submit(client)
    body = problem(client.post(f"/api/v1/jobs/{job_id}/labels", json={"put": labels}), 422, "invalid_request")
    assert places(body) == [pointer.replace("/labels", "/put", 1)]
    order = {"workflow_id": FLOW.workflow_id, "labels": labels}
    body = problem(client.post("/api/v1/submit", json=order), 422, "invalid_request")
    assert places(body) == [pointer]


def test_a_change_that_cannot_be_is_refused_whole(client: httpx.Client) -> None:
    job_id = submit(client, {f"k{n}": "" for n in range(16)})
    body = problem(change(client, job_id, aoi="oslo"), 422, "too_many_labels")
    assert (*places(body), body["remedy"]) == ("/put", "Remove some in the same call.")
    both = client.post(f"/api/v1/jobs/{job_id}/labels", json={"put": {"k1": "x"}, "remove": ["k1"]})
    assert "the label 'k1' is put and removed" in str(problem(both, 422, "invalid_request")["detail"])
    assert change(client, job_id, "k0", aoi="oslo").status_code == 200
    assert len(client.get(f"/api/v1/jobs/{job_id}").json()["labels"]) == 16


@pytest.mark.parametrize("label", ["", "=x", "Aoi", "aoi=" + "x" * 201, "aoi=\u202e", "a b=c", "aoi'; DROP TABLE x"])
def test_bad_filters_are_refused(client: httpx.Client, label: str) -> None:
    for path in ("jobs", "jobs/counts"):
        body = problem(client.get(f"/api/v1/{path}", params={"label": label}), 422, "invalid_request")
        assert [place.startswith("/query/label") for place in places(body)] == [True]


@pytest.mark.parametrize("value", [HOSTILE, "%", "_", "\\", "a=b", " ", "", "😀", "null", "*"])
def test_values_are_compared_as_they_are(client: httpx.Client, value: str) -> None:
    job_id = submit(client, {"note": value})
    submit(client, {"note": "another"})
    assert found(client, f"note={value}") == [job_id]


def test_an_order_and_its_job_have_its_labels(client: httpx.Client, platform: Platform) -> None:
    order = {"workflow_id": FLOW.workflow_id, "labels": LABELS, "request_id": "march"}
    accepted = client.post("/api/v1/submit", json=order).json()
    assert found(client, "aoi=oslo", "team=gis") == [accepted["job_id"]]
    change(client, accepted["job_id"], "team", internal="yes")
    assert client.get("/api/v1/requests/march").json()["labels"] == LABELS
    assert client.post("/api/v1/submit", json=order).json()["job_id"] == accepted["job_id"]
    problem(client.post("/api/v1/submit", json={**order, "labels": {}}), 422, "request_reused")


def test_a_dry_run_writes_no_labels(client: httpx.Client, platform: Platform) -> None:
    body = {"workflow_id": FLOW.workflow_id, "labels": LABELS, "dry_run": True}
    assert client.post("/api/v1/jobs", json=body).status_code == 200
    assert platform.count("dag_job_labels") == 0
