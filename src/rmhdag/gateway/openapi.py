"""The public description of the gateway: one OpenAPI document, and a page that can be read without a program."""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Any

import orjson

import rmhdag
from rmhdag.gateway.examples import EXAMPLES
from rmhdag.gateway.public_pages import CHANGES_PATH
from rmhdag.gateway.public_pages import page as public_page
from rmhdag.gateway.routes import OPERATIONS, Operation
from rmhdag.gateway.schemas import SCHEMAS, ref
from rmhdag.models.scopes import Scope

INTRODUCTION = (
    "Order data and learn whether it is ready. An order is answered at once with 202 and the address of its status; "
    "poll that address, or name a callback. Send an Idempotency-Key with every order: sent twice, it is one order. "
    "Errors are application/problem+json (RFC 9457)."
)
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
SUCCESSION = {
    "Deprecation": "Since when this name is old (RFC 9745)",
    "Sunset": "From when it may be gone (RFC 8594)",
    "Link": "The newer name, as successor-version",
}
LIMITS = {
    "RateLimit-Policy": "What this client may send",
    "RateLimit": "What is left of it, and when all of it is back",
}


@cache
def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        for path in (operation.path, *operation.aliases):
            address = PARAMETER.sub(r"{\1}", path)
            paths.setdefault(address, {})[operation.method.lower()] = _operation(operation, path)
    return {
        "openapi": "3.1.0",
        "info": {"title": "rmhdag gateway", "version": rmhdag.__version__, "description": INTRODUCTION},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "Your API key"},
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "An access token of your organisation, if your operator has bound it to you",
                },
            },
        },
        "security": [{"key": []}, {"token": []}],
        "externalDocs": {"url": CHANGES_PATH, "description": "What has changed"},
    }


def _operation(operation: Operation, path: str) -> dict[str, Any]:
    is_alias = path != operation.path
    name = re.sub(r"\W+", "_", f"{operation.method.lower()}{path}").strip("_") + ("_root" if path.endswith("/") else "")
    described: dict[str, Any] = {
        "operationId": name,
        "summary": operation.summary,
        "description": f"{operation.description} Needs one of the scopes {', '.join(operation.scopes)}.",
        "tags": [path.split("/")[1]],
        "parameters": [
            *(
                {"name": part, "in": "path", "required": True, "schema": {"type": "string"}}
                for part in PARAMETER.findall(path)
            ),
            *({"name": part, "in": "query", "schema": schema} for part, schema in operation.query.items()),
        ],
        "responses": {
            str(operation.status): {
                "description": "As asked for",
                "headers": {part: {"description": text, "schema": {"type": "string"}} for part, text in LIMITS.items()},
                "content": {operation.media_type: _content(operation.answer)},
            },
            "4XX": _problem("Refused; the body says what is wrong and where"),
            "5XX": _problem("Not possible now; Retry-After says when to send it again"),
        },
    }
    if operation.answer == "OrderAccepted":
        described["responses"]["200"] = {
            "description": "The status, if it was final in the time that `Prefer: wait=n` allows; or a dry run",
            "content": {"application/json": {"schema": {"anyOf": [ref("Status"), ref("DryRun")]}}},
        }
    if operation.takes_key:
        described["parameters"].append(
            {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": 128}}
        )
    if operation.answer == "Decided":
        described["responses"]["202"] = {
            "description": "Taken: the order that waits at a gate follows within seconds",
            "content": {"application/json": _content(operation.answer)},
        }
    if operation.has_references:
        described["parameters"].append(
            {
                "name": "references",
                "in": "query",
                "style": "form",
                "explode": True,
                "schema": {"type": "object", "additionalProperties": {"type": "string"}},
                "description": "References by their names, such as dataset_id=…",
            }
        )
    if operation.body is not None:
        is_needed = bool({"required", "anyOf"} & SCHEMAS[operation.body].keys())
        described["requestBody"] = {"required": is_needed, "content": {"application/json": _content(operation.body)}}
    if is_alias:
        described["deprecated"] = True
        described["responses"][str(operation.status)]["headers"] |= {
            name: {"description": text, "schema": {"type": "string"}} for name, text in SUCCESSION.items()
        }
        described["description"] = f"An older name of {operation.path}."
    return described


def _content(name: str) -> dict[str, Any]:
    return {"schema": ref(name), **({"example": EXAMPLES[name]} if name in EXAMPLES else {})}


def _problem(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/problem+json": _content("Problem")}}


@cache
def page() -> str:
    """Without scripts and without anything from elsewhere."""
    rows = "".join(
        f"<tr><td><code>{operation.method}</code></td><td><code>{html.escape(operation.path)}</code></td>"
        f"<td>{html.escape(operation.summary)}</td></tr>"
        for operation in OPERATIONS
        if Scope.B2B in operation.scopes
    )
    examples = "".join(
        f"<h3>{name}</h3><pre>{html.escape(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())}</pre>"
        for name, value in EXAMPLES.items()
    )
    return public_page(
        "rmhdag gateway",
        f"<p>{html.escape(INTRODUCTION)}</p>"
        '<p>The whole description for programs: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"<table>{rows}</table><h2>Examples</h2>{examples}",
    )
