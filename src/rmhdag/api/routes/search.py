"""Search for anything by its id or name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.models.api.search import SearchHits
from rmhdag.models.columns import Name
from rmhdag.views.search import search as find

router = APIRouter(prefix="/api/v1", tags=["search"])


@router.get("/search")
def search(
    caller: Reader,
    api: ApiContext,
    q: Annotated[
        Name,
        Query(
            description="The beginning of the id of a job, request, asset or task, `<job>/<node>`, or part of a name: "
            "of a workflow, node, submitter, correlation or platform reference"
        ),
    ],
) -> SearchHits:
    """Jobs, nodes, tasks, requests, assets and workflows by id or name."""
    with api.connection() as conn:
        return find(conn, caller.namespace, q)
