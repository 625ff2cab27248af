"""Orders of platforms, on a platform in one process."""

from __future__ import annotations

from typing import Any

from psycopg.rows import dict_row

from rmhdag.services.requests import Ordered, WorkOrder, order
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.workflow.definition import InputDefinition, WorkflowDefinition
from tests.engine.definitions import task
from tests.orchestrator.platform import Platform

REFS = {"dataset_id": "0038272", "resource_id": "r1"}


def raster_workflow(workflow_id: str = "make_raster", produces: Any = "raster") -> WorkflowDefinition:
    return WorkflowDefinition(
        workflow_id=workflow_id,
        name="Makes an asset",
        produces=produces,
        inputs={"n": InputDefinition(type="integer", default=1)},
        outputs={"n": "{{ inputs.n }}"},
        nodes={"one": task()},
    )


def place_order(conn: Conn, workflow_id: str = "make_raster", *, namespace: str = "default", **more: Any) -> Ordered:
    """For the same asset unless other refs are given."""
    given = {
        "workflow_id": workflow_id,
        "input_params": {},
        "submitted_by": "ann",
        "client_id": "ann",
        "request_id": new_id(),
        "platform_id": "ddh",
        "platform_refs": REFS,
    }
    return order(conn, WorkOrder(**{**given, **more}), namespace=namespace)


def asset_of(platform: Platform, ordered: Ordered) -> dict[str, Any]:
    return rows(platform, "SELECT * FROM dag_geospatial_assets WHERE asset_id = %s", ordered.request.asset_id)[0]


def revisions_of(platform: Platform, ordered: Ordered) -> list[dict[str, Any]]:
    query = "SELECT * FROM dag_asset_revisions WHERE asset_id = %s ORDER BY revision"
    return rows(platform, query, ordered.request.asset_id)


def rows(platform: Platform, query: str, *given: Any) -> list[dict[str, Any]]:
    with platform.conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), given).fetchall()
