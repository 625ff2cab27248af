"""The stored form of a definition and the hash of its meaning; importable without the YAML reader."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rmhdag.workflow.definition import WorkflowDefinition


def definition_json(definition: WorkflowDefinition) -> dict[str, Any]:
    """The stored form. Defaults are written out, so that a pinned definition means the same under later code."""
    return definition.model_dump(mode="json")


def definition_hash(definition: WorkflowDefinition) -> str:
    """The hash of the workflow's meaning, not of its YAML text.

    Fields at their default are omitted: a version of rmhdag that adds a field must not change the hash of old files.
    """
    meaning = definition.model_dump(mode="json", exclude_defaults=True)
    for name, node in definition.nodes.items():
        meaning["nodes"][name]["type"] = node.type.value
    canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
