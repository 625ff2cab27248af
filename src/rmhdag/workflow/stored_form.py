"""A definition as it is stored, and the hash of what it means; for those who have one, without what reads YAML."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rmhdag.workflow.definition import WorkflowDefinition


def definition_json(definition: WorkflowDefinition) -> dict[str, Any]:
    """As stored. Defaults are written out, so that a pinned definition means the same under later code."""
    return definition.model_dump(mode="json")


def definition_hash(definition: WorkflowDefinition) -> str:
    """Of what the workflow means, not of how its YAML is written.

    Fields at their default are left out: a version of rmhdag that adds a field must not change the hash of old files.
    """
    meaning = definition.model_dump(mode="json", exclude_defaults=True)
    for name, node in definition.nodes.items():
        meaning["nodes"][name]["type"] = node.type.value
    canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
