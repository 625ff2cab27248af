"""OGC API – Processes 1.0, requirement by requirement, and with OWSLib as a client that others wrote."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from jsonschema import Draft4Validator
from owslib.ogcapi.processes import Processes

from rmhdag.gateway.processes import CONFORMANCE, EXCEPTIONS
from rmhdag.gateway.processes_openapi import document
from rmhdag.models.events import ErrorKind
from rmhdag.models.ogc_jobs import RELATIONS
from rmhdag.models.scopes import Scope
from tests.gateway.orders import REFS, count_orders
from tests.gateway.serving import Served
from tests.orchestrator.platform import Platform

INPUTS = {"platform_id": "ddh", "platform_refs": REFS, "n": 7}


def check(name: str, body: Any) -> Any:
    """The body has the shape that the specification gives it."""
    schemas = document("")["components"]["schemas"]
    Draft4Validator({**schemas[name], "components": {"schemas": schemas}}).validate(body)
    return body


def execute(client: httpx.Client, process: str = "make_raster", expect: int = 201, **body: Any) -> httpx.Response:
    answer = client.post(f"/ogc/processes/{process}/execution", json={"inputs": INPUTS, **body})
    assert answer.status_code == expect, answer.text
    return answer


def test_core_landing_page_links_to_everything(gateway: Served) -> None:
    """/req/core/landingpage-op, /req/core/landingpage-success"""
    client = gateway.client()
    for path in ("/ogc", "/ogc/"):
        body = check("landingPage", client.get(path).json())
    links = {link["rel"]: link["href"] for link in body["links"]}
    assert {
        "service-desc",
        "service-doc",
        "conformance",
        f"{RELATIONS}/processes",
        f"{RELATIONS}/job-list",
    } <= links.keys()
    for href in links.values():
        assert client.get(href).status_code == 200, href


def test_core_conformance(gateway: Served) -> None:
    """/req/core/conformance-op, /req/core/conformance-success"""
    body = check("confClasses", gateway.client().get("/ogc/conformance").json())
    assert body["conformsTo"] == list(CONFORMANCE)


def test_oas30_definition(gateway: Served) -> None:
    """/req/oas30/oas-definition-1, /req/oas30/oas-impl: every path of the document is served."""
    client = gateway.client()
    answer = client.get("/ogc/api")
    assert answer.headers["content-type"] == "application/vnd.oai.openapi+json;version=3.0"
    body = answer.json()
    assert body["openapi"].startswith("3.0.")
    for path, methods in body["paths"].items():
        for method in methods:
            shown = client.request(method, "/ogc" + path.format(processID="nobodys", jobID="nobodys"))
            assert shown.json().get("code") not in ("not_found", "method_not_allowed"), (method, path)


def test_core_process_list_and_limit(gateway: Served, platform: Platform, chain_of_four: str) -> None:
    """/req/core/process-list, /req/core/process-list-success, /req/core/pl-limit-definition, -response"""
    client = gateway.client()
    body = check("processList", client.get("/ogc/processes").json())
    assert {chain_of_four, "make_raster"} <= {process["id"] for process in body["processes"]}
    assert len(client.get("/ogc/processes", params={"limit": 1}).json()["processes"]) == 1
    assert client.get("/ogc/processes", params={"limit": 0}).status_code == 422


def test_core_process_description(gateway: Served, platform: Platform) -> None:
    """/req/core/process, /req/core/process-success, /req/ogc-process-description/inputs-def, outputs-def"""
    body = check("process", gateway.client().get("/ogc/processes/make_raster").json())
    assert body["jobControlOptions"] == ["async-execute", "dismiss"]
    assert body["outputTransmission"] == ["value"]
    assert body["inputs"]["n"]["schema"]["type"] == "integer"
    # The workflow makes an asset, so it has to know whose.
    assert body["inputs"]["platform_refs"]["minOccurs"] == 1
    assert body["outputs"]


def test_core_exceptions_have_the_types_of_the_specification(gateway: Served, platform: Platform) -> None:
    """/req/core/process-exception-no-such-process, job-exception-no-such-job, job-results-exception-no-such-job"""
    client = gateway.client()
    for path, name in (
        ("/ogc/processes/nobodys", "no-such-process"),
        ("/ogc/jobs/nobodys", "no-such-job"),
        ("/ogc/jobs/nobodys/results", "no-such-job"),
    ):
        answer = client.get(path)
        assert answer.status_code == 404
        assert check("exception", answer.json())["type"] == f"{EXCEPTIONS}/{name}"
    assert client.delete("/ogc/jobs/nobodys").json()["type"] == f"{EXCEPTIONS}/no-such-job"
    assert execute(client, "nobodys", 404).json()["type"] == f"{EXCEPTIONS}/no-such-process"


def test_core_a_job_from_execution_to_results(gateway: Served, platform: Platform) -> None:
    """/req/core/process-execute-op, -request, -success-async, job-op, job-success, job-results-op, -async-document"""
    client = gateway.client()
    begun = execute(client)
    info = check("statusInfo", begun.json())
    assert (info["status"], info["type"], info["processID"]) == ("accepted", "process", "make_raster")
    job = begun.headers["location"]
    assert job == f"/ogc/jobs/{info['jobID']}"
    path, headers = "/ogc/processes/make_raster/execution", {"Idempotency-Key": "k"}
    again = [client.post(path, json={"inputs": INPUTS}, headers=headers) for _ in range(2)]
    assert [answer.headers.get("idempotency-replayed") for answer in again] == [None, "true"]
    assert len({answer.headers["location"] for answer in again}) == 1
    early = client.get(f"{job}/results")
    assert early.status_code == 404
    assert early.json()["type"] == f"{EXCEPTIONS}/result-not-ready"
    platform.finish(platform.seat())
    done = check("statusInfo", client.get(job).json())
    assert (done["status"], done["progress"]) == ("successful", 100)
    results = next(link["href"] for link in done["links"] if link["rel"] == f"{RELATIONS}/results")
    assert client.get(results).json() == {"n": 7}
    # It is the same order under /platform.
    assert client.get(f"/platform/status/{info['jobID']}").json()["status"] == "completed"


def test_a_workflow_without_outputs_has_one(gateway: Served, platform: Platform, chain_of_four: str) -> None:
    """/req/ogc-process-description/outputs-def: what its last nodes return."""
    client = gateway.client()
    assert list(client.get(f"/ogc/processes/{chain_of_four}").json()["outputs"]) == ["result"]
    job = execute(client, chain_of_four, inputs={}).headers["location"]
    platform.finish(platform.seat(), output={"x": 1})
    assert client.get(f"{job}/results").json() == {"result": {"d": {"x": 1}}}


def test_core_values_may_be_wrapped_and_references_are_refused(gateway: Served, platform: Platform) -> None:
    """/req/core/process-execute-input-inline-object, -input-by-reference, -input-validation"""
    client = gateway.client()
    execute(client, inputs={**INPUTS, "n": {"value": 8, "mediaType": "application/json"}})
    platform.finish(platform.seat())
    by_reference = execute(client, expect=422, inputs={**INPUTS, "n": {"href": "https://data.example.org/n"}})
    assert by_reference.json()["errors"][0]["pointer"] == "/inputs/n"
    wrong = execute(client, expect=422, inputs={**INPUTS, "n": "seven", "platform_refs": {**REFS, "resource_id": "r9"}})
    assert [line["pointer"] for line in wrong.json()["errors"]] == ["/inputs/n"]
    nobodys = execute(client, expect=422, inputs={**INPUTS, "platform_refs": {"nobodys": "1"}})
    assert nobodys.json()["errors"][0]["pointer"].startswith("/inputs/platform_refs")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"response": "raw"}, "/response"),
        ({"outputs": {"nobodys": {}}}, "/outputs/nobodys"),
        ({"outputs": {"n": {"transmissionMode": "reference"}}}, "/outputs/n/transmissionMode"),
        ({"outputs": []}, "/outputs"),
        ({"inputs": []}, "/inputs"),
        ({"mode": "sync"}, "/mode"),
    ],
)
def test_what_is_not_offered_is_refused_with_its_place(
    gateway: Served, platform: Platform, body: dict[str, Any], pointer: str
) -> None:
    answer = execute(gateway.client(), expect=422, **body)
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert count_orders(platform) == 0


def test_job_list_shows_and_filters_the_callers_jobs(gateway: Served, platform: Platform, chain_of_four: str) -> None:
    """/req/job-list/job-list-op, -success, type-, processID-, status-, datetime-, duration-, limit-definition"""
    client = gateway.client()
    execute(client)
    platform.finish(platform.seat())
    waiting = [execute(client, chain_of_four, inputs={}).json()["jobID"] for _ in range(3)]
    execute(gateway.client(name="bolt"), chain_of_four, inputs={})

    def ids(**query: Any) -> list[str]:
        body = check("jobList", client.get("/ogc/jobs", params=query).json())
        return [job["jobID"] for job in body["jobs"]]

    assert len(ids()) == 4
    assert ids(processID=chain_of_four) == waiting[::-1]
    assert ids(status="accepted") == waiting[::-1]
    assert len(ids(status="accepted,successful")) == 4
    assert ids(type="other") == []
    assert ids(datetime="../2020-01-01T00:00:00Z") == []
    assert len(ids(datetime="2020-01-01T00:00:00Z/..")) == 4
    assert ids(minDuration=3600) == []
    first = client.get("/ogc/jobs", params={"limit": 3, "processID": chain_of_four}).json()
    assert [link["rel"] for link in first["links"]] == ["self"]
    page = client.get("/ogc/jobs", params={"limit": 3}).json()
    following = next(link["href"] for link in page["links"] if link["rel"] == "next")
    assert len(client.get(following).json()["jobs"]) == 1
    assert client.get("/ogc/jobs", params={"status": "nearly"}).status_code == 422
    assert client.get("/ogc/jobs", params={"datetime": "yesterday"}).status_code == 422
    assert client.get("/ogc/jobs", params={"type": "x" * 401}).status_code == 422


def test_dismiss_cancels_a_job(gateway: Served, platform: Platform) -> None:
    """/req/dismiss/job-dismiss-op, /req/dismiss/job-dismiss-success"""
    client = gateway.client()
    seat = platform.seat()
    job = execute(client).headers["location"]
    seat.work()
    dismissed = client.delete(job)
    assert dismissed.status_code == 200, dismissed.text
    assert check("statusInfo", dismissed.json())["status"] == "dismissed"
    seat.work()
    assert client.get(job).json()["status"] == "dismissed"
    # The specification has no other answer to a DELETE of a job that exists.
    assert client.delete(job).status_code == 200
    done = execute(client).headers["location"]
    platform.finish(seat)
    assert client.delete(done).status_code == 409


def test_a_dismissed_job_is_dismissed_while_its_work_stops(gateway: Served, platform: Platform) -> None:
    """/req/dismiss/job-dismiss-success: from the answer on, wherever the job is shown."""
    client = gateway.client()
    seat = platform.seat()
    job = execute(client).headers["location"]
    seat.work()
    (claimed,) = platform.claim(1)
    assert client.delete(job).status_code == 200

    def look() -> dict[str, Any]:
        info: dict[str, Any] = check("statusInfo", client.get(job).json())
        (line,) = client.get("/ogc/jobs", params={"status": "dismissed"}).json()["jobs"]
        assert line["status"] == info["status"] == "dismissed"
        assert client.get("/ogc/jobs", params={"status": "running,accepted"}).json()["jobs"] == []
        results = client.get(f"{job}/results")
        assert (results.status_code, results.json()["code"]) == (400, "job_failed")
        again = client.delete(job)
        assert (again.status_code, check("statusInfo", again.json())["status"]) == (200, "dismissed")
        return info

    # Before the platform has heard of it, while the handler is still busy, and when all has ended.
    assert "finished" not in look()
    seat.work()
    assert "finished" not in look()
    platform.fail(claimed)
    seat.work()
    assert look()["finished"]


def test_another_clients_job_does_not_exist(gateway: Served, platform: Platform) -> None:
    job = execute(gateway.client()).headers["location"]
    other = gateway.client(name="bolt")
    for path in (job, f"{job}/results"):
        assert other.get(path).json()["type"] == f"{EXCEPTIONS}/no-such-job"
    assert other.delete(job).status_code == 404


def test_a_failed_job_says_why(gateway: Served, platform: Platform) -> None:
    """/req/core/job-results-failed"""
    client = gateway.client()
    seat = platform.seat()
    job = execute(client).headers["location"]
    seat.work()
    (claimed,) = platform.claim(1)
    platform.fail(claimed, kind=ErrorKind.NON_RETRYABLE)
    seat.work()
    assert client.get(job).json()["status"] == "failed"
    answer = client.get(f"{job}/results")
    assert answer.status_code >= 400
    assert answer.json()["code"] == "job_failed"


def test_owslib_finds_describes_and_runs_a_process(gateway: Served, platform: Platform) -> None:
    key = gateway.client(Scope.B2B).headers["authorization"]
    service = Processes(f"{gateway.url}/ogc", headers={"Authorization": key})
    assert service.conformance()["conformsTo"] == list(CONFORMANCE)
    assert "make_raster" in [process["id"] for process in service.processes()]
    assert service.process("make_raster")["inputs"]["n"]["schema"]["type"] == "integer"
    info = service.execute("make_raster", INPUTS, async_=True)
    assert info["status"] == "accepted"
    platform.finish(platform.seat())
    assert gateway.with_key(key.split()[1]).get(f"/ogc/jobs/{info['jobID']}").json()["status"] == "successful"
