"""The JSON Schema of workflow files, made from the written models, so that editors complete and check them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from rmhdag.models.limits import MAX_NODES
from rmhdag.models.states import NodeType
from rmhdag.workflow.node_names import NODE_NAME
from rmhdag.workflow.written import NODE_MODELS, WrittenWorkflow

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """What a file may look like. That names and templates fit each other is beyond a schema; `validate` checks it."""
    references, generated = models_json_schema(
        [(WrittenWorkflow, "validation"), *((model, "validation") for model in NODE_MODELS.values())],
        ref_template="#/$defs/{model}",
    )
    definitions: dict[str, Any] = _without_nulls(generated["$defs"])
    head = definitions.pop("WrittenWorkflow")
    by_type = {kind: references[model, "validation"] for kind, model in NODE_MODELS.items()}
    definitions["Node"] = {
        "type": "object",
        "properties": {"type": {"enum": [kind.value for kind in NodeType], "description": "May be left out for tasks"}},
        "anyOf": [{"required": ["type"]}, {"required": ["handler"]}],
        "allOf": [
            *(
                {"if": {"properties": {"type": {"const": kind.value}}, "required": ["type"]}, "then": reference}
                for kind, reference in by_type.items()
            ),
            {"if": {"not": {"required": ["type"]}}, "then": by_type[NodeType.TASK]},
        ],
    }
    head["properties"]["nodes"] = {
        "type": "object",
        "description": "The steps, by name",
        "propertyNames": {"pattern": NODE_NAME},
        "additionalProperties": {"$ref": "#/$defs/Node"},
        "minProperties": 1,
        "maxProperties": MAX_NODES,
    }
    head["required"] = ["workflow_id", "nodes"]
    head["description"] = "A workflow: what a job is given, the steps it takes, and what it gives back"
    return {"$schema": _DIALECT, **head, "$defs": definitions}


def _without_nulls(schema: Any) -> Any:
    """A field that may be left out is not one that may be null, though the models say so."""
    if isinstance(schema, list):
        return [_without_nulls(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {key: _without_nulls(value) for key, value in schema.items() if not (key == "default" and value is None)}
    by_pattern = cleaned.pop("patternProperties", None)
    if isinstance(by_pattern, dict):
        # The models mean that every name must match, a schema that only matching names are looked at.
        [(pattern, members)] = by_pattern.items()
        cleaned |= {"propertyNames": {"pattern": pattern}, "additionalProperties": members}
    choices = cleaned.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        rest = [choice for choice in choices if choice != {"type": "null"}]
        del cleaned["anyOf"]
        cleaned = {**rest[0], **cleaned} if len(rest) == 1 else {**cleaned, "anyOf": rest}
    return cleaned
