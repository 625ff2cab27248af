"""OGC API – Processes, part 1, version 1.0: a process is a workflow, and a job is an order.

A thin face: orders are placed, read and cancelled exactly as under /platform, with the same keys, quotas and boundary.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from rmhdag.gateway import orders
from rmhdag.gateway.calls import Call
from rmhdag.gateway.database import Row
from rmhdag.gateway.problems import Problem, invalid, not_found
from rmhdag.gateway.processes_openapi import document
from rmhdag.gateway.reads import Place
from rmhdag.models.ogc_jobs import (
    BASE,
    RELATIONS,
    SUBSCRIBER,
    current_info,
    is_dismissed,
    line_info,
    link_to,
    results_of,
)
from rmhdag.models.partner_orders import ENDED, cancelled_error, moment, segment, shown_status, state_of

SPECIFICATION = "http://www.opengis.net/spec/ogcapi-processes-1/1.0"
EXCEPTIONS = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"
OPENAPI_TYPE = "application/vnd.oai.openapi+json;version=3.0"
CONFORMANCE = (
    "http://www.opengis.net/spec/ogcapi-common-1/1.0/conf/core",
    *(f"{SPECIFICATION}/conf/{name}" for name in ("core", "ogc-process-description", "json", "oas30")),
    *(f"{SPECIFICATION}/conf/{name}" for name in ("job-list", "callback", "dismiss")),
)
# Of a workflow's inputs: what is a word of JSON Schema, and so of a process description.
SCHEMA_WORDS = (
    *("type", "default", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "items", "properties"),
    "additionalProperties",
)
# For a workflow that makes an asset: whose it is, beside the inputs of the workflow.
ASSET_INPUTS: dict[str, dict[str, Any]] = {
    "platform_id": {
        "title": "platform_id",
        "description": "Whose references these are",
        "schema": {"type": "string"},
        "minOccurs": 1,
        "maxOccurs": 1,
    },
    "platform_refs": {
        "title": "platform_refs",
        "description": "What your platform calls the data",
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        "minOccurs": 1,
        "maxOccurs": 1,
    },
}
# Which of our states can be what a caller asks for; a dismissed job is a failed one of ours.
ASKED = {"accepted": "pending", "running": "running", "successful": "completed", "failed": "failed"}
# Where a caller has given what is a place in an order.
GIVEN = {
    "/input_params": "/inputs",
    **{f"/{name}": f"/inputs/{name}" for name in ASSET_INPUTS},
    **{f"/subscriber/{ours}": f"/subscriber/{theirs}" for theirs, ours in SUBSCRIBER.items()},
}
MOST_LIST_CHARACTERS = 400
# Jobs that are read at most to fill a page whose filter the database does not know.
MOST_READ = 500


async def landing(call: Call) -> Response:
    """Where everything is."""
    call.allow("f")
    links = [
        link(call, "", "self", "This document"),
        {**link(call, "/api", "service-desc", "The API definition"), "type": OPENAPI_TYPE},
        {"href": call.link("/docs"), "rel": "service-doc", "type": "text/html", "title": "The API as a page"},
        link(call, "/conformance", "conformance", "What this implements"),
        link(call, "/conformance", f"{RELATIONS}/conformance", "What this implements"),
        link(call, "/processes", f"{RELATIONS}/processes", "What can be run"),
        link(call, "/jobs", f"{RELATIONS}/job-list", "Your jobs"),
    ]
    return call.answer({"title": "rmhdag", "description": "Workflows for geospatial data", "links": links})


async def conformance(call: Call) -> Response:
    """The requirements classes of OGC API – Processes 1.0 that this is tested against."""
    call.allow("f")
    return call.answer({"conformsTo": list(CONFORMANCE)})


async def api_definition(call: Call) -> Response:
    """This part of the gateway in OpenAPI 3.0."""
    response = call.answer(document(call.link(BASE)))
    response.headers["Content-Type"] = OPENAPI_TYPE
    return response


async def list_processes(call: Call) -> Response:
    """What can be run: workflows with their titles."""
    call.allow("limit", "f")
    limit = call.limit(100)
    rows = await call.gateway.reads.list_workflows(call.holder)
    links = [link(call, "/processes", "self", "This document")]
    return call.answer({"processes": [summary(call, row) for row in rows[:limit]], "links": links})


async def get_process(call: Call) -> Response:
    """A workflow with its inputs and outputs."""
    call.allow("f")
    row = await find_process(call)
    described = {**summary(call, row), "inputs": inputs_of(row), "outputs": outputs_of(row)}
    return call.answer(described)


async def execute(call: Call) -> Response:
    """Run a workflow. It is always answered at once, with 201 and the address of the job."""
    call.allow()
    row = await find_process(call)
    body = await call.body()
    order = order_of(row, body)
    subscriber = subscriber_of(body.get("subscriber"))
    with orders.places_as_given(GIVEN):
        answer, is_repeat = await orders.place(call, order, call.request.headers.get(orders.KEY_HEADER), subscriber)
    if "request_id" not in answer:
        return call.answer(answer)
    request_id = answer["request_id"]
    job = await call.gateway.reads.find_request(call.holder, request_id)
    if job is None:
        raise not_found()
    status = current_info(job[0], call.link(""), job[1])
    headers = {"Location": call.link(f"{BASE}/jobs/{segment(request_id)}"), "Retry-After": str(orders.POLL_SECONDS)}
    if "respond-async" in call.request.headers.get("prefer", ""):
        headers["Preference-Applied"] = "respond-async"
    if is_repeat:
        headers[orders.REPLAYED] = "true"
    return call.answer(status, 201, headers)


async def list_jobs(call: Call) -> Response:
    """Your jobs, newest first."""
    call.allow("type", "processID", "status", "datetime", "minDuration", "maxDuration", "limit", "cursor", "f")
    job_filter = _JobFilter(call)
    limit = call.limit(100)
    page: list[tuple[Row, dict[str, Any]]] = []
    place = call.cursor()
    while job_filter.is_possible and len(page) <= limit:
        rows = await call.gateway.reads.list_requests(
            call.holder, state=job_filter.state, since=job_filter.since, refs=None, before=place, limit=MOST_READ
        )
        page += [(row, line) for row in rows if job_filter.fits(row, line := shown_line(call, row))]
        if len(rows) < MOST_READ:
            break
        place = Place(rows[-1]["submitted_at"], rows[-1]["request_id"])
    links = [link(call, "/jobs", "self", "This document")]
    if len(page) > limit:
        last = page[limit - 1][0]
        following = call.next_link(Place(last["submitted_at"], last["request_id"]))
        links.append({"href": following, "rel": "next", "type": "application/json", "title": "The next page"})
    return call.answer({"jobs": [line for _, line in page[:limit]], "links": links})


async def get_job(call: Call) -> Response:
    """How a job stands."""
    call.allow("f")
    row, percent = await find_job(call)
    headers = {} if state_of(row) in ENDED else {"Retry-After": str(orders.POLL_SECONDS)}
    return call.answer(current_info(row, call.link(""), percent), headers=headers)


async def get_results(call: Call) -> Response:
    """The results of a job, by the names of its outputs."""
    call.allow("f")
    row, percent = await find_job(call)
    status = shown_status(row, percent)
    if status["status"] == "failed" or is_dismissed(row):
        error = status["error"] or cancelled_error()
        raise Problem(
            500 if not error.get("user_fixable") else 400,
            "job_failed",
            str(error.get("message")),
            remedy=error.get("remediation"),
        )
    if status["status"] != "completed":
        raise exception(404, "result-not-ready", "the job has not ended", retry=True)
    return call.answer(results_of(row, names_outputs=await names_outputs(call, row)))


async def dismiss(call: Call) -> Response:
    """Cancel a job. It is dismissed from then on, and may be dismissed again."""
    call.allow("f")
    row, percent = await find_job(call)
    info = current_info(row, call.link(""), percent)
    if is_dismissed(row):
        return call.answer(info)
    if state_of(row) in ENDED:
        raise Problem(409, "job_ended", "the job has ended, and what it has made is kept")
    if await call.gateway.reads.shares_job(row):
        raise Problem(409, "order_shared", "another order waits for the same work")
    await orders.forward_to_job(call, row, "cancel", {"reason": "dismissed"})
    return call.answer({**info, "status": "dismissed", "message": "dismissed"})


# -- processes -----------------------------------------------------------------------------------------------------


async def find_process(call: Call) -> Row:
    for row in await call.gateway.reads.list_workflows(call.holder):
        if row["workflow_id"] == call.path["processID"]:
            return row
    raise exception(404, "no-such-process", "there is no such process")


async def names_outputs(call: Call, job: Row) -> bool:
    """Whether the workflow of a job names its outputs. The newest version stands for a job that is not kept."""
    stored = await call.gateway.reads.names_outputs(call.holder, job["platform_request_id"])
    if stored is not None:
        return stored
    rows = await call.gateway.reads.list_workflows(call.holder)
    return any(row["output_names"] for row in rows if row["workflow_id"] == job["workflow_id"])


def summary(call: Call, row: Row) -> dict[str, Any]:
    name = segment(row["workflow_id"])
    return {
        "id": row["workflow_id"],
        "version": str(row["version"]),
        "title": row["name"] or row["workflow_id"],
        "description": row["description"] or "",
        "jobControlOptions": ["async-execute", "dismiss"],
        "outputTransmission": ["value"],
        "links": [
            link(call, f"/processes/{name}", "self", "Its description"),
            link(call, f"/processes/{name}/execution", f"{RELATIONS}/execute", "Run it"),
        ],
    }


def inputs_of(row: Row) -> dict[str, Any]:
    inputs: dict[str, Any] = dict(ASSET_INPUTS) if row["produces"] else {}
    for name, declared in (row["inputs"] or {}).items():
        schema = {word: declared[word] for word in SCHEMA_WORDS if declared.get(word) is not None}
        inputs[name] = {
            "title": name,
            "description": declared.get("description") or "",
            "schema": schema,
            "minOccurs": 1 if declared.get("required") else 0,
            "maxOccurs": 1,
        }
    return inputs


def outputs_of(row: Row) -> dict[str, Any]:
    names = row["output_names"] or ["result"]
    return {name: {"title": name, "schema": {} if row["output_names"] else {"type": "object"}} for name in names}


# -- orders --------------------------------------------------------------------------------------------------------


def order_of(row: Row, body: dict[str, Any]) -> dict[str, Any]:
    for name in body:
        if name not in ("inputs", "outputs", "response", "subscriber"):
            raise invalid(f"there is no field {name[:64]!r} here", "/" + name[:64])
    inputs = body.get("inputs", {})
    if not isinstance(inputs, dict):
        raise invalid("`inputs` is a JSON object", "/inputs")
    if body.get("response", "document") != "document":
        raise invalid("results are given as one document: `response` is `document`", "/response")
    check_outputs(row, body.get("outputs"))
    values = {name: plain_value(value, f"/inputs/{name}") for name, value in inputs.items()}
    order: dict[str, Any] = {"workflow_id": row["workflow_id"]}
    if row["produces"]:
        order |= {name: values.pop(name) for name in ASSET_INPUTS if name in values and name not in row["inputs"]}
    return {**order, "input_params": values}


def plain_value(value: Any, pointer: str) -> Any:
    """An input may be wrapped: `{"value": …}` with its format, or `{"bbox": […]}`. By reference none is read."""
    if isinstance(value, dict):
        if "href" in value:
            raise invalid("inputs by reference are not read: give the value itself", pointer)
        if "value" in value and value.keys() <= {"value", "mediaType", "encoding", "schema"}:
            return value["value"]
        if "bbox" in value and value.keys() <= {"bbox", "crs"}:
            return value["bbox"]
    return value


def check_outputs(row: Row, outputs: Any) -> None:
    if outputs is None:
        return
    if not isinstance(outputs, dict):
        raise invalid("`outputs` is a JSON object", "/outputs")
    declared = outputs_of(row)
    for name, wish in outputs.items():
        if name not in declared:
            raise invalid(f"there is no output {name[:64]!r}; there are {', '.join(declared)}", f"/outputs/{name[:64]}")
        if isinstance(wish, dict) and wish.get("transmissionMode", "value") != "value":
            raise invalid("outputs are given by value", f"/outputs/{name[:64]}/transmissionMode")


def subscriber_of(subscriber: Any) -> dict[str, str] | None:
    """Its addresses, by what each of them is told."""
    if subscriber is None:
        return None
    if not isinstance(subscriber, dict):
        raise invalid("`subscriber` is a JSON object", "/subscriber")
    if "successUri" not in subscriber:
        raise invalid("`subscriber` needs successUri, which gets the results", "/subscriber")
    for name, address in subscriber.items():
        if name not in SUBSCRIBER:
            raise invalid(
                f"there is no field {name[:64]!r} here; there are {', '.join(SUBSCRIBER)}", f"/subscriber/{name[:64]}"
            )
        if not isinstance(address, str):
            raise invalid(f"`{name}` is an address", f"/subscriber/{name}")
    return {SUBSCRIBER[name]: address for name, address in subscriber.items()}


# -- jobs ----------------------------------------------------------------------------------------------------------


class _JobFilter:
    """What is asked of a list of jobs: as far as possible as conditions of the database, the rest row by row."""

    def __init__(self, call: Call) -> None:
        self.is_possible = not (kinds := _listed(call, "type")) or "process" in kinds
        self._processes = _listed(call, "processID")
        self._statuses = _listed(call, "status")
        unknown = self._statuses - {*ASKED, "dismissed"}
        if unknown:
            raise invalid(f"status is one of {', '.join([*ASKED, 'dismissed'])}", "/query/status")
        self.state = ASKED.get(next(iter(self._statuses))) if len(self._statuses) == 1 else None
        if self.state == "running":
            # Ours has a state of its own for what waits for a person.
            self.state = None
        self.since, self._until = _interval(call)
        self._least, self._most = _seconds(call, "minDuration"), _seconds(call, "maxDuration")

    def fits(self, row: Row, line: dict[str, Any]) -> bool:
        if self._processes and row["workflow_id"] not in self._processes:
            return False
        if self._statuses and line["status"] not in self._statuses:
            return False
        if self._until is not None and row["submitted_at"] > self._until:
            return False
        if self._least is None and self._most is None:
            return True
        seconds = ((row["completed_at"] or datetime.now(UTC)) - row["submitted_at"]).total_seconds()
        return (self._least is None or seconds >= self._least) and (self._most is None or seconds <= self._most)


def _listed(call: Call, name: str) -> set[str]:
    text = call.query(name)
    if text is not None and len(text) > MOST_LIST_CHARACTERS:
        raise invalid(f"{name} has at most {MOST_LIST_CHARACTERS} characters", f"/query/{name}")
    return set() if not text else set(text.split(","))


def _seconds(call: Call, name: str) -> float | None:
    text = call.query(name)
    if text is not None and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise invalid(f"{name} is a number of seconds", f"/query/{name}")
    return None if text is None else float(text)


def _interval(call: Call) -> tuple[datetime | None, datetime | None]:
    """RFC 3339, one moment or `begin/end`; `..` or nothing is open."""
    text = call.query("datetime")
    if text is None:
        return None, None
    begin, separator, end = text.partition("/")
    try:
        parts = (begin, end) if separator else (begin, begin)
        moments = [None if part in ("", "..") else datetime.fromisoformat(part) for part in parts]
        if any(at is not None and not 1970 <= at.year <= 9998 for at in moments):
            raise ValueError(text)
    except ValueError:
        raise invalid("datetime is a moment, or two with a / between them", "/query/datetime") from None
    since, until = (at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at for at in moments)
    return since, until


async def find_job(call: Call) -> tuple[Row, float | None]:
    job = await call.gateway.reads.find_request(call.holder, call.path["jobID"])
    if job is None:
        raise exception(404, "no-such-job", "there is no such job")
    return job


def shown_line(call: Call, row: Row) -> dict[str, Any]:
    return line_info(row, call.link(""), state_of(row), moment(row["completed_at"]))


def exception(status: int, name: str, detail: str, *, retry: bool = False) -> Problem:
    """With the type that the specification gives it."""
    headers = {"Retry-After": str(orders.POLL_SECONDS)} if retry else {}
    problem = Problem(status, name.replace("-", "_"), detail, headers=headers)
    problem.body["type"] = f"{EXCEPTIONS}/{name}"
    return problem


def link(call: Call, path: str, rel: str, title: str) -> dict[str, str]:
    return link_to(call.link(""), path, rel, title)
