"""The face of OGC API – Processes described in OpenAPI 3.0, as its requirements class `oas30` asks."""

from __future__ import annotations

from typing import Any

import rmhdag

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
ADDRESS: Schema = {"type": "string", "format": "uri"}
OBJECT: Schema = {"type": "object", "additionalProperties": True}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def shape(needed: Schema, **optional: Schema) -> Schema:
    return {"type": "object", "required": list(needed), "properties": {**needed, **optional}}


LINK = shape({"href": TEXT}, rel=TEXT, type=TEXT, title=TEXT)
SUMMARY: Schema = {
    "id": TEXT,
    "version": TEXT,
    "title": TEXT,
    "description": TEXT,
    "jobControlOptions": listed({"type": "string", "enum": ["async-execute", "dismiss"]}),
    "outputTransmission": listed({"type": "string", "enum": ["value"]}),
    "links": listed(ref("link")),
}
STATES = ["accepted", "running", "successful", "failed", "dismissed"]
SCHEMAS: Schema = {
    "link": LINK,
    "landingPage": shape({"links": listed(ref("link"))}, title=TEXT, description=TEXT),
    "confClasses": shape({"conformsTo": listed(TEXT)}),
    "processSummary": shape(SUMMARY),
    "processList": shape({"processes": listed(ref("processSummary")), "links": listed(ref("link"))}),
    "process": shape({**SUMMARY, "inputs": OBJECT, "outputs": OBJECT}),
    "execute": {
        "type": "object",
        "properties": {
            "inputs": OBJECT,
            "outputs": OBJECT,
            "response": {"type": "string", "enum": ["document"], "default": "document"},
            "subscriber": shape({"successUri": ADDRESS}, failedUri=ADDRESS, inProgressUri=ADDRESS),
        },
    },
    "statusInfo": shape(
        {
            "jobID": TEXT,
            "status": {"type": "string", "enum": STATES},
            "type": {"type": "string", "enum": ["process"]},
        },
        processID=TEXT,
        message=TEXT,
        created=MOMENT,
        finished=MOMENT,
        updated=MOMENT,
        progress={"type": "integer", "minimum": 0, "maximum": 100},
        links=listed(ref("link")),
    ),
    "jobList": shape({"jobs": listed(ref("statusInfo")), "links": listed(ref("link"))}),
    "results": OBJECT,
    "exception": {
        **shape({"type": TEXT}, title=TEXT, status={"type": "integer"}, detail=TEXT),
        "additionalProperties": True,
    },
}


def document(url: str) -> Schema:
    process, job = parameter("processID", "path"), parameter("jobID", "path")
    limit = parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 500, "default": 100})
    filters = [parameter(name, "query") for name in ("type", "processID", "status", "datetime")]
    durations = [parameter(name, "query", {"type": "integer"}) for name in ("minDuration", "maxDuration")]
    execution = operation("Run a process", "201", "statusInfo", [process])
    execution["requestBody"] = {"content": {"application/json": {"schema": ref("execute")}}}
    execution["callbacks"] = {
        "jobSuccess": callback("successUri", "The results of a job that succeeded", "results"),
        "jobFailed": callback("failedUri", "A job has failed or was dismissed", "statusInfo"),
        "jobInProgress": callback("inProgressUri", "A job has started, or waits for approval", "statusInfo"),
    }
    return {
        "openapi": "3.0.3",
        "info": {"title": "rmhdag: OGC API – Processes", "version": rmhdag.__version__},
        "servers": [{"url": url}],
        "paths": {
            "/": {"get": operation("Where everything is", "200", "landingPage")},
            "/conformance": {"get": operation("What this implements", "200", "confClasses")},
            "/processes": {"get": operation("What can be run", "200", "processList", [limit])},
            "/processes/{processID}": {"get": operation("A process", "200", "process", [process])},
            "/processes/{processID}/execution": {"post": execution},
            "/jobs": {"get": operation("Your jobs", "200", "jobList", [*filters, *durations, limit])},
            "/jobs/{jobID}": {
                "get": operation("How a job stands", "200", "statusInfo", [job]),
                "delete": operation("Dismiss a job", "200", "statusInfo", [job]),
            },
            "/jobs/{jobID}/results": {"get": operation("The results of a job", "200", "results", [job])},
        },
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "Your API key"}},
        },
        "security": [{"key": []}],
    }


def callback(address: str, summary: str, body: str) -> Schema:
    """What is sent to an address of `subscriber`."""
    post = {
        "summary": summary,
        "requestBody": {"content": {"application/json": {"schema": ref(body)}}},
        "responses": {"200": {"description": "Received"}},
    }
    return {f"{{$request.body#/subscriber/{address}}}": {"post": post}}


def parameter(name: str, place: str, schema: Schema | None = None) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema or TEXT}


def operation(summary: str, status: str, answer: str, parameters: list[Schema] | None = None) -> Schema:
    refused = {"description": "Refused", "content": {"application/problem+json": {"schema": ref("exception")}}}
    good = {"description": summary, "content": {"application/json": {"schema": ref(answer)}}}
    return {"summary": summary, "parameters": parameters or [], "responses": {status: good, "default": refused}}
