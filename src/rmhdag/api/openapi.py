"""The OpenAPI document: what FastAPI derives from the routes, made true where it guesses."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from rmhdag.api.problems import MEDIA_TYPE
from rmhdag.models.api.timeline import StreamedEvent

METHODS = frozenset({"get", "head", "put", "post", "delete", "patch"})


def operation_name(route: APIRoute) -> str:
    """The function's name, as clients will call it; a test sees to it that no two are alike."""
    return route.name


def describe(app: FastAPI) -> None:
    """Serve the document with problems under their own media type, and with links from what makes ids to what takes
    them.
    """
    derive = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = derive()
            paths = schema["paths"].values()
            for operation in (path[method] for path in paths for method in path if method in METHODS):
                if operation["summary"] == operation["operationId"].replace("_", " ").title():
                    operation["summary"] = _first_sentence(operation.get("description") or operation["summary"])
                _name_problems(operation)
            _link(schema["paths"])
            schema["components"]["schemas"] |= _stream_schemas()
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _stream_schemas() -> dict[str, Any]:
    """What the `data` of server-sent events holds: no response has it as its body, and clients read it all the same."""
    _, document = models_json_schema([(StreamedEvent, "serialization")], ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = document["$defs"]
    return schemas


def _first_sentence(text: str) -> str:
    """Of the route's docstring, where it has no summary: `Queue Status`, as FastAPI says, tells nobody anything."""
    return " ".join(text.split()).partition(". ")[0].rstrip(".")


def _name_problems(operation: dict[str, Any]) -> None:
    """Not all that is amiss is a problem: health answers 503 with itself."""
    for response in operation["responses"].values():
        described = list(response.get("content", {}).values())
        if described and described[0].get("schema", {}).get("$ref", "").endswith("/ProblemBody"):
            response["content"] = {MEDIA_TYPE: described[0]}


# What a successful answer holds, by the name of the path parameter that takes it.
MAKERS = {
    "job_id": ("post", "/api/v1/jobs"),
    "workflow_id": ("post", "/api/v1/workflows"),
    "request_id": ("post", "/api/v1/submit"),
    "asset_id": ("post", "/api/v1/assets/{asset_id}/rollback"),
}


def _link(paths: dict[str, Any]) -> None:
    for parameter, (method, path) in MAKERS.items():
        maker = paths.get(path, {}).get(method)
        if maker is None:
            continue
        takers = {
            operation["operationId"]: {
                "operationId": operation["operationId"],
                "parameters": {parameter: f"$response.body#/{parameter}"},
            }
            for taker_path, operations in paths.items()
            if f"{{{parameter}}}" in taker_path
            for verb, operation in operations.items()
            if verb in METHODS
        }
        for status, response in maker["responses"].items():
            if status[0] == "2":
                response["links"] = takers
