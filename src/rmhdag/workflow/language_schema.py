"""The JSON Schema of workflow files, generated from the written models, so that editors complete and check them.

`python -m rmhdag.workflow.language_schema` prints it; `rmhdag schema` shows the stored copy.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from rmhdag.models.limits import MAX_NODES
from rmhdag.models.states import NodeType
from rmhdag.workflow.check_models import CHECK_MODELS, MOST_CHECKS, CheckType
from rmhdag.workflow.node_names import NODE_NAME
from rmhdag.workflow.written import NODE_MODELS, WrittenWorkflow

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The shape of a file. Whether names and templates fit together is beyond a schema; `validate` checks that."""
    models: list[type[BaseModel]] = [WrittenWorkflow, *NODE_MODELS.values(), *CHECK_MODELS.values()]
    references, generated = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/$defs/{model}"
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
    definitions["Check"] = {
        "type": "object",
        "properties": {"type": {"enum": [kind.value for kind in CheckType]}},
        "required": ["type"],
        "allOf": [
            {"if": {"properties": {"type": {"const": kind.value}}}, "then": references[model, "validation"]}
            for kind, model in CHECK_MODELS.items()
        ],
    }
    head["properties"]["checks"] = {
        "type": "array",
        "description": "What must hold before a job is created",
        "items": {"$ref": "#/$defs/Check"},
        "maxItems": MOST_CHECKS,
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
    head["description"] = "A workflow: its inputs, its steps and its outputs"
    return {"$schema": _DIALECT, **head, "$defs": definitions}


def _without_nulls(schema: Any) -> Any:
    """An optional field may be omitted but not null, although the models allow null."""
    if isinstance(schema, list):
        return [_without_nulls(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {key: _without_nulls(value) for key, value in schema.items() if not (key == "default" and value is None)}
    by_pattern = cleaned.pop("patternProperties", None)
    if isinstance(by_pattern, dict):
        # In the models every name must match; a schema would only check names that match.
        [(pattern, members)] = by_pattern.items()
        cleaned |= {"propertyNames": {"pattern": pattern}, "additionalProperties": members}
    choices = cleaned.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        rest = [choice for choice in choices if choice != {"type": "null"}]
        del cleaned["anyOf"]
        cleaned = {**rest[0], **cleaned} if len(rest) == 1 else {**cleaned, "anyOf": rest}
    return cleaned


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
