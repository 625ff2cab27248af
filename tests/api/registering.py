"""Workflows for tests of the API, stored as `rmhdag workflows register` stores them."""

from __future__ import annotations

from rmhdag.picture.layout import layout
from rmhdag.store import workflows
from rmhdag.store.connection import connect, enter_schema
from rmhdag.workflow import definition_hash, definition_json
from rmhdag.workflow.definition import WorkflowDefinition


def register(dsn: str, definition: WorkflowDefinition, namespace: str = "default") -> None:
    stored = workflows.StoredWorkflow(
        definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
    )
    with connect(dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        workflows.register_workflow(conn, namespace, stored, "test", layout(definition).as_json(), development=True)
